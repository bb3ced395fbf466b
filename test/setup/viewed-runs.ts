// `ranktrace view` (or any command that serves the page) for one test, and stores made by hand for it to show.

import { deflateRawSync } from 'node:zlib';
import { RunStore } from '@ranktrace/aggregator';
import { type Batch, encodeBatch, type RunLine } from '@ranktrace/protocol';
import { WebSocket } from 'ws';
import { type CommandResult, type StartedCommand, startCommand } from './ranktrace-command.ts';

export interface ServedPage extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/` */
  readonly address: string;
  readonly command: StartedCommand;
  /** Ctrl-C; resolves when the command has ended. */
  end(): Promise<CommandResult>;
}

/** Starts `ranktrace view ARGS…`; resolves when the page is served. Everything is read when the command prints "indexed". */
export async function startView(args: readonly string[], environment: Record<string, string> = {}): Promise<ServedPage> {
  return servedBy(startCommand(['view', '--no-open', ...args], environment));
}

/** Resolves when `command` has printed the address of its page. */
export async function servedBy(command: StartedCommand): Promise<ServedPage> {
  await command.said('view: http');
  const address = /view: (http:\S+)/.exec(command.output())?.[1] as string;
  const end = (): Promise<CommandResult> => {
    command.child.kill('SIGINT');
    return command.ended;
  };
  return { address, command, end, [Symbol.asyncDispose]: async () => void (await end()) };
}

/** Writes a run store `out/run` of these batches; their headers must name that run. */
export async function storeRun(out: string, run: string, batches: Iterable<Batch>): Promise<void> {
  await using store = new RunStore(out, run);
  for (const batch of batches) store.append(encodeBatch(batch, deflateRawSync), batch.header);
}

/** The runs in the message that a page gets. */
export async function runsAt(address: string, headers: Record<string, string> = {}): Promise<readonly RunLine[]> {
  const socket = new WebSocket(new URL('/v1/view', address.replace(/^http/, 'ws')), { headers });
  try {
    return await new Promise((resolve, reject) => {
      socket.once('error', reject);
      socket.once('open', () => socket.send(JSON.stringify({ id: 1, type: 'runs' })));
      socket.on('message', (bytes: Buffer) => {
        const message = JSON.parse(bytes.toString());
        if (message.type === 'runs') resolve(message.runs);
        if (message.type === 'answer') resolve(message.answer.runs ?? message.answer);
      });
    });
  } finally {
    socket.close();
  }
}

export const namesAt = async (address: string): Promise<string[]> => (await runsAt(address)).map(({ run }) => run);

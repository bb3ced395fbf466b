// A real nats-server with JetStream for one test: its own process, port and store folder.
//
//   await using server = await startNatsServer();
//   server.kill9(); await server.restart();      // same port, same store: what was acknowledged is still there
//
// Invariant: disposing ends the process and removes its folder; nothing outlives the test.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const readyWithinMs = 20_000;
const outputCharsMax = 64 * 1024;

export interface NatsServerOptions {
  /** A free one when left out. */
  readonly port?: number;
  /** More lines of nats-server configuration, such as `authorization { user: a, password: b }`. */
  readonly config?: string;
}

export interface NatsServer extends AsyncDisposable {
  readonly port: number;
  /** nats://127.0.0.1:PORT */
  readonly url: string;
  /** Folder of the JetStream store; stays the same over `restart`. */
  readonly storeDirectory: string;
  /** What the server has written to its log so far (the last 64 Ki characters). */
  output(): string;
  /** Ends the process at once, as a crash would; resolves when it is gone. */
  kill9(): Promise<void>;
  /** Starts it again on the same port and store; ends it in good order first where it still runs. */
  restart(): Promise<void>;
}

/** Starts a server and waits until it takes connections; throws with its output when it does not within 20 s. */
export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const port = options.port ?? (await freePort());
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-nats-'));
  const storeDirectory = join(directory, 'ranktrace-nats');
  const configFile = join(directory, 'nats.conf');
  writeFileSync(
    configFile,
    // What the quick start runs: its store lies where the server is started.
    `${readFileSync(`${repository}deploy/nats.conf`, 'utf8')}\n${options.config ?? ''}\n`,
  );

  let log = '';
  let child: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    const started = spawn(process.env.NATS_SERVER_BIN ?? 'nats-server', ['-c', configFile, '-p', `${port}`], {
      cwd: directory,

      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    // A test that is killed must not leave a server behind.
    const endWithTest = () => started.kill('SIGKILL');
    process.once('exit', endWithTest);
    started.once('exit', () => process.off('exit', endWithTest));
    started.once('error', (error) => {
      log += `${error.message}\n`;
    });
    for (const stream of [started.stdout, started.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        log = (log + text).slice(-outputCharsMax);
      });
    }
    const deadline = performance.now() + readyWithinMs;
    while (!(await accepts(port))) {
      if (started.exitCode === null && started.signalCode === null && started.pid !== undefined && performance.now() < deadline) continue;
      await stop('SIGKILL');
      throw new Error(`Cannot start nats-server on port ${port}: it must take connections within ${readyWithinMs} ms; it said:\n${log}`);
    }
  };

  const stop = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<void> => {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.pid === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const gone = once(ending, 'exit');
    ending.kill(signal);
    const impatience = setTimeout(() => ending.kill('SIGKILL'), 5_000);
    await gone;
    clearTimeout(impatience);
  };

  const remove = () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  try {
    await start();
  } catch (error) {
    remove();
    throw error;
  }
  return {
    port,
    url: `nats://127.0.0.1:${port}`,
    storeDirectory,
    output: () => log,
    kill9: () => stop('SIGKILL'),
    async restart() {
      await stop('SIGTERM');
      await start();
    },
    async [Symbol.asyncDispose]() {
      await stop('SIGTERM');
      remove();
    },
  };
}

/** A port nobody listens on right now. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error(`Cannot find a free port: the system answered ${String(address)}`);
  return address.port;
}

/** Whether a NATS server greets on `port`: it speaks first, with its INFO line. Waits 50 ms after a refusal. */
function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const answer = (greeted: boolean) => {
      socket.destroy();
      if (greeted) resolve(true);
      else setTimeout(resolve, 50, false);
    };
    socket.setTimeout(1_000, () => answer(false));
    socket.once('data', (data) => answer(data.toString('latin1').startsWith('INFO ')));
    socket.once('error', () => answer(false));
  });
}

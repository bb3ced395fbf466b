// A real nats-server with JetStream for one test: its own process, port and store folder.
//
//   await using server = await startNatsServer();
//   server.kill9(); await server.restart();      // same port, same store: what was acknowledged is still there
//
// Invariant: disposing ends the process and removes its folder; nothing outlives the test.

import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, ServerProcess } from './server-process.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));

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
  const server = new ServerProcess('nats');
  const configFile = join(server.directory, 'nats.conf');
  writeFileSync(
    configFile,
    // What the quick start runs: its store lies where the server is started.
    `${readFileSync(`${repository}deploy/nats.conf`, 'utf8')}\n${options.config ?? ''}\n`,
  );
  const start = (): Promise<void> =>
    server.start({
      name: `nats-server on port ${port}`,
      command: process.env.NATS_SERVER_BIN ?? 'nats-server',
      args: ['-c', configFile, '-p', `${port}`],
      isReady: () => accepts(port),
    });
  await start();
  return {
    port,
    url: `nats://127.0.0.1:${port}`,
    storeDirectory: join(server.directory, 'ranktrace-nats'),
    output: () => server.output,
    kill9: () => server.stop('SIGKILL'),
    async restart() {
      await server.stop('SIGTERM');
      await start();
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
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

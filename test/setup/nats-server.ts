// A real nats-server with JetStream for one test: its own process, port and store folder.
//
//   await using server = await startNatsServer();
//   server.kill9(); await server.restart();      // same port, same store: acknowledged messages are still there
//   await using server = await startNatsCluster({ names: ['127.0.0.1'], runs: ['night'] });    // the cluster's: TLS, a user for each run
//
// Invariant: disposing ends the process and removes its folder; nothing outlives the test.

import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
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
  /** The server's log so far (the last 64 Ki characters). */
  output(): string;
  /** SIGSTOP freezes it, SIGCONT lets it continue. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
  /** Ends the process at once, as a crash would; resolves when it is gone. */
  kill9(): Promise<void>;
  /** Starts it again on the same port and store; if it still runs, ends it in good order first. */
  restart(): Promise<void>;
}

/** Starts a server and waits until it takes connections; throws with its output when it does not within 100 s. */
export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const port = options.port ?? (await freePort());
  const server = new ServerProcess('nats');
  const configFile = join(server.directory, 'nats.conf');
  writeFileSync(
    configFile,
    // The configuration of the quick start: its store lies where the server is started.
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
    signal: (name) => server.signal(name),
    kill9: () => server.stop('SIGKILL'),
    async restart() {
      await server.stop('SIGTERM');
      await start();
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

export interface NatsCluster extends NatsServer {
  /** Folder of the authority, users and the files for their processes: the output of deploy/make-access.sh. */
  readonly access: string;
  /** The variables of an `.env` file there, and the server's address. */
  environment(user: string, host?: string): Record<string, string>;
  /** Gives a run access while the server runs. */
  allow(run: string): Promise<void>;
}

/** Starts the server of a cluster, as in deploy/README.md, in a folder of its own; `names` are those of its certificate. */
export async function startNatsCluster({ names, runs }: { names: readonly string[]; runs: readonly string[] }): Promise<NatsCluster> {
  const port = await freePort();
  const server = new ServerProcess('nats-cluster');
  const access = join(server.directory, 'access');
  const makeAccess = (...runs: string[]): void => {
    const env = { ...process.env, RANKTRACE_ACCESS: access };
    execFileSync(`${repository}deploy/make-access.sh`, [names.join(','), ...runs], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  };
  makeAccess(...runs);
  copyFileSync(`${repository}deploy/nats-cluster.conf`, join(server.directory, 'nats-cluster.conf'));
  const start = (): Promise<void> =>
    server.start({
      name: `nats-server of a cluster on port ${port}`,
      command: process.env.NATS_SERVER_BIN ?? 'nats-server',
      args: ['-c', 'nats-cluster.conf', '-p', `${port}`],
      isReady: () => accepts(port),
    });
  await start();
  return {
    port,
    url: `tls://127.0.0.1:${port}`,
    storeDirectory: join(server.directory, 'ranktrace-nats'),
    access,
    output: () => server.output,
    environment: (user, host = '127.0.0.1') => {
      const lines = readFileSync(join(access, `${user}.env`), 'utf8')
        .trim()
        .split('\n');
      return { ...Object.fromEntries(lines.map((line) => line.split(/=(.*)/, 2))), RANKTRACE_URL: `tls://${host}:${port}` };
    },
    async allow(run) {
      makeAccess(run);
      await server.reload(/Reloaded server configuration/);
    },
    signal: (name) => server.signal(name),
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

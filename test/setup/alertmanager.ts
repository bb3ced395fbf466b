// A real Alertmanager for one test: its own process, port and folder. What it sends goes to `webhook`.
//
// Invariant: disposing ends the process and removes its folder; nothing outlives the test.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './nats-server.ts';

const readyWithinMs = 20_000;
const outputCharsMax = 64 * 1024;

/** An alert as `GET /api/v2/alerts` gives it. */
export interface GettableAlert {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL: string;
  readonly status: { readonly state: string };
}

export interface Alertmanager extends AsyncDisposable {
  /** http://127.0.0.1:PORT */
  readonly url: string;
  /** What it holds as active now. */
  alerts(): Promise<GettableAlert[]>;
  /** Ends it and starts it again on the same port; it remembers no alert. */
  restart(): Promise<void>;
}

/** Starts it and waits until it is ready; throws with its output when it is not within 20 s. */
export async function startAlertmanager(webhook: string): Promise<Alertmanager> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-alertmanager-'));
  const config = join(directory, 'alertmanager.yml');
  writeFileSync(
    config,
    [
      'route: { receiver: test, group_by: [incident], group_wait: 100ms, group_interval: 300ms, repeat_interval: 1h }',
      'receivers:',
      '  - name: test',
      `    webhook_configs: [{ url: ${JSON.stringify(webhook)}, send_resolved: true }]`,
    ].join('\n'),
  );
  let log = '';
  let child: ChildProcess | undefined;
  const isRunning = (): boolean => child?.pid !== undefined && child.exitCode === null && child.signalCode === null;

  const start = async (): Promise<void> => {
    const args = [`--config.file=${config}`, `--storage.path=${join(directory, 'data')}`, `--web.listen-address=127.0.0.1:${port}`];
    const started = spawn(process.env.ALERTMANAGER_BIN ?? 'prometheus-alertmanager', [...args, '--cluster.listen-address='], {
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
    while (!(await isReady(url))) {
      if (isRunning() && performance.now() < deadline) continue;
      await stop();
      throw new Error(`Cannot start Alertmanager on port ${port}: it must be ready within ${readyWithinMs} ms; it said:\n${log}`);
    }
  };

  const stop = async (): Promise<void> => {
    const ending = child;
    if (ending === undefined || !isRunning()) return;
    const gone = once(ending, 'exit');
    ending.kill('SIGKILL');
    await gone;
  };

  const remove = () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  try {
    await start();
  } catch (error) {
    remove();
    throw error;
  }
  return {
    url,
    async alerts() {
      const response = await fetch(`${url}/api/v2/alerts?active=true`);
      return (await response.json()) as GettableAlert[];
    },
    async restart() {
      await stop();
      await start();
    },
    async [Symbol.asyncDispose]() {
      await stop();
      remove();
    },
  };
}

/** Whether it answers; waits 50 ms after a refusal. */
async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/-/ready`)).ok;
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return false;
  }
}

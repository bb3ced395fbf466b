// A real Alertmanager for one test: its own process, port and folder. It sends its notifications to `webhook`.
//
// Invariant: disposing ends the process and removes its folder; nothing outlives the test.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, ServerProcess } from './server-process.ts';

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
  /** Its active alerts. */
  alerts(): Promise<GettableAlert[]>;
  /** Restarts it on the same port; it remembers no alert. */
  restart(): Promise<void>;
}

/** Starts it and waits until it is ready; throws with its output when it is not within 100 s. */
export async function startAlertmanager(webhook: string): Promise<Alertmanager> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = new ServerProcess('alertmanager');
  const config = join(server.directory, 'alertmanager.yml');
  writeFileSync(
    config,
    [
      'route: { receiver: test, group_by: [incident], group_wait: 100ms, group_interval: 300ms, repeat_interval: 1h }',
      'receivers:',
      '  - name: test',
      `    webhook_configs: [{ url: ${JSON.stringify(webhook)}, send_resolved: true }]`,
    ].join('\n'),
  );
  const paths = [`--config.file=${config}`, `--storage.path=${join(server.directory, 'data')}`];
  const start = (): Promise<void> =>
    server.start({
      name: `Alertmanager on port ${port}`,
      command: process.env.ALERTMANAGER_BIN ?? 'prometheus-alertmanager',
      args: [...paths, `--web.listen-address=127.0.0.1:${port}`, '--cluster.listen-address='],
      isReady: () => isReady(url),
    });
  await start();
  return {
    url,
    async alerts() {
      const response = await fetch(`${url}/api/v2/alerts?active=true`);
      return (await response.json()) as GettableAlert[];
    },
    async restart() {
      await server.stop('SIGKILL');
      await start();
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
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

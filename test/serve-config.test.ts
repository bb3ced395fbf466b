// `ranktrace serve --config` and `--check-config` as a person types them.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { startRanks } from './setup/rank-programs.ts';
import { runCommand, startCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-config-'));
afterAll(() => rmSync(directory, { recursive: true }));
const config = (text: string): string => {
  const path = join(directory, 'alerts.yml');
  writeFileSync(path, text);
  return path;
};

it('--check-config says ok with 0, or every error with 2, and starts nothing', async () => {
  const right = await runLine(['serve', '--check-config', '--config', config('rules: { hang: false }\n')]);
  expect(right).toMatchObject({ code: 0, stdout: 'ok\n', stderr: '' });
  const path = config('rules:\n  hnag: false\noutputs:\n  - type: pager\n');
  const wrong = await runLine(['serve', '--check-config', '--config', path]);
  expect(wrong).toMatchObject({ code: 2, stdout: '' });
  expect(wrong.stderr.trim().split('\n')).toEqual([
    expect.stringContaining(`${path}:2: rules.hnag is not known here: allowed are step_time, `),
    `${path}:4: outputs[0].type must be one of log, webhook, alertmanager, nats, exit_code, got "pager"`,
  ]);
});

it('--check-config wants a file, and NATS where an output needs it', async () => {
  expect(await runLine(['serve', '--check-config'])).toMatchObject({
    code: 2,
    stderr: 'ranktrace: --check-config needs --config FILE\n',
  });
  const path = config('outputs: [{ type: nats }]\n');
  const without = await runLine(['serve', '--check-config', '--config', path]);
  expect(without).toMatchObject({ code: 2, stderr: `${path}: output "nats" needs NATS: name its servers with --nats\n` });
  const named = await runLine(['serve', '--check-config', '--config', path, '--nats', 'nats://localhost:4222']);
  expect(named).toMatchObject({ code: 0, stdout: 'ok\n' });
});

it('serve ends at once with 2 when its configuration is wrong, and runs when it is right', async () => {
  const options = ['serve', '--listen', '0', '--out', join(directory, 'out'), '--config'];
  const wrong = await runCommand([...options, config('outputs: 5\n')]);
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toMatch(/^ranktrace: .*alerts\.yml:1: outputs must be a list of outputs, at most 32, got 5\n$/);
  const gone = await runCommand([...options, join(directory, 'gone.yml')]);
  expect(gone).toMatchObject({ code: 2, stderr: `ranktrace: Cannot read "${join(directory, 'gone.yml')}": there is no such file\n` });
  const right = startCommand([...options, config('outputs: [{ type: exit_code }]\n')]);
  await right.said('listening on');
  right.child.kill('SIGINT');
  expect((await right.ended).code).toBe(0);
});

it('an alert is a line of the log, and with an exit_code output serve ends with 1', async () => {
  const text = [
    'page: https://ranktrace.example/',
    'rules: { step_time_limit: { limit: 2ms } }',
    'capture: false',
    'outputs: [{ type: log }, { type: exit_code, rules: [step_time_limit] }]',
  ].join('\n');
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', join(directory, 'limit'), '--config', config(text)]);
  await service.said('listening on http://127.0.0.1:');
  const [address = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(service.output()) ?? [];
  const [rank] = await startRanks(1, ['test/programs/steps.mjs', '200', '5'], {
    RANKTRACE_URL: address.replace('http', 'ws'),
    RANKTRACE_RUN: 'limited',
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
  });
  await service.said('ranktrace: run limited: critical step_time_limit firing: steps take');
  await service.said('ranktrace:   timeline: https://ranktrace.example/#/timeline?run=limited');
  expect((await rank?.ended)?.code).toBe(0);
  service.child.kill('SIGINT');
  expect((await service.ended).code).toBe(1);
});

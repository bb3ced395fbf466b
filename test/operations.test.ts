// Compares docs/operations.md with the commands:
//
//   <!-- run: NAME -->     the commands below are run, all in one folder and in the order of the page
//   <!-- serve -->         this one goes on beside them, until the end
//
// Every other command of the page names options that its help has. The figures of the sizing table are those of this run, except for differences in
// compression between versions of Node.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commandPath, repository } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';

const page = readFileSync(`${repository}docs/operations.md`, 'utf8');
const blocks = [...page.matchAll(/^<!-- (run|serve)(?:: (\w+))? -->\n```sh\n([\s\S]*?)\n```$/gm)].map(
  ([, kind = '', name = kind, code = '']) => ({
    name,
    code,
  }),
);

let folder: string;
let port: number;
let service: ChildProcess | undefined;
let said = '';

const environment = (): NodeJS.ProcessEnv => ({ ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}`, RANKTRACE_TOKEN: '' });

interface Ran {
  readonly code: number;
  readonly output: string;
}

/** Runs a block of the page as a person pastes it. */
function run(code: string): Promise<Ran> {
  const script = `set -eu\n${code.replaceAll('7400', `${port}`)}`;
  return new Promise((resolve) => {
    execFile('bash', ['-c', script], { cwd: folder, env: environment() }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr });
    });
  });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ranktrace-operations-'));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin', 'ranktrace'), `#!/bin/sh\nexec "${process.execPath}" "${commandPath}" "$@"\n`);
  // npx finds the built command here, too.
  writeFileSync(join(folder, 'bin', 'npx'), '#!/bin/sh\nexec "$@"\n');
  for (const name of ['ranktrace', 'npx']) chmodSync(join(folder, 'bin', name), 0o755);
  port = await freePort();
});
afterAll(async () => {
  if (service !== undefined && service.exitCode === null) {
    const ended = once(service, 'close');
    service.kill('SIGTERM');
    await ended;
  }
  rmSync(folder, { recursive: true });
});

describe('commands', () => {
  it.for(blocks)('$name', async ({ name, code }) => {
    if (name !== 'serve') {
      const { code: status, output } = await run(code);
      expect(status, output).toBe(0);
      return;
    }
    service = spawn('bash', ['-c', `exec ${code.replaceAll('7400', `${port}`)}`], { cwd: folder, env: environment() });
    await new Promise<void>((resolve, reject) => {
      for (const stream of [service?.stdout, service?.stderr]) {
        stream?.setEncoding('utf8').on('data', (text: string) => {
          said += text;
          if (said.includes('storing in')) resolve();
        });
      }
      service?.once('close', () => reject(new Error(said)));
    });
    expect(said).toContain(`listening on https://127.0.0.1:${port}`);
  });
});

it('ran all of them, and they did what the page says', () => {
  expect(blocks.map(({ name }) => name)).toEqual(['doctor', 'tokens', 'certificate', 'serve', 'clients', 'prune', 'sizing', 'backup']);
  expect(readFileSync(join(folder, 'report.txt'), 'utf8')).toContain('run night: 4 of 4 ranks');
  expect(existsSync(join(folder, 'runs'))).toBe(true);
});

it('the sizing table has what the commands above it measured', () => {
  const { pruned } = JSON.parse(readFileSync(join(folder, 'sizing.json'), 'utf8')) as {
    pruned: { what: string; bytesBefore: number; bytesAfter: number }[];
  };
  const bytes = { came: pruned[0]?.bytesBefore ?? 0, summary: pruned[0]?.bytesAfter ?? 0, mark: pruned[1]?.bytesAfter ?? 0 };
  const rows = [...page.matchAll(/^\| [^|]+ \| ([\d ]+) \| (\d+) B/gm)].map(([, all = '', each]) => [
    Number(all.replaceAll(' ', '')),
    Number(each),
  ]);
  const measured = [
    [bytes.came, bytes.came / (64 * 60)],
    [bytes.summary, bytes.summary / (64 * 60)],
    [bytes.mark, bytes.mark / 64],
  ];
  expect(rows).toHaveLength(3);
  for (const [row, values] of measured.entries()) {
    for (const [column, value] of values.entries()) {
      const written = rows[row]?.[column] ?? 0;
      expect(Math.abs(written - value) / value, `row ${row}: the page says ${written}, measured ${value}`).toBeLessThan(0.03);
    }
  }
});

it('every option on the page is one of the command it stands with', () => {
  const help = readFileSync(`${repository}docs/command-line.md`, 'utf8').split(/^## ranktrace /m);
  const helpOf = (command: string): string => help.find((part) => part.startsWith(`${command}\n`)) ?? '';
  const lines = page
    .replaceAll('\\\n', ' ')
    .matchAll(/\branktrace (run|serve|view|merge|report|prune|simulate|doctor|alerts|capture|top) ([^`\n]*)/g);
  const wrong = [...lines].flatMap(([line, command = '', rest = '']) =>
    [...rest.matchAll(/(?<![\w-])(--[a-z-]+)/g)].flatMap(([, option = '']) =>
      helpOf(command).includes(`${option} `) ? [] : [`${option} in: ${line}`],
    ),
  );
  expect(wrong).toEqual([]);
});

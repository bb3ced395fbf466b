// `ranktrace table` on torch.profiler's own files, against torch's own tables of the same profiles (test/data).

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const reference = join(repository, 'test/data/kineto/torch-reference');
const names = readdirSync(reference)
  .filter((name) => name.endsWith('.expected.json'))
  .map((name) => name.replace('.expected.json', ''));
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-torch-'));
afterAll(() => rmSync(directory, { recursive: true }));

interface Expected {
  readonly averages: Readonly<Record<string, readonly Record<string, unknown>[]>>;
  readonly tables: Readonly<Record<string, string>>;
}

const flags: Readonly<Record<string, readonly string[]>> = {
  default: [],
  input_shape: ['--group-by-shape'],
  stack5: ['--group-by-stack', '5'],
};

describe.each(names)('%s', (name) => {
  const file = join(reference, `${name}.pt.trace.json.gz`);
  const expected = JSON.parse(readFileSync(join(reference, `${name}.expected.json`), 'utf8')) as Expected;

  it.each(Object.keys(expected.averages).filter((group) => group !== 'total'))('--json, grouped by %s', async (group) => {
    const { stdout, code } = await runLine(['table', file, '--json', ...(flags[group] as string[])]);
    expect(code).toBe(0);
    const rows = JSON.parse(stdout) as Record<string, unknown>[];
    const total = rows.pop();
    const torchTotal = expected.averages.total as unknown as Readonly<Record<string, unknown>>;
    for (const field of ['key', 'count', 'cpu_time_total', 'self_cpu_time_total', 'self_cpu_memory_usage', 'flops']) {
      expect(total?.[camel(field)], `total ${field}`).toBe(torchTotal[field]);
    }
    const identity = (key: unknown, shapes: unknown, stack: unknown): string => JSON.stringify([key, shapes, stack]);
    const wanted = new Map(expected.averages[group]?.map((row) => [identity(row.key, row.input_shapes, row.stack), row]));
    expect(rows).toHaveLength(wanted.size);
    for (const row of rows) {
      const torch = wanted.get(identity(row.key, row.inputShapes, row.stack));
      for (const field of ['count', 'cpu_memory_usage', 'self_cpu_memory_usage', 'flops']) {
        expect(row[camel(field)], `${row.key} ${field}`).toBe(torch?.[field]);
      }
      // Within 1 ns per event of rounding; times are µs.
      for (const field of ['cpu_time_total', 'self_cpu_time_total']) {
        expect(Math.abs((row[camel(field)] as number) - (torch?.[field] as number))).toBeLessThanOrEqual((row.count as number) * 1e-3);
      }
    }
  });

  it.each(Object.keys(expected.tables).filter((key) => key.includes('|')))('as text, %s', async (key) => {
    const [group, sort, limit] = key.split('|') as [string, string, string];
    const { stdout } = await runLine(['table', file, '--sort', sort, '--limit', limit, ...(flags[group] as string[])]);
    expect(stdout).toBe(expected.tables[key]);
  });
});

it('--limit -1 is all rows, as in torch', async () => {
  const file = join(reference, 'bmm_nested.pt.trace.json.gz');
  const lines = async (...options: string[]): Promise<number> =>
    (await runLine(['table', file, ...options])).stdout.trim().split('\n').length;
  expect(await lines('--limit', '-1')).toBe(await lines('--limit', '1000000'));
  expect(await lines('--limit', '-1')).toBeGreaterThan(await lines('--limit', '2'));
});

describe('grouped by shapes that were not recorded', () => {
  it('is the table without shapes, as torch prints it', async () => {
    const text = gunzipSync(readFileSync(join(reference, 'conv_train.pt.trace.json.gz'))).toString();
    const profile = JSON.parse(text) as { traceEvents: { args?: Record<string, unknown> }[] };
    for (const { args } of profile.traceEvents) for (const key of Object.keys(args ?? {})) if (key.startsWith('Input')) delete args?.[key];
    const path = join(directory, 'no shapes.json');
    writeFileSync(path, JSON.stringify({ ...profile, with_flops: undefined, record_shapes: undefined }));
    const [grouped, plain] = await Promise.all([runLine(['table', path, '--group-by-shape']), runLine(['table', path])]);
    expect(grouped.stdout).not.toContain('Input Shapes');
    expect(grouped.stdout).toBe(plain.stdout);
  });
});

describe('Python functions', () => {
  const profile = () => JSON.parse(gunzipSync(readFileSync(join(reference, 'mask_indices.pt.trace.json.gz'))).toString());
  const written = (name: string, metadata: object): string => {
    const path = join(directory, `${name}.json`);
    writeFileSync(path, JSON.stringify({ ...profile(), ...metadata }));
    return path;
  };
  const keysOf = async (path: string, ...options: string[]): Promise<string[]> =>
    (JSON.parse((await runLine(['table', path, '--json', ...options])).stdout) as { key: string }[]).map(({ key }) => key);
  const isPython = (key: string): boolean => /\.py\(\d+\): |^<built-in |^nn\.Module: /.test(key);

  it.each([
    [{}, true],
    [{ torch_version: '2.13.0+cpu' }, true],
    [{ torch_version: '1.13.1' }, true],
    [{ torch_version: '2.14.0' }, false],
    [{ pytorch_version: '2.14.1+cu130' }, false],
    [{ torch_version: '3.0.0a0' }, false],
  ])('of a file with %j have rows: %s; either can be asked for', async (metadata, hasRows) => {
    const path = written(`python ${JSON.stringify(metadata).replace(/\W/g, ' ')}`, metadata);
    const keys = await keysOf(path);
    expect(keys.some(isPython)).toBe(hasRows);
    const [some, none] = [await keysOf(path, '--python-functions'), await keysOf(path, '--no-python-functions')];
    expect(some.some(isPython)).toBe(true);
    expect(none).toEqual(some.filter((key) => !isPython(key)));
    expect(keys).toEqual(hasRows ? some : none);
  });

  it('have no part in the total and the shares of the others where they have no rows', async () => {
    const path = written('python total', { torch_version: '2.14.1' });
    const rows = JSON.parse((await runLine(['table', path, '--json'])).stdout) as {
      key: string;
      selfCpuTimeTotal: number;
      count: number;
    }[];
    const total = rows.pop();
    expect(total?.count).toBe(rows.reduce((sum, { count }) => sum + count, 0));
    expect(total?.selfCpuTimeTotal).toBeCloseTo(
      rows.reduce((sum, { selfCpuTimeTotal }) => sum + selfCpuTimeTotal, 0),
      6,
    );
    const { stdout } = await runLine(['table', path]);
    expect(stdout).toContain(`Self CPU time total: ${((total?.selfCpuTimeTotal ?? 0) / 1000).toFixed(3)}ms`);
  });
});

describe('files that are no profile', () => {
  const whole = gunzipSync(readFileSync(join(reference, 'bmm_nested.pt.trace.json.gz')));
  const zipped = readFileSync(join(reference, 'bmm_nested.pt.trace.json.gz'));
  const cases: readonly [string, Uint8Array, RegExp][] = [
    ['broken JSON', Buffer.from('{"traceEvents":[{"ph":"X",}]}'), /broken JSON\.json"/],
    ['other JSON', Buffer.from('{"hello":1}'), /traceEvents/],
  ];

  it.each([
    ['cut JSON', whole.subarray(0, 5000)],
    ['cut gzip', zipped.subarray(0, 900)],
  ])('%s is read up to the break, with one clear line about it', async (what, bytes) => {
    const path = join(directory, `${what}.json`);
    writeFileSync(path, bytes);
    const { code, stdout, stderr } = await runLine(['table', path]);
    expect(stderr).toMatch(/^ranktrace: ".*cut \w+\.json": read only its beginning: at byte \d+ the file ends in the middle of its data/);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect([code, stdout.trim().split('\n').length > 5]).toEqual([0, true]);
  });

  it.each(cases)('%s gives one clear line', async (what, bytes, line) => {
    const path = join(directory, `${what}.json`);
    writeFileSync(path, bytes);
    const { code, stderr } = await runLine(['table', path]);
    expect(stderr).toMatch(line);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(2);
  });

  it('an unknown sort key names those there are', async () => {
    const { code, stderr } = await runLine(['table', join(reference, 'bmm_nested.pt.trace.json.gz'), '--sort', 'colour']);
    expect(stderr).toMatch(/--sort must be one of cpu_time, .*self_cpu_time_total, .*got "colour"/);
    expect(code).toBe(2);
  });

  it('a wrong number of rows names -1, too', async () => {
    const { code, stderr } = await runLine(['table', join(reference, 'bmm_nested.pt.trace.json.gz'), '--limit', '-5']);
    expect(stderr).toMatch(/It must be a whole number from 1 to 1000000, or -1 for all\./);
    expect(code).toBe(2);
  });
});

const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

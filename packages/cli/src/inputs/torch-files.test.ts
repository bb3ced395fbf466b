// Files that end too early or are broken, read as commands read them.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { ReadBudget, TraceError } from '@ranktrace/trace';
import { afterAll, expect, test, vi } from 'vitest';
import { CliError } from '../terminal/errors.ts';
import { inputsOf } from './input-kinds.ts';
import { SpillFile } from './spill-file.ts';
import { readTorchFiles } from './torch-files.ts';
import { openTorchJob } from './torch-job.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-torch-files-'));
afterAll(() => rmSync(directory, { recursive: true }));

const recorded = new URL('../../../../test/data/kineto/torch-reference/conv_train.pt.trace.json.gz', import.meta.url);
const zipped = readFileSync(recorded);

async function read(bytes: Uint8Array) {
  const path = join(directory, 'rank0.json.gz');
  writeFileSync(path, bytes);
  const [file] = await readTorchFiles(inputsOf([path]), { keep: 'all', budget: new ReadBudget() });
  return file?.table;
}

test('a zipped file cut at any kilobyte keeps the events before the cut, and says where it ends', async () => {
  const whole = (await read(zipped))?.events.length as number;
  let before = 0;
  for (let end = 1024; end < zipped.length; end += 1024) {
    const table = await read(zipped.subarray(0, end)).catch((error: unknown) => {
      // Cut before its first event.
      expect(error).toBeInstanceOf(TraceError);
      expect((error as Error).message).toMatch(/^".*rank0.json.gz": Cannot read the trace: at byte \d+ the file ends/);
      return undefined;
    });
    if (table === undefined) expect(before).toBe(0);
    else {
      expect(table.stopped).toMatch(/^at byte \d+ the file ends/);
      expect(table.events.length).toBeGreaterThanOrEqual(before);
      before = table.events.length;
    }
  }
  expect(before).toBeGreaterThan(whole / 2);
});

test('a zipped file with a broken byte is read up to it, or named as broken', async () => {
  const long = gzipSync(Buffer.concat(Array.from({ length: 1 }, () => gunzipSync(zipped))));
  for (let at = 20; at < long.length - 8; at += 4099) {
    const broken = Buffer.from(long);
    broken[at] = (broken[at] as number) ^ 0xff;
    const outcome = await read(broken).catch((error: unknown) => error);
    if (outcome instanceof Error) {
      expect(outcome instanceof TraceError || outcome instanceof CliError).toBe(true);
      expect(outcome.message).toMatch(/at byte \d+ /);
    } else {
      expect((outcome as { stopped?: string }).stopped).toMatch(/^at byte \d+ /);
    }
  }
});

const job = fileURLToPath(new URL('../../../../test/data/kineto/ddp-4rank/balanced', import.meta.url));

test('rows beyond memory go to a file without a name, in the temporary directory alone, and read the same', async () => {
  const inputs = inputsOf([job]);
  const temporary = join(directory, 'tmp');
  mkdirSync(temporary);
  vi.stubEnv('TMPDIR', temporary);
  try {
    using whole = await openTorchJob(inputs, false, new ReadBudget());
    using spilled = await openTorchJob(inputs, false, new ReadBudget(), new SpillFile(inputs, 64));
    expect(spilled.profiles.every(({ table }) => table.spilled !== undefined)).toBe(true);
    expect(whole.profiles.every(({ table }) => table.spilled === undefined)).toBe(true);
    const [one, other] = [whole.sources('job'), spilled.sources('job')];
    expect(other.map(({ count }) => count)).toEqual(one.map(({ count }) => count));
    for (const [rank, source] of one.entries()) expect(other[rank]?.batch(0)?.strings).toEqual(source.batch(0)?.strings);
    expect(readdirSync(temporary)).toEqual([]);
  } finally {
    vi.unstubAllEnvs();
  }
});

test('without a temporary directory such a file is refused in one line', async () => {
  const inputs = inputsOf([job]);
  vi.stubEnv('TMPDIR', join(directory, 'none'));
  try {
    await expect(openTorchJob(inputs, false, new ReadBudget(), new SpillFile(inputs, 64))).rejects.toThrow(
      /^Cannot keep rows of traces in ".*none": ENOENT/,
    );
  } finally {
    vi.unstubAllEnvs();
  }
});

test('a file of a folder that goes before it is read is left out, and named', async () => {
  const folder = join(directory, 'going');
  mkdirSync(folder);
  for (const rank of [0, 1]) writeFileSync(join(folder, `rank${rank}.json.gz`), zipped);
  const inputs = inputsOf([folder]);
  rmSync(join(folder, 'rank0.json.gz'));
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    const read = await readTorchFiles(inputs, { keep: 'all', budget: new ReadBudget() });
    expect(read.map(({ path }) => path)).toEqual([join(folder, 'rank1.json.gz')]);
    expect(stderr.mock.calls.join('')).toMatch(/^ranktrace: left out ".*rank0\.json\.gz": ENOENT: no such file or directory, open /);
  } finally {
    stderr.mockRestore();
  }
});

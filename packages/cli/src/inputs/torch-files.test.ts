// Files that end too early or are broken, read as commands read them.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { ReadBudget, TraceError } from '@ranktrace/trace';
import { afterAll, expect, test } from 'vitest';
import { CliError } from '../terminal/errors.ts';
import { inputsOf } from './input-kinds.ts';
import { readTorchFiles } from './torch-files.ts';

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

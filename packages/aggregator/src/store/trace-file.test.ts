// A link or a pipe under a trace file's name stays what it is.

import { execFileSync } from 'node:child_process';
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { TraceFile } from './trace-file.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-trace-file-'));
afterAll(() => rmSync(directory, { recursive: true }));

const bytes = Buffer.from('a whole trace');

describe('a trace file', () => {
  it('replaces the target of a link, and leaves the link', async () => {
    const [target, link] = [join(directory, 'target.json'), join(directory, 'link.json')];
    writeFileSync(target, 'old');
    symlinkSync('target.json', link);
    const file = new TraceFile(link);
    file.write(bytes);
    expect(readFileSync(target, 'utf8')).toBe('old');
    await file.commit();
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(readFileSync(target)).toEqual(bytes);
  });

  it('goes into a pipe that has its name, whole or cut off', async () => {
    const pipe = join(directory, 'pipe.json');
    execFileSync('mkfifo', [pipe]);
    for (const isWhole of [true, false]) {
      const read = readFile(pipe);
      const file = new TraceFile(pipe);
      file.write(bytes);
      await (isWhole ? file.commit() : file.discard());
      if (!isWhole) writeFileSync(pipe, '');
      expect(lstatSync(pipe).isFIFO()).toBe(true);
      if (isWhole) expect(await read).toEqual(bytes);
      else await read;
    }
    expect(readdirSync(directory).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });
});

import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { needsRoot } from '../testing/needs-root.ts';
import { makeTraceFolder, openTrace, removeTrace } from './trace-folder.ts';

const uid = process.getuid?.() ?? -1;
const other = 54_321;
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ranktrace-folder-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
});

describe('the folder', () => {
  it("is its user's alone, and is found again", () => {
    const folder = makeTraceFolder(root, uid);
    const { mode, uid: owner } = lstatSync(folder);
    expect([mode & 0o777, owner]).toEqual([0o700, uid]);
    expect(makeTraceFolder(root, uid)).toBe(folder);
  });

  it("of another user's rank is that user's", (context) => {
    needsRoot(context);
    expect(lstatSync(makeTraceFolder(root, other)).uid).toBe(other);
  });

  it('is refused if it is a link, or others may write into it', () => {
    const name = join(root, `ranktrace-traces-${uid}`);
    mkdirSync(join(root, 'elsewhere'), { mode: 0o700 });
    symlinkSync(join(root, 'elsewhere'), name);
    expect(() => makeTraceFolder(root, uid)).toThrow(/it is a link/);
    rmSync(name);
    mkdirSync(name);
    chmodSync(name, 0o777);
    expect(() => makeTraceFolder(root, uid)).toThrow(/writable by nobody else, got one of user \d+ with mode 777/);
  });

  it('is refused if another user made it first', (context) => {
    needsRoot(context);
    const name = join(root, `ranktrace-traces-${uid}`);
    mkdirSync(name, { mode: 0o700 });
    chownSync(name, other, other);
    expect(() => makeTraceFolder(root, uid)).toThrow(/it must be of user 0, .* got one of user 54321/);
  });
});

describe('a trace', () => {
  const read = (name: string): number | undefined => {
    const opened = openTrace(makeTraceFolder(root, uid), name, uid, 1000);
    if (opened !== undefined) closeSync(opened.descriptor);
    return opened?.about.size;
  };
  const at = (name: string): string => join(makeTraceFolder(root, uid), name);

  it('is there, or not yet, and can be removed', () => {
    expect(read('trace.json')).toBeUndefined();
    writeFileSync(at('trace.json'), '{}');
    expect(read('trace.json')).toBe(2);
    removeTrace(makeTraceFolder(root, uid), 'trace.json', uid);
    expect(read('trace.json')).toBeUndefined();
    removeTrace(join(root, 'nowhere'), 'trace.json', uid);
  });

  it('is refused if it is anything but a file of its user with one name in that folder', () => {
    writeFileSync(join(root, 'secret'), 'secret');
    symlinkSync(join(root, 'secret'), at('link'));
    linkSync(join(root, 'secret'), at('hard'));
    mkdirSync(at('folder'));
    execFileSync('mkfifo', [at('pipe')]);
    writeFileSync(at('huge'), '');
    truncateSync(at('huge'), 1001);
    for (const [name, why] of [
      ['link', /it is a link/],
      ['hard', /it must have one name, got 2/],
      ['folder', /it must be a regular file/],
      // Opening a pipe would wait for its writer.
      ['pipe', /it must be a regular file/],
      ['huge', /it may have 1000 bytes, got 1001/],
      ['../secret', /it must lie in/],
      ['a\0b', /it must lie in/],
      ['', /it must lie in/],
    ] as const)
      expect(() => read(name), name).toThrow(why);
  });

  it("is refused if it is another user's", (context) => {
    needsRoot(context);
    writeFileSync(at('theirs'), '{}');
    chownSync(at('theirs'), other, other);
    expect(() => read('theirs')).toThrow(/it must be of user 0, got one of user 54321/);
  });
});

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveOptions } from '@ranktrace/sdk/shipping';
import { expect, it, onTestFinished } from 'vitest';
import { RemoteClocks, WallClocks } from './ship/host-time.ts';
import { RankSession } from './ship/rank-session.ts';
import { shipFiles, type WatchedFile } from './watch.ts';

const trace = '{"traceEvents":[{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":2}]}';

it('reads a file that no session ships once, and again for the session that turns up', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-watch-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const folder = join(directory, 'log');
  mkdirSync(folder);
  writeFileSync(join(folder, 'trace.json'), trace);
  const options = resolveOptions({ run: 'job', rank: 0, worldSize: 1, directory: join(directory, 'out') }, {});
  const clocks = { wallClocks: new WallClocks(process.hrtime.bigint), remoteClocks: new RemoteClocks('host') };
  const session = new RankSession({ options, pid: process.pid, facts: {}, ...clocks, notice: () => {} });
  const read = new Set<WatchedFile>();
  const ended = new AbortController();
  const notices: string[] = [];
  let looks = 0;
  await shipFiles({
    folders: [folder],
    journal: 'files.jsonl',
    environment: { RANKTRACE_URL: 'ws://127.0.0.1:1', RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool') },
    sessionOf: (file) => {
      read.add(file);
      return ++looks > 2 ? session : undefined;
    },
    notice: (line) => {
      notices.push(line);
      if (line.includes('shipped')) ended.abort();
    },
    signal: ended.signal,
  });
  await session.close(true);
  expect(looks).toBeGreaterThan(2);
  expect(read.size).toBe(2);
  expect(notices).toEqual([
    expect.stringContaining('trace.json": waits until it is known which rank wrote it'),
    expect.stringContaining('trace.json": shipped as rank 0'),
  ]);
});

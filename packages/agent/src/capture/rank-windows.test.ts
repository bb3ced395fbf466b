import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveOptions } from '@ranktrace/sdk/shipping';
import { ReadBudget } from '@ranktrace/trace';
import { expect, it, onTestFinished } from 'vitest';
import { RemoteClocks, WallClocks } from '../ship/host-time.ts';
import { RankSession } from '../ship/rank-session.ts';
import { RankWindows, type WindowMessage } from './rank-windows.ts';

it('says of a window that it is missed where its file was read and cannot be shipped', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-windows-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const uid = process.getuid?.() ?? -1;
  const environment = { RANK: '0', WORLD_SIZE: '1' };
  const options = resolveOptions({ run: 'job', rank: 0, worldSize: 1, directory: join(folder, 'out') }, environment);
  const clocks = { wallClocks: new WallClocks(process.hrtime.bigint), remoteClocks: new RemoteClocks('host') };
  class FailingSession extends RankSession {
    override shipFile(): Promise<void> {
      return Promise.reject(new Error('there is no way'));
    }
  }
  const session = new FailingSession({ options, pid: process.pid, facts: {}, ...clocks, notice: () => {} });
  const place = {
    ...{ options, job: undefined, asksDaemon: true, socketFolder: undefined, traceRoot: folder, dumps: undefined },
    ...{ ringFolder: undefined, sendsItself: false, mayLaunch: false },
  };
  const life = { pid: process.pid, start: 1, parent: 1 };
  const notices: string[] = [];
  const windows = new RankWindows({
    rank: { place, life, uid, ownPid: process.pid, seenAt: 0, askedAt: 0 },
    session,
    memory: new ReadBudget(),
    whySilent: () => 'silent',
    isAlive: () => true,
    notice: (line) => notices.push(line),
  });
  const unixMs = Date.now() + 4000;
  const request: WindowMessage = { type: 'record_window', run: 'job', id: 1, at: '0', host: 'other', unixMs, durationMs: 10 };
  windows.request(request);
  const path = /ACTIVITIES_LOG_FILE=(.*)\.json/.exec(windows.work(true))?.[1];
  const args = '"args":{"Collective name":"allreduce","Process Group Name":"0"}';
  const event = `{"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":7,"tid":7,"ts":${unixMs * 1000},"dur":9,${args}}`;
  writeFileSync(`${path}_${process.pid}.json`, `{"traceEvents":[${event}]}`);
  await expect
    .poll(() => {
      // Until the file is read, its group is unknown.
      windows.request({ ...request, cuts: [['default', 0]] });
      return notices;
    })
    .toEqual([expect.stringMatching(/^rank 0 of run "job" has no part in the window of .*: there is no way$/)]);
  await windows.close('the test ended');
  await session.close(true);
});

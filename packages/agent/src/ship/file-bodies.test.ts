import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SourceTracks } from '@ranktrace/trace/torch';
import { expect, it, onTestFinished } from 'vitest';
import { readKinetoFile } from '../files/read-kineto.ts';
import { fileBodies } from './file-bodies.ts';

it.each([
  ['a plain one', 139_637_976_727_552, 1],
  ['a tagged one', 2 ** 60, 0],
  ['a negative one', -2, 0],
  ['none at all', 0.5, 0],
])('ships a file with an allocation at an address that is %s', async (_, address, allocations) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-bodies-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'file.json');
  const args = `"Bytes":512,"Total Allocated":512,"Total Reserved":0,"Addr":${address},"Device Type":0,"Device Id":0`;
  const names = ['[memory]', '[memory category]'];
  const events = names.map(
    (name) => `{"ph":"i","cat":"cpu_instant_event","name":"${name}","s":"t","pid":7,"tid":7,"ts":5,"args":{${args},"Category":"INPUT"}}`,
  );
  writeFileSync(path, `{"traceEvents":[${events},{"ph":"X","cat":"cpu_op","name":"op","pid":7,"tid":7,"ts":1,"dur":9}]}`);
  const table = await readKinetoFile(path, { keep: 'all', isGzip: false });
  const life = { run: 'job', rank: 0, worldSize: 1, incarnation: 'b-1', host: 'host', epochNs: 0n, aheadNs: 0n };
  const bodies = [...fileBodies('file.json', table, { ...life, tracks: new SourceTracks(), filesAfter: 1, cutOf: undefined })];
  expect(bodies.map(({ counts: { span, instant }, lost }) => ({ span, instant, lost }))).toEqual([
    { span: 1, instant: 1 + allocations, lost: 0 },
  ]);
});

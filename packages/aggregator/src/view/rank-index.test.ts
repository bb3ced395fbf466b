import { type Batch, createEventTables, rankTime } from '@ranktrace/protocol';
import type { BatchSource, TraceProcess } from '@ranktrace/trace';
import { Timeline } from '@ranktrace/trace/timeline';
import { expect, it } from 'vitest';
import { makeHeader } from '../testing/make-batch.ts';
import { BlockFile } from './block-file.ts';
import { RankIndex } from './rank-index.ts';

it('marks what was lost before the first batch there, also on a clock that begins below zero', () => {
  const tables = createEventTables();
  tables.tracks.append({ track: 1, kind: 1, name: 0, tid: 1 });
  tables.spans.append({ start: -5e9, length: 5e8, track: 1, name: 1, category: 0, id: 0, parent: 0, state: 0 });
  const dropped = { events: 7, arguments: 0, names: 0, batches: 0 };
  const batch: Batch = { header: makeHeader({ sequence: 2, watermark: rankTime(-4e9), dropped }), strings: ['', 'forward'], tables };
  const source: BatchSource = { rank: 0, incarnation: '0001', count: 1, missing: 2, batch: () => batch };
  const { rank, incarnation, host, hostName, pid } = batch.header;
  const process = { rank, incarnation, host, hostName, pid, index: 0, metadata: new Map(), alignment: { method: 'exact' } };
  using blocks = new BlockFile();
  const timeline = new Timeline({ blocks }).addProcess(process as unknown as TraceProcess);
  for (const _ of new RankIndex(timeline).follow(source, true));
  expect(timeline.from).toBe(-5e9);
  expect(timeline.gaps).toEqual([{ from: -5e9, until: -4e9, batches: 2, events: 7 }]);
});

// Results of a rank that also pings an aggregator's clock: they are on its own clock.

import { deflateRawSync } from 'node:zlib';
import { createEventTables, encodeBody, noneDropped } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { noneRecorded } from '../collect/batch-builder.ts';
import { EventList } from './event-list.ts';
import { Recording, type RecordingAbout } from './recording.ts';

const about = (warn: (text: string) => void): RecordingAbout => ({
  run: 'test',
  rank: 0,
  worldSize: 1,
  incarnation: 'a-1',
  pid: 1,
  host: 'host',
  epochNs: 0n,
  wallClock: () => ({ time: 0n, widthNs: 0, unixMs: 1_790_857_026_000 }),
  steps: false,
  switches: {},
  metadata: {},
  traceId: '',
  timeoutS: undefined,
  warn,
});

test('what begins with the first active step is there, however the clock of the aggregator runs', () => {
  const second = 1e9;
  const tables = createEventTables();
  tables.tracks.append({ track: 0, kind: 1, name: 2, tid: 0 });
  for (let row = 0; row < 4; row++) {
    const start = (1 + row) * second;
    tables.spans.append({ start, length: 1000, track: 0, name: 3, category: 0, id: 0, parent: 0, state: 0 });
  }
  // On the aggregator's clock, according to the pings, everything is a little earlier.
  for (let sent = 0; sent < 8 * second; sent += second / 4) {
    const remote = Math.round((sent + 5e5) * (1 - 20e-6));
    tables.clockSamples.append({ sent, received: sent + 1e6, remoteReceived: remote, remoteSent: remote, host: 4, hostEpoch: 5 });
  }
  const strings = ['', 'thread', 'main', 'work', 'aggregator', '12345'];
  const body = encodeBody({ strings, tables }, (bytes) => deflateRawSync(bytes));
  const batches = [{ serial: 0, body, since: 0, until: 8 * second, recorded: noneRecorded() }];
  const warnings: string[] = [];
  const results = [{ batches, complete: true, since: second, until: 4.5 * second, dropped: noneDropped }];
  const recording = new Recording(
    results,
    about((text) => warnings.push(text)),
  );
  expect(recording.events.length).toBe(4);
  expect(warnings).toEqual([]);
});

test('of many cycles each event is in its own, found without a look at all of them', () => {
  const cycles = 1000;
  const tables = createEventTables();
  tables.tracks.append({ track: 0, kind: 1, name: 2, tid: 0 });
  // Each second has one event of its cycle, and one after it.
  for (let start = 0.25e9; start < cycles * 1e9; start += 0.5e9) {
    const inCycle = start % 1e9 < 0.5e9;
    tables.spans.append({ start, length: 1000, track: 0, name: inCycle ? 3 : 4, category: 0, id: 0, parent: 0, state: 0 });
  }
  const body = encodeBody({ strings: ['', 'thread', 'main', 'inside', 'between'], tables }, (bytes) => deflateRawSync(bytes));
  const batches = [{ serial: 0, body, since: 0, until: cycles * 1e9, recorded: noneRecorded() }];
  let looks = 0;
  const results = Array.from({ length: cycles }, (_, cycle) => ({
    ...{ batches, complete: true, until: cycle * 1e9 + 0.5e9, dropped: noneDropped },
    get since(): number {
      looks++;
      return cycle * 1e9;
    },
  }));
  const recording = new Recording(
    results,
    about(() => {}),
  );
  expect(new Set([...new EventList(recording)].map(({ name }) => name))).toEqual(new Set(['inside']));
  expect(recording.events.length).toBe(cycles);
  expect(looks).toBeLessThan(2 * cycles * 20);
});

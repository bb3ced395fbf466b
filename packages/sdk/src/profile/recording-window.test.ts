// Results of a rank that also pings an aggregator's clock: they are on its own clock.

import { deflateRawSync } from 'node:zlib';
import { createEventTables, encodeBody, noneDropped } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { noneRecorded } from '../collect/batch-builder.ts';
import { Recording } from './recording.ts';

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
  const recording = new Recording([{ batches, complete: true, since: second, until: 4.5 * second, dropped: noneDropped }], {
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
    warn: (text) => warnings.push(text),
  });
  expect(recording.events.length).toBe(4);
  expect(warnings).toEqual([]);
});

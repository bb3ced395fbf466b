// Which cycles results are of. Their events are those of one batch a cycle, which has one span.

import { deflateRawSync } from 'node:zlib';
import { createEventTables, encodeBody, noneDropped } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { noneRecorded } from '../collect/batch-builder.ts';
import type { HeldResults } from '../collect/flight-recorder.ts';
import { KeptResults } from './kept-results.ts';
import type { RecordingAbout } from './recording.ts';

const warnings: string[] = [];
const about: RecordingAbout = {
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
};

/** The second `at`, with a span in its middle. */
function cycle(at: number): HeldResults {
  const tables = createEventTables();
  tables.tracks.append({ track: 0, kind: 1, name: 2, tid: 0 });
  tables.spans.append({ start: (at + 0.5) * 1e9, length: 1000, track: 0, name: 3, category: 0, id: 0, parent: 0, state: 0 });
  const body = encodeBody({ strings: ['', 'thread', 'main', 'work'], tables }, (bytes) => deflateRawSync(bytes));
  const [since, until] = [at * 1e9, (at + 1) * 1e9];
  return { batches: [{ serial: at, body, since, until, recorded: noneRecorded() }], complete: true, since, until, dropped: noneDropped };
}

test('results of all cycles that are read in the middle of a cycle do not stay what they are', () => {
  const kept = new KeptResults(() => {});
  kept.start({ traceOnly: false, flightRecorderBytes: 1e6 });
  const counts = [0, 1, 2].map((at) => {
    kept.begin({ accEvents: true });
    if (at > 0) expect(kept.recording('events', about).events.length).toBe(at);
    kept.end();
    kept.fetch(() => cycle(at));
    return kept.recording('events', about).events.length;
  });
  expect(counts).toEqual([1, 2, 3]);
  expect(warnings).toEqual([]);
});

test('results of all cycles have a bound: the oldest cycles go first, and their number is said', () => {
  const kept = new KeptResults(() => {});
  const bytes = cycle(0).batches[0]?.body.body.length ?? 0;
  kept.start({ traceOnly: false, flightRecorderBytes: 3.5 * bytes });
  for (let at = 0; at < 100; at++) {
    kept.begin({ accEvents: true });
    kept.end();
    kept.fetch(() => cycle(at));
  }
  expect(kept.recording('events', about).events.length).toBe(3);
  expect(warnings).toEqual([
    'results are not complete: they passed flightRecorderBytes, so the oldest were forgotten, all of the first 97 cycles; record fewer steps or raise it',
  ]);
});

test('a cycle that the shipper did not hand over is missing, and said to be', () => {
  const kept = new KeptResults(() => {});
  kept.start({ traceOnly: false, flightRecorderBytes: 1e6 });
  warnings.length = 0;
  for (const at of [0, 1, 2]) {
    kept.begin({ accEvents: true });
    kept.end();
    kept.fetch(() => (at === 1 ? undefined : cycle(at)));
  }
  expect(kept.recording('events', about).events.length).toBe(2);
  expect(warnings).toEqual([
    "results are not complete: one cycle is missing: the shipper's thread, which had them, did not answer in time",
  ]);
});

test('results of the last cycle alone miss none of those before', () => {
  const kept = new KeptResults(() => {});
  kept.start({ traceOnly: false, flightRecorderBytes: 1e6 });
  warnings.length = 0;
  for (const at of [0, 1]) {
    kept.begin({ accEvents: false });
    kept.end();
    kept.fetch(() => (at === 0 ? undefined : cycle(at)));
  }
  expect(kept.recording('events', about).events.length).toBe(1);
  expect(warnings).toEqual([]);
});

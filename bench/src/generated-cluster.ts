// A generated cluster of any size for throughput figures: each rank's steps of nested operators with a collective, times with real jitter
// (seeded), cut into batches as the SDK cuts them. Spans never cross a batch, so that counts are simple to check.

import { type Batch, createEventTables, rankTime } from '@ranktrace/protocol';
import { benchHeader } from './batch-header.ts';

const operators = Array.from({ length: 64 }, (_, index) => `aten::operator_${index}`);
const operatorsPerStep = 128;
const collectivesPerStep = 4;

/** Events of one step of one rank: a step, operators with one nested in every other, collectives. */
export const eventsPerStep = 1 + operatorsPerStep + collectivesPerStep;

/** The batches of one rank, `stepsPerBatch` steps each, made on request. */
export function* generateRank(rank: number, worldSize: number, steps: number, stepsPerBatch = 60): Generator<Batch> {
  // xorshift32: the same cluster every time.
  let state = 0x9e3779b9 ^ (rank + 1);
  const random = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  let now = rank * 1000;
  let sequence = 0;
  for (let first = 0; first < steps; first += stepsPerBatch) {
    const tables = createEventTables();
    const strings = ['', 'thread', 'main', 'all_reduce', 'world', ...operators];
    tables.tracks.append({ track: 0, kind: 1, name: 2, tid: 100 + rank });
    const last = Math.min(first + stepsPerBatch, steps);
    for (let step = first; step < last; step++) {
      const start = now;
      for (let operator = 0; operator < operatorsPerStep; operator += 2) {
        const begin = now + 200 + Math.floor(random() * 800);
        const length = 2000 + Math.floor(random() * 30_000);
        const inner = Math.floor(length * 0.8 * random());
        const name = 5 + (operator % operators.length);
        tables.spans.append({ start: begin, length, track: 0, name, category: 0, id: 0, parent: 0, state: 0 });
        tables.spans.append({ start: begin + 100, length: inner, track: 0, name: name + 1, category: 0, id: 0, parent: 0, state: 0 });
        now = begin + length;
        if (operator % 32 === 0) {
          const transfer = 20_000 + Math.floor(random() * 5000);
          const number = (step * operatorsPerStep + operator) / 32;
          const about = { track: 0, op: 3, group: 4, sequence: number, bytes: 1 << 20, id: 0, parent: 0, state: 0, peer: 0 };
          tables.collectives.append({ start: now + 50, length: transfer, ...about });
          now += transfer + 100;
        }
      }
      tables.steps.append({ start, length: now - start, track: 0, step, overhead: 0 });
    }
    const header = { ...benchHeader, worldSize, rank, sequence: sequence++, watermark: rankTime(now), last: last === steps };
    yield { header, strings, tables };
  }
}

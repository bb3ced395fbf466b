import {
  type Batch,
  type BatchHeader,
  createEventTables,
  EventTable,
  type EventTables,
  rankTime,
  spanState,
  tableNames,
} from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { limits } from '../model/limits.ts';
import type { ProcessTotals, TraceSink } from '../model/trace-sink.ts';
import { foldedWriter } from '../write/folded.ts';
import { mergeRun } from './merge-run.ts';

interface Line {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly track?: number;
  readonly id?: number;
}

const noneDropped = { events: 0, arguments: 0, names: 0, batches: 0 };

function header(rank: number, sequence: number, watermark: number, about: Partial<BatchHeader> = {}): BatchHeader {
  const identity = { run: 'r', rank, worldSize: 4, incarnation: 'a-1', host: 'h', hostName: 'h', pid: 1, epoch: '1000000' };
  return { ...identity, sequence, watermark: rankTime(watermark), last: false, dropped: noneDropped, ...about };
}

/** Cuts a rank's spans into batches at the flush times, as the recorder would: a span across a flush is announced and closed. */
function flushed(rank: number, lines: readonly Line[], flushes: readonly number[], about: Partial<BatchHeader> = {}): Batch[] {
  let from = Number.NEGATIVE_INFINITY;
  return [...flushes, Number.POSITIVE_INFINITY].map((to, sequence) => {
    const tables = createEventTables();
    const strings = [''];
    tables.tracks.append({ track: 0, kind: strings.push('thread') - 1, name: strings.push('main') - 1, tid: 7 });
    const append = (line: Line, state: number, length: number): void => {
      const name = strings.push(line.name) - 1;
      tables.spans.append({ start: line.start, length, track: line.track ?? 0, name, category: 0, id: line.id ?? 0, parent: 0, state });
    };
    const inOrder = [...lines].sort((a, b) => a.start - b.start || b.end - a.end);
    for (const line of inOrder) {
      const begins = line.start >= from && line.start < to;
      const ends = line.end >= from && line.end < to;
      if (begins && ends) append(line, spanState.whole, line.end - line.start);
      else if (begins) append(line, spanState.open, 0);
      else if (ends) append(line, spanState.close, line.end - line.start);
    }
    from = to;
    const last = to === Number.POSITIVE_INFINITY;
    return { header: header(rank, sequence, last ? 1e12 : to, { last, ...about }), strings, tables };
  });
}

function sourceOf(rank: number, batches: readonly Batch[], missing = 0): BatchSource {
  // Merging may write into a batch's tables, so each pass gets its own copy, as decoding would give it.
  const batch = (index: number): Batch => ({ ...(batches[index] as Batch), tables: copyTables((batches[index] as Batch).tables) });
  return { rank, incarnation: 'a-1', count: batches.length, missing, batch };
}

function copyTables(tables: EventTables): EventTables {
  const copy = createEventTables();
  for (const [name, table] of Object.entries(tables)) {
    const target = copy[name as 'spans'];
    for (let row = 0; row < table.length; row++) {
      const fields: Record<string, number> = {};
      for (const [column, values] of Object.entries(table.columns)) fields[column] = (values as Float64Array)[row] as number;
      target.append(fields as never);
    }
  }
  return copy;
}

function merged(sources: readonly BatchSource[]): { lines: string[]; worldSize: number; totals: readonly ProcessTotals[] } {
  const lines: string[] = [];
  let worldSize = 0;
  const sink: TraceSink = {
    begin: (header) => {
      worldSize = header.worldSize;
    },
    lane: () => {},
    event: ({ lane, state, start, length, name }) => {
      const where = `rank ${lane.process.rank} ${lane.name}`;
      const mark = state === 'whole' ? '' : `${state} `;
      lines.push(`${where}: ${mark}${name} ${state === 'close' ? start + length : start}${state === 'whole' ? ` +${length}` : ''}`);
    },
    end: () => {},
  };
  const run = mergeRun(sources, sink);
  let step = run.next();
  while (step.done !== true) step = run.next();
  return { lines, worldSize, totals: step.value };
}

describe('merge', () => {
  it('orders the spans of all ranks by time, parents before children', () => {
    const zero = flushed(
      0,
      [
        { name: 'a', start: 0, end: 10 },
        { name: 'b', start: 20, end: 30 },
      ],
      [15],
    );
    const one = flushed(
      1,
      [
        { name: 'outer', start: 5, end: 12 },
        { name: 'inner', start: 5, end: 6 },
      ],
      [15],
    );
    expect(merged([sourceOf(0, zero), sourceOf(1, one)]).lines).toEqual([
      'rank 0 main: a 0 +10',
      'rank 1 main: outer 5 +7',
      'rank 1 main: inner 5 +1',
      'rank 0 main: b 20 +10',
    ]);
  });

  it('has as many ranks as the largest of its lives asks for, whichever came first', () => {
    const sources = [1, 3, 2].map((worldSize, life) => {
      const about = { worldSize, incarnation: `a-${life}` };
      const batches = flushed(0, [{ name: 'a', start: 100 * life, end: 100 * life + 10 }], [], about);
      return { ...sourceOf(0, batches), incarnation: about.incarnation };
    });
    expect(merged(sources).worldSize).toBe(3);
    expect(merged(sources.slice(0, 1)).worldSize).toBe(1);
    expect(merged([]).worldSize).toBe(0);
  });

  it('joins a span that was open at one flush and closed by the next', () => {
    const batches = flushed(
      0,
      [
        { name: 'phase', start: 5, end: 15 },
        { name: 'op', start: 11, end: 12 },
      ],
      [10],
    );
    expect(merged([sourceOf(0, batches)]).lines).toEqual(['rank 0 main: phase 5 +10', 'rank 0 main: op 11 +1']);
  });

  it('lets a long span begin and end apart, with its children on its lane', () => {
    const lines = [
      { name: 'epoch', start: 1, end: 45 },
      { name: 'op', start: 32, end: 33 },
      { name: 'op', start: 41, end: 42 },
    ];
    expect(merged([sourceOf(0, flushed(0, lines, [10, 20, 30, 40]))]).lines).toEqual([
      'rank 0 main: open epoch 1',
      'rank 0 main: op 32 +1',
      'rank 0 main: op 41 +1',
      'rank 0 main: close epoch 45',
    ]);
  });

  it('ends a span under the name that it was announced by, whatever it is called by then: sinks match the two by it', () => {
    const lines = [
      { name: 'GET', start: 1, end: 45 },
      { name: 'op', start: 41, end: 42 },
    ];
    const batches = flushed(0, lines, [10, 20, 30, 40]).map((batch) => {
      const strings = batch.header.last ? batch.strings.map((text) => (text === 'GET' ? 'GET /users/:id' : text)) : batch.strings;
      return { ...batch, strings };
    });
    const stacks: Uint8Array[] = [];
    for (const _ of mergeRun(
      [sourceOf(0, batches)],
      foldedWriter((chunk) => stacks.push(chunk.slice())),
    ));
    expect(Buffer.concat(stacks).toString()).toBe('rank 0 · h;main;GET 43\nrank 0 · h;main;GET;op 1\n');
    expect(merged([sourceOf(0, batches)]).lines).toEqual(['rank 0 main: open GET 1', 'rank 0 main: op 41 +1', 'rank 0 main: close GET 45']);
    // Where nothing was announced yet, the later name counts.
    expect(merged([sourceOf(0, batches.slice(-2))]).lines[0]).toBe('rank 0 main: GET /users/:id 1 +44');
  });

  it('takes outcome and arguments of a joined span from where it ended', () => {
    const [first, second] = [createEventTables(), createEventTables()];
    const ids = { trace: new Uint8Array(16), span: new Uint8Array(8), parentSpan: new Uint8Array(8) };
    const call = { start: 5, track: 0, method: 1, side: 2, peer: 0, ...ids, id: 1, parent: 0 };
    first.rpcs.append({ ...call, length: 0, status: 0, state: spanState.open });
    second.rpcs.append({ ...call, length: 9, status: 3, state: spanState.close });
    second.numberArguments.append({ table: tableNames.indexOf('rpcs'), row: 0, key: 4, value: 7 });
    const strings = ['', 'evaluate', 'client', 'error', 'tries'];
    const batches = [
      { header: header(0, 0, 10), strings: strings.slice(0, 3), tables: first },
      { header: header(0, 1, 20, { last: true }), strings, tables: second },
    ];
    const seen: unknown[] = [];
    const event: TraceSink['event'] = ({ state, length, status, arguments: args }) =>
      seen.push({ state, length, status, args: [...(args ?? [])] });
    const source = { rank: 0, incarnation: 'a-1', count: 2, missing: 0, batch: (index: number) => batches[index] };
    for (const _ of mergeRun([source], { begin: () => {}, lane: () => {}, event, end: () => {} }));
    expect(seen).toEqual([{ state: 'whole', length: 9, status: 'error', args: [['tries', 7]] }]);
  });

  it('shows what a killed rank was inside of', () => {
    const batches = flushed(0, [{ name: 'stuck', start: 5, end: 500 }], [10, 20, 30]).slice(0, 3);
    const { lines, totals } = merged([sourceOf(0, batches)]);
    expect(lines).toEqual(['rank 0 main: open stuck 5']);
    expect(totals[0]?.ended).toBe(false);
    expect(totals[0]?.counts.span).toBe(1);
  });

  it('knows that a killed rank ran at its last event, where that begins after its last watermark', () => {
    const untilOf = (about: Partial<BatchHeader>): number | undefined => {
      const batches = flushed(0, [{ name: 'a', start: 10, end: 90 }], [], { watermark: rankTime(40), ...about });
      const later = flushed(0, [{ name: 'b', start: 95, end: 99 }], [], { watermark: rankTime(40), sequence: 1, ...about });
      return merged([sourceOf(0, [...batches, ...later])]).totals[0]?.until;
    };
    expect(untilOf({ last: false })).toBe(95);
    expect(untilOf({ last: true })).toBe(40);
  });

  it('spreads partly overlapping spans over lanes', () => {
    const lines = [
      { name: 'a', start: 0, end: 10, id: 1 },
      { name: 'b', start: 5, end: 15, id: 2 },
      { name: 'in b', start: 6, end: 7 },
      { name: 'c', start: 11, end: 12 },
    ];
    expect(merged([sourceOf(0, flushed(0, lines, []))]).lines).toEqual([
      'rank 0 main: a 0 +10',
      'rank 0 main (2): b 5 +10',
      'rank 0 main (2): in b 6 +1',
      'rank 0 main (2): c 11 +1',
    ]);
  });

  it('keeps a close whose open was lost, as a whole span', () => {
    const batches = flushed(0, [{ name: 'phase', start: 5, end: 15 }], [10]);
    const { lines, totals } = merged([sourceOf(0, batches.slice(1), 1)]);
    expect(lines).toEqual(['rank 0 main: phase 5 +10']);
    expect(totals[0]).toMatchObject({ missing: 1, batches: 1 });
  });

  it('counts events that come after their time has been written', () => {
    const batches = flushed(
      0,
      [
        { name: 'a', start: 1, end: 2 },
        { name: 'b', start: 31, end: 32 },
      ],
      [10, 20, 30],
    );
    const lying = batches.map((batch, index) => (index < 3 ? { ...batch, header: { ...batch.header, watermark: rankTime(40) } } : batch));
    expect(merged([sourceOf(0, lying)]).totals[0]?.late).toBe(1);
  });

  const spans = fc.array(
    fc.record({
      start: fc.integer({ min: 0, max: 1000 }),
      length: fc.integer({ min: 0, max: 300 }),
      track: fc.integer({ min: 0, max: 2 }),
    }),
    { maxLength: 40 },
  );
  const flushes = fc.uniqueArray(fc.integer({ min: 1, max: 1300 }), { maxLength: 8 }).map((times) => times.sort((a, b) => a - b));
  const cluster = fc.array(fc.tuple(spans, flushes), { minLength: 1, maxLength: 4 });

  it('is a sort by time that loses and doubles nothing, however ranks flush (seed 7)', () => {
    fc.assert(
      fc.property(cluster, (ranks) => {
        const wanted: string[] = [];
        const sources = ranks.map(([spans, flushes], rank) => {
          const lines = spans.map(({ start, length, track }, id) => {
            wanted.push(`${rank} ${id}`);
            return { name: `${rank} ${id}`, start, end: start + length, track, id: id + 1 };
          });
          return sourceOf(rank, flushed(rank, lines, flushes));
        });
        const { lines, totals } = merged(sources);
        const seen = lines.filter((line) => !line.includes('close')).map((line) => /: (?:open )?(\d+ \d+) /.exec(line)?.[1]);
        expect([...seen].sort()).toEqual(wanted.sort());
        const times = lines.map((line) => Number(/(-?\d+)(?: \+\d+)?$/.exec(line)?.[1]));
        expect(times).toEqual([...times].sort((a, b) => a - b));
        expect(totals.every((total) => total.late === 0)).toBe(true);
      }),
      { seed: 7, numRuns: runCount(300) },
    );
  });

  it('does not depend on the order in which sources are given (seed 8)', () => {
    fc.assert(
      fc.property(cluster, (ranks) => {
        const sources = ranks.map(([spans, flushes], rank) => {
          const lines = spans.map(({ start, length, track }, id) => ({ name: `${id}`, start, end: start + length, track, id: id + 1 }));
          return sourceOf(rank, flushed(rank, lines, flushes));
        });
        expect(merged([...sources].reverse()).lines).toEqual(merged(sources).lines);
      }),
      { seed: 8, numRuns: runCount(100) },
    );
  });
});

describe('a source whose watermark never moves', () => {
  // Batches of zeros: a few hundred bytes each on the wire.
  const rows = 65_536;
  const count = Math.ceil(limits.mergeRowsWaitingMax / rows) + 2;
  function batch(sequence: number): Batch {
    const tables = { ...createEventTables(), counters: new EventTable('counters', rows) };
    for (let row = 0; row < rows; row++) tables.counters.append({ time: row, track: 1, name: 1, unit: 0, value: sequence });
    return { header: header(0, sequence, 0, { last: sequence === count - 1 }), strings: ['', 'x'], tables };
  }

  it('is merged in slices, holds no more rows than may wait, and what came too late for that is counted', () => {
    let written = 0;
    let before = 0;
    let most = 0;
    let first: number | undefined;
    const sink: TraceSink = { begin: () => {}, lane: () => {}, event: () => written++, end: () => {} };
    let read = 0;
    const source: BatchSource = {
      ...{ rank: 0, incarnation: 'a-1', count, missing: 0 },
      batch: (index, only) => {
        if (only === undefined) {
          read++;
          if (written > 0) first ??= read;
        }
        return batch(index);
      },
    };
    const steps = mergeRun([source], sink);
    for (let step = steps.next(); ; step = steps.next()) {
      most = Math.max(most, written - before);
      before = written;
      if (step.done !== true) continue;
      expect(step.value[0]?.late).toBeGreaterThan(0);
      break;
    }
    expect(written).toBe(count * rows);
    expect(first).toBeLessThanOrEqual(limits.mergeRowsWaitingMax / rows + 2);
    expect(most).toBeLessThanOrEqual(4096);
  });
});

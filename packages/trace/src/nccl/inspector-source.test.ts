// Logs of NCCL Inspector, made up by `inspectorLogs` in the documented formats: as runs, with losses, and as hostile input.

import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { CollectiveSink, type CollectiveSummary } from '../analyse/collectives.ts';
import { type Finding, findCompleteness } from '../analyse/findings.ts';
import { OpenWorkSink, type OpenWorkSummary } from '../analyse/open-work.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { TraceError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import { ReadBudget } from '../model/read-budget.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { type InspectorLogOptions, inspectorEpochMicros, inspectorLogs } from '../testing/inspector-logs.ts';
import { InspectorReader, looksLikeInspector } from './inspector-reader.ts';
import { type InspectorJob, inspectorJob, strangersAmong } from './inspector-source.ts';

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Reads each text as a file, in pieces of `pieceBytes`. */
function read(texts: Iterable<string>, pieceBytes = 1000): InspectorReader {
  const reader = new InspectorReader();
  for (const text of texts) {
    const bytes = bytesOf(text);
    for (let from = 0; from < bytes.length; from += pieceBytes) reader.push(bytes.subarray(from, from + pieceBytes));
    reader.endFile();
  }
  return reader;
}
const jobOf = (options: InspectorLogOptions = {}): InspectorJob => inspectorJob(read(inspectorLogs(options).values()).processes, 'job');

function analysisOf({ sources }: InspectorJob): {
  readonly summary: CollectiveSummary;
  readonly open: OpenWorkSummary;
  readonly findings: readonly Finding[];
} {
  const [collectives, open] = [new CollectiveSink(), new OpenWorkSink()];
  let header: TraceHeader;
  let findings: readonly Finding[] = [];
  const completeness: TraceSink = {
    begin: (of) => {
      header = of;
    },
    lane: () => {},
    event: () => {},
    end: (totals) => {
      findings = findCompleteness(header, totals);
    },
  };
  for (const _ of mergeRun(sources, teeSink(collectives, open, completeness)));
  return { summary: collectives.summary, open: open.summary, findings };
}

/** Rows of all batches of a rank, as lines. */
function linesOf({ sources }: InspectorJob, rank: number): string[] {
  const source = sources.find((of) => of.rank === rank);
  const lines: string[] = [];
  for (let index = 0; index < (source?.count ?? 0); index++) {
    const batch = source?.batch(index);
    if (batch === undefined) continue;
    const {
      strings,
      tables: { collectives, spans },
    } = batch;
    const timeOf = ({ start, length }: Readonly<Record<'start' | 'length', Float64Array>>, row: number): string =>
      `${(start[row] as number) / 1000} +${(length[row] as number) / 1000}`;
    for (let row = 0; row < collectives.length; row++) {
      const { op, group, sequence } = collectives.columns;
      lines.push(`${timeOf(collectives.columns, row)} ${strings[op[row] as number]} ${strings[group[row] as number]}#${sequence[row]}`);
    }
    for (let row = 0; row < spans.length; row++) lines.push(`${timeOf(spans.columns, row)} ${strings[spans.columns.name[row] as number]}`);
  }
  return lines;
}

describe.each(['v4.0', 'v4.3'] as const)('logs of format %s', (format) => {
  it('become ranks with collectives by communicator, function and number', () => {
    const job = jobOf({ format, collectives: 5 });
    expect(job).toMatchObject({ isNumbered: false, untimed: 0, lost: 0 });
    expect(job.sources.map(({ rank }) => rank)).toEqual([0, 1, 2, 3]);
    expect(linesOf(job, 0)).toEqual([
      '0 +400 AllReduce world AllReduce#0',
      '500 +400 AllGather world AllGather#0',
      '10000 +400 AllReduce world AllReduce#1',
      '20000 +400 AllReduce world AllReduce#2',
      '30000 +400 AllReduce world AllReduce#3',
      '30500 +400 AllGather world AllGather#1',
      '40000 +400 AllReduce world AllReduce#4',
      '1400 +50 Send 1 (pipe 0xaa0)',
      '41400 +50 Send 1 (pipe 0xaa0)',
    ]);
    const header = job.sources[3]?.batch(0)?.header;
    expect(header).toMatchObject({ run: 'job', rank: 3, worldSize: 4, host: 'node-1', pid: 4003, last: true });
    expect(header?.epoch).toBe(`${BigInt(inspectorEpochMicros + 9) * 1000n}`);
  });

  it('report the rank that the others waited for', () => {
    const { summary, findings } = analysisOf(jobOf({ format, collectives: 40, lateRank: 2, lateMicros: 3000 }));
    const line = summary.collectives.find(({ group }) => group === 'world AllReduce');
    expect(line).toMatchObject({ op: 'all_reduce', ranks: 4, count: 40, incomplete: 0, unaligned: 0, violations: 0 });
    expect(line?.perRank.map(({ rank, lastIn }) => [rank, lastIn])).toContainEqual([2, 40]);
    expect(findings).toEqual([]);
  });

  it('are the same in pieces of any size', () => {
    const texts = [...inspectorLogs({ format, collectives: 3, ranks: 2 }).values()];
    const whole = linesOf(inspectorJob(read(texts, 1 << 20).processes, 'job'), 1);
    for (const pieceBytes of [1, 7, 333]) expect(linesOf(inspectorJob(read(texts, pieceBytes).processes, 'job'), 1)).toEqual(whole);
  });
});

it('matches collectives of a communicator that has another name on each rank, or none', () => {
  const texts = [...inspectorLogs({ format: 'v4.0', ranks: 2, collectives: 5 }).values()].map((text, rank) =>
    text
      .replace(/"p2p(\w*)"/g, '"coll$1"')
      .replace(/"(?:Send|Recv)"/g, '"ReduceScatter"')
      .replaceAll('"pipe"', rank === 0 ? '"unknown"' : '"stage"'),
  );
  const { summary, findings } = analysisOf(inspectorJob(read(texts).processes, 'job'));
  expect(summary.collectives).toContainEqual(
    expect.objectContaining({ group: 'stage 0xaa0', op: 'reduce_scatter', ranks: 2, count: 2, incomplete: 0 }),
  );
  expect(findings).toEqual([]);
});

describe('records that Inspector lost', () => {
  it('are counted where another rank has them, whose part becomes a span', () => {
    const job = jobOf({ collectives: 6, isLost: (rank, sequence) => rank === 1 && (sequence === 2 || sequence === 5) });
    expect(job.lost).toBe(2);
    expect(linesOf(job, 1).filter((line) => line.includes('AllReduce'))).toHaveLength(4);
    expect(linesOf(job, 0)).toContain('20000 +400 AllReduce (world)');
    expect(linesOf(job, 0)).not.toContain('20000 +400 AllReduce world AllReduce#2');
    const { findings, open } = analysisOf(job);
    expect(findings).toMatchObject([
      {
        kind: 'left_out',
        ranks: [1],
        text: 'rank 1: left out of its files: 2 operations that NCCL Inspector lost: other ranks have them, or it counts them',
      },
    ]);
    // Nobody is accused of a collective of which only the record is lost.
    expect(open.collectives).toEqual([]);
  });

  it('are counted as Inspector counts them', () => {
    expect(jobOf({ dropped: (rank) => (rank === 3 ? 17 : 0) }).lost).toBe(17);
  });

  it('are counted where a log ends within a dump', () => {
    const texts = [...inspectorLogs({ collectives: 9, ranks: 1 }).values()].map((text) => text.split('\n').slice(0, 6).join('\n'));
    expect(inspectorJob(read(texts).processes, 'job').lost).toBe(5);
  });
});

it('leaves out records without times, and says which variable records them', () => {
  const reader = read(inspectorLogs({ isVerbose: false }).values());
  expect(() => inspectorJob(reader.processes, 'job')).toThrow(/NCCL_INSPECTOR_DUMP_VERBOSE=1 records them/);
  const mixed = read([...inspectorLogs({ ranks: 1 }).values(), ...inspectorLogs({ ranks: 1, isVerbose: false, collectives: 4 }).values()]);
  expect(inspectorJob(mixed.processes, 'job').untimed).toBe(7);
});

it('numbers processes by host and pid where no communicator has them all', () => {
  const job = jobOf({ world: '' });
  expect(job.isNumbered).toBe(true);
  expect(job.sources.map((source) => source.batch(0)?.header.pid)).toEqual([4000, 4001, 4002, 4003]);
});

describe('logs of two jobs in one folder', () => {
  const other = { world: '0x1234', firstPid: 5000 };
  const strangers = (options: InspectorLogOptions) =>
    strangersAmong(read([...inspectorLogs({ ranks: 2 }).values(), ...inspectorLogs({ ranks: 2, ...options }).values()]).processes)?.map(
      ({ pid }) => pid,
    );

  it('are told apart where no communicator connects them and one ran after the other', () => {
    expect(strangers({ ...other, afterMicros: 10_000_000 })).toEqual([4000, 5000]);
  });

  it('are one job where they ran at the same time, or a communicator connects them', () => {
    expect(strangers({ ...other, afterMicros: 100_000 })).toBeUndefined();
    expect(strangers({ firstPid: 5000, afterMicros: 10_000_000 })).toBeUndefined();
  });
});

it('makes a rank of each GPU of a process', () => {
  const texts = [...inspectorLogs({ ranks: 4, collectives: 6 }).values()].map((text) =>
    text.replaceAll(/"hostname":"[^"]+","pid":\d+/g, '"hostname":"one","pid":7'),
  );
  const job = inspectorJob(read([texts.join('')]).processes, 'job');
  expect(job.sources.map(({ rank }) => rank)).toEqual([0, 1, 2, 3]);
  expect(linesOf(job, 3)).toContain('10000 +391 AllReduce world AllReduce#1');
});

it('shows collectives that a graph repeats under one number as spans', () => {
  const texts = [...inspectorLogs({ ranks: 2, collectives: 2 }).values()].map((text) => text.replaceAll('"coll_sn":1', '"coll_sn":0'));
  const job = inspectorJob(read(texts).processes, 'job');
  expect(linesOf(job, 0).filter((line) => line.includes('AllReduce'))).toEqual([
    '0 +400 AllReduce (world)',
    '10000 +400 AllReduce (world)',
  ]);
});

describe('hostile logs', () => {
  const [line = ''] = [...inspectorLogs({ ranks: 1, format: 'v4.0' }).values()][0]?.split('\n') ?? [];

  test('endless lines are left out and counted, without being kept', () => {
    const reader = new InspectorReader(new ReadBudget(1024 * 1024));
    reader.push(bytesOf(`${line}\n`));
    const piece = bytesOf('['.repeat(65_536));
    for (let at = 0; at <= limits.inspectorLineBytesMax; at += piece.length) for (let times = 0; times < 8; times++) reader.push(piece);
    reader.push(bytesOf(`\n${line}\n`));
    reader.endFile();
    expect(reader.processes[0]).toMatchObject({ counts: { malformed: 1 }, records: { length: 2 } });
  });

  test('many communicators are bounded, and what belongs to further ones is counted', () => {
    const reader = new InspectorReader();
    const record = JSON.parse(line) as { header: { id: string } };
    for (let number = 0; number < limits.inspectorCommunicatorsMax + 3; number++) {
      record.header.id = `0x${number}`;
      reader.push(bytesOf(`${JSON.stringify(record)}\n`));
    }
    reader.endFile();
    expect(reader.processes[0]).toMatchObject({ counts: { malformed: 3 }, communicators: { size: limits.inspectorCommunicatorsMax } });
  });

  test('memory is charged', () => {
    const reader = new InspectorReader(new ReadBudget(100_000));
    expect(() => {
      for (let number = 0; number < 1000; number++) reader.push(bytesOf(`${line}\n`));
    }).toThrow(TraceError);
  });

  test('a file without any record is refused, and leaves no rank behind', () => {
    const reader = new InspectorReader();
    reader.push(bytesOf(`{"header":{"id":"0x1","rank":0,"n_ranks":1},"metadata":{"hostname":"h","pid":1},"other":1}\nno json\n`));
    expect(() => reader.endFile()).toThrow(/must hold records of NCCL Inspector/);
    expect(reader.processes).toEqual([]);
  });

  test('any change of a line gives a rank, a count or a TraceError, and rows in order', () => {
    const odd = fc.constantFrom<unknown>(null, -1, 0, 1.5, 1e300, 2 ** 53, 'x', '', [], {}, [[]], true, 65_536, '\u0000\u001b[31m');
    const keys = [...line.matchAll(/"(\w+)":/g)].map(([, key]) => key as string);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...keys), odd), { maxLength: 6 }), fc.nat(), (changes, cut) => {
        const changed = JSON.stringify(JSON.parse(line), (key, value) => changes.find(([name]) => name === key)?.[1] ?? value);
        const reader = new InspectorReader();
        reader.push(bytesOf(`${line}\n${changed}\n${line.slice(0, cut % line.length)}`));
        try {
          reader.endFile();
          for (const source of inspectorJob(reader.processes, 'job').sources) {
            let before = 0;
            for (let index = 0; index < source.count; index++) {
              const { length: rows = 0, columns } = source.batch(index)?.tables.collectives ?? {};
              for (let row = 0; row < rows; row++) {
                const [start = Number.NaN, length = Number.NaN] = [columns?.start[row], columns?.length[row]];
                expect(start).toBeGreaterThanOrEqual(before);
                expect(Number.isSafeInteger(start + length) && length >= 0).toBe(true);
                before = start;
              }
            }
          }
        } catch (error) {
          expect(error).toBeInstanceOf(TraceError);
        }
      }),
      { seed: 19, numRuns: 500 },
    );
  });
});

it('reads the first line after a byte order mark, too', () => {
  const texts = [...inspectorLogs().values()];
  const marked = texts.map((text) => `\uFEFF${text}`);
  expect(looksLikeInspector(marked[0] as string)).toBe(true);
  expect(read(marked).processes).toEqual(read(texts).processes);
});

it('recognises its logs by their beginning, and no other JSON', () => {
  for (const format of ['v4.0', 'v4.3'] as const)
    for (const text of inspectorLogs({ format }).values()) expect(looksLikeInspector(text.slice(0, 4096))).toBe(true);
  expect(looksLikeInspector('{"schemaVersion":1,"traceEvents":[{"name":"\\"coll_perf\\":"}]}')).toBe(false);
  expect(looksLikeInspector('[{"coll_perf":1}]')).toBe(false);
});

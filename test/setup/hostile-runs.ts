// Hostile runs: names that try to be markup, text without end, no events, one event, a month.

import { gzipSync } from 'node:zlib';
import { rankTime } from '@ranktrace/protocol';
import { batchOf, header } from './batches.ts';

/** If a page runs one of these, it sets `window.wasRun`. */
export const markup = [
  '<img src=x onerror="window.wasRun=1">',
  '<script>window.wasRun=1</script>',
  '"><svg onload="window.wasRun=1">',
  `javascript:window.wasRun=1//'"\`\${window.wasRun=1}`,
  '{{constructor.constructor("window.wasRun=1")()}}',
  '</style><style>*{display:none}</style>',
] as const;

/** Text that changes the reading of its surroundings, or is none at all. */
export const confusing = [
  'safe\u202egnp.exe',
  '\u2066\u2067\u2068isolated',
  'bell\u0007 escape\u001b[2J null\u0000 newline\nreturn\rtab\t',
  'half a pair \ud800 and another \udfff',
  '\u200b\u200c\u200d\ufeff',
  `Z̸̢͙̞͉͇̈́̋a̵̡͎̘͌l̶̥̙̝̈́g̷̻̘͐͑o̴̞̒${'\u0336'.repeat(300)}`,
  '👩‍👩‍👧‍👦'.repeat(100),
  ' ',
] as const;

/** A torch.profiler file with hostile text everywhere: names, arguments, threads, processes. */
export function hostileKineto(): Buffer {
  const megabyte = 'M'.repeat(1 << 20);
  const texts = [...markup, ...confusing, `long ${megabyte}`];
  const ts = 1000;
  const events = texts.flatMap((name, index) => [
    {
      ph: 'X',
      cat: name.slice(0, 200),
      name,
      pid: 9,
      tid: index,
      ts: ts + 100 * index,
      dur: 90,
      args: { [name.slice(0, 100)]: name, stack: name.slice(0, 4000) },
    },
    { ph: 'X', cat: 'cpu_op', name: `inner ${name}`, pid: 9, tid: index, ts: ts + 100 * index + 10, dur: 50 },
    { ph: 'M', name: 'thread_name', pid: 9, tid: index, ts: 0, args: { name } },
  ]);
  const traceEvents = [
    { ph: 'M', name: 'process_name', pid: 9, tid: 0, ts: 0, args: { name: markup[0] } },
    { ph: 'X', cat: 'user_annotation', name: 'ProfilerStep#1', pid: 9, tid: 0, ts, dur: 100 * texts.length },
    ...events,
  ];
  const info = { rank: 0, world_size: 1, backend: markup[1] };
  return gzipSync(JSON.stringify({ distributedInfo: info, baseTimeNanoseconds: 1_700_000_000_000_000_000, traceEvents }));
}

/** The batches of a stored run whose host and metadata are markup. */
export const hostileBatches = (run: string) => [
  batchOf(
    header({ run, rank: 0, worldSize: 1, sequence: 0, hostName: markup[0], last: true, watermark: rankTime(3_000_000) }),
    ['', 'main', ...markup, ...confusing],
    {
      tracks: [{ track: 1, kind: 1, name: 2, tid: 1 }],
      metadata: markup.map((_, index) => ({ key: 2 + index, value: 2 + index })),
      spans: [...markup, ...confusing].map((_, index) => ({
        ...span,
        start: 1_000_000 + 1000 * index,
        length: 900,
        name: 2 + index,
        category: 2 + index,
      })),
      steps: [{ start: 1_000_000, length: 1_000_000, track: 1, step: 0 }],
    },
  ),
];

const span = { track: 1, category: 0, id: 0, parent: 0, state: 0 };

/** Ranks that connected and sent nothing. */
export const emptyBatches = (run: string) =>
  [0, 1].map((rank) => batchOf(header({ run, rank, worldSize: 2, sequence: 0, last: true, watermark: rankTime(0) }), [''], {}));

/** One event of 1 ns. */
export const oneEventBatches = (run: string) => [
  batchOf(header({ run, rank: 0, worldSize: 1, sequence: 0, last: true, watermark: rankTime(5000) }), ['', 'main', 'the only one'], {
    tracks: [{ track: 1, kind: 1, name: 1, tid: 1 }],
    spans: [{ ...span, start: 4000, length: 1, name: 2 }],
  }),
];

const hour = 3600e9;

/** 30 days of 2 ranks, a step of 55 minutes every hour with 100 spans in it. */
export const monthBatches = (run: string) =>
  [0, 1].flatMap((rank) =>
    Array.from({ length: 30 }, (_, day) => {
      const hours = Array.from({ length: 24 }, (_, inDay) => 24 * day + inDay);
      const watermark = rankTime((24 * day + 24) * hour);
      return batchOf(header({ run, rank, worldSize: 2, sequence: day, last: day === 29, watermark }), ['', 'main', 'forward'], {
        tracks: [{ track: 1, kind: 1, name: 1, tid: 1 }],
        spans: hours.flatMap((at) =>
          Array.from({ length: 100 }, (_, index) => ({ ...span, start: at * hour + index * 33e9, length: 30e9, name: 2 })),
        ),
        steps: hours.map((at) => ({ start: at * hour, length: (55 / 60) * hour, track: 1, step: at })),
      });
    }),
  );

/** 4 ranks on 2 hosts; rank 2's clock is unknown, rank 3 never came, and a batch of rank 1 is missing. */
export const incompleteBatches = (run: string) =>
  [0, 1, 2].flatMap((rank) =>
    [0, 1, 2, 3].flatMap((sequence) => {
      if (rank === 1 && sequence === 1) return [];
      const start = sequence * 1e9;
      const place = rank < 2 ? {} : { host: 'c2a1c6de-0000-4000-8000-0242ac110009', hostName: 'node-b', epoch: '999' };
      const about = header({
        run,
        rank,
        worldSize: 4,
        sequence,
        last: sequence === 3,
        watermark: rankTime(start + 1e9),
        incarnation: `0192f3a1-${rank}`,
        ...place,
      });
      const dropped = { events: rank === 0 && sequence > 1 ? 17 : 0, arguments: 0, names: 0, batches: 0 };
      return batchOf({ ...about, dropped }, ['', 'main', 'forward'], {
        tracks: [{ track: 1, kind: 1, name: 1, tid: 1 }],
        spans: [{ ...span, start: start + 1e8, length: 5e8, name: 2 }],
        steps: [{ start, length: 9e8, track: 1, step: sequence }],
      });
    }),
  );

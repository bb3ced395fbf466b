// A live run "night" whose steps become longer, sent to a service as its ranks would send it, without waiting for the time that it takes.

import { deflateRawSync } from 'node:zlib';
import { type Aggregator, defaultConfig, type ServeConfig } from '@ranktrace/aggregator';
import { createEventTables, encodeBatch, rankTime } from '@ranktrace/protocol';
import { Random } from '@ranktrace/trace/simulate';

/** Alerts about steps, and about nothing else: these ranks are silent while a test looks, and on a busy machine that may be long. */
export function stepRulesAlone(): ServeConfig {
  const config = defaultConfig();
  return { ...config, capture: undefined, outputs: [], rules: { ...config.rules, off: ['rank_stopped', 'hang'] } };
}

/** Two ranks; the second works longer in `forward` from step 400 on. Stops before the batches that announce their end. */
export function* slowingRun(aggregator: Aggregator): Generator<void> {
  const random = new Random(7, 'steps');
  const noisy = (ms: number): number => Math.round(ms * 1e6 * random.lognormal(1, 0.003));
  const starts = [0, 0];
  for (let from = 0; from < 700; from += 10) {
    if (from === 690) yield;
    const forward = [0, 1].map((rank) => Array.from({ length: 10 }, (_, at) => noisy(rank === 1 && from + at >= 400 ? 92 : 80)));
    for (const rank of [0, 1]) {
      const tables = createEventTables();
      let start = starts[rank] as number;
      for (let at = 0; at < 10; at++) {
        const step = from + at;
        const longest = Math.max(...forward.map((steps) => steps[at] as number)) + 20e6;
        const own = forward[rank]?.[at] as number;
        tables.steps.append({ start, length: longest, track: 1, step, overhead: 0 });
        tables.phases.append({ step, name: 1, length: own, calls: 1 });
        tables.phases.append({ step, name: 2, length: longest - own, calls: 1 });
        start += longest;
      }
      starts[rank] = start;
      const header = {
        ...{ run: 'night', rank, worldSize: 2, incarnation: '0001', sequence: from / 10, host: 'host-a', hostName: 'a.example', pid: 7 },
        ...{ epoch: '1000', watermark: rankTime(start), last: from === 690 },
        dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
      };
      aggregator.ingest(encodeBatch({ header, strings: ['', 'forward', 'all_reduce'], tables }, (body) => deflateRawSync(body)));
    }
  }
}

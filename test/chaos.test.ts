// A short round of each kind of fault (`npm run chaos` plays hundreds): what was recorded is what is stored and what is counted as lost.
//
// And the judge itself: a trace from which a batch was taken must not pass.

import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cell, cellName, matrix, planRound, targets } from './chaos/matrix.ts';
import { playRound } from './chaos/round.ts';
import type { Stage } from './chaos/stage.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-chaos-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const machine = { mounts: process.platform === 'linux' && process.getuid?.() === 0 };
const { played, skipped } = matrix(machine);

test('each cell of the matrix is played or says why not', () => {
  expect(played.length + skipped.length).toBe(36);
  for (const { why } of skipped) expect(why).toMatch(/^\S.{10,}/);
});

test('a plan depends on its seed and round alone', () => {
  const plans = (seed: number): string => JSON.stringify(Array.from({ length: 40 }, (_, round) => planRound(seed, round, played)));
  expect(plans(1)).toBe(plans(1));
  expect(plans(1)).not.toBe(plans(2));
});

describe('nothing is lost uncounted, doubled or stopped', () => {
  const short: readonly string[] = [
    'rank × killed',
    'rank × full',
    'broker × killed',
    'aggregator × killed',
    'disk × full',
    'network × cut',
    'clock × frozen',
  ];

  test.for(short)('%s', { timeout: 300_000 }, async (name, context) => {
    const cell = played.find((one) => cellName(one) === name);
    if (cell === undefined) {
      const why = skipped.find((one) => cellName(one) === name)?.why ?? 'there is no such cell';
      console.warn(`${name}: not tested here: ${why}`);
      context.task.meta.impossibleHere = why;
      return context.skip(why);
    }
    const { disagreements, folder, stored } = await playRound(planOf(cell), directory);
    expect(disagreements, `kept in ${folder}`).toEqual([]);
    expect(stored).toBeGreaterThan(0);
  });
});

describe('the judge', () => {
  const frozen: Cell = { target: 'rank', how: 'frozen' };
  const lines = (path: string): string[] => readFileSync(path, 'utf8').trimEnd().split('\n');
  const journalOf = ({ folder, lives: [life] }: Stage): string => join(folder, `${life?.rank}-${life?.pid}.journal`);
  /** Ends the journal with so many more spans than were recorded. */
  const miscount = (stage: Stage, by: number): void => {
    const [spans, ...rest] = lines(journalOf(stage)).at(-1)?.split(' ').map(Number) ?? [];
    appendFileSync(journalOf(stage), `${[(spans as number) + by, ...rest].join(' ')}\n`);
  };
  /** Takes the last batch out of the first segment. */
  const cutSegment = ({ store }: Stage): void => {
    const [segment] = readdirSync(store, { recursive: true }).filter((name) => String(name).endsWith('.seg'));
    const path = join(store, String(segment));
    truncateSync(path, statSync(path).size - 10);
  };

  test.for([
    ['a span that is nowhere', (stage: Stage) => miscount(stage, 1), /dropped 0/],
    ['a span that nobody recorded', (stage: Stage) => miscount(stage, -1), /span \d+ is there, of \d+/],
    ['a stored batch that is gone', cutSegment, /\/status says batches \d+, the trace \d+/],
  ] as const)('finds %s', { timeout: 300_000 }, async ([, tamper, told]) => {
    const { disagreements } = await playRound(planOf(frozen), mkdtempSync(join(directory, 'judge-')), tamper);
    expect(disagreements.join('\n')).toMatch(told);
  });
});

/** Of one fault alone, and brief. */
function planOf(cell: Cell): ReturnType<typeof planRound> {
  const plan = planRound(1, targets.indexOf(cell.target), [cell]);
  const [fault] = plan.faults;
  return { ...plan, faults: fault === undefined ? [] : [{ ...fault, lastsMs: Math.min(fault.lastsMs, 600) }] };
}

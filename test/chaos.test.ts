// A short round of each kind of fault (`npm run chaos` plays hundreds): recorded events equal stored plus counted losses.
//
// A test of the judge itself: a trace without one of its batches must not pass.

import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cell, cellName, hows, matrix, planRound, targets } from './chaos/matrix.ts';
import { playRound } from './chaos/round.ts';
import { type Stage, thisMachine } from './chaos/stage.ts';
import { repository } from './setup/ranktrace-command.ts';

let directory: string;
const judged = mkdtempSync(join(tmpdir(), 'ranktrace-judge-'));
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-chaos-'));
});
afterAll(() => {
  rmSync(judged, { recursive: true, force: true });
  // A round that failed stays.
  if (readdirSync(directory).length === 0) rmdirSync(directory);
});

/** The logs of a round, for those who see only this test's output. */
const logsOf = (folder: string | undefined): string =>
  folder === undefined
    ? ''
    : readdirSync(folder)
        .filter((name) => name.endsWith('.log'))
        .map((name) => `${name}:\n${readFileSync(join(folder, name), 'utf8').slice(-4000)}`)
        .join('\n');

const { played, skipped } = matrix(thisMachine());

test('each cell of the matrix is played or says why not', () => {
  expect(played.length + skipped.length).toBe(36);
  for (const { why } of skipped) expect(why).toMatch(/^\S.{10,}/);
});

test('docs/data-loss.md shows the same cells', () => {
  const page = readFileSync(join(repository, 'docs/data-loss.md'), 'utf8');
  const shown = targets.map((target) =>
    new RegExp(`^\\| ${target} \\|(.*)\\|$`, 'm')
      .exec(page)?.[1]
      ?.split('|')
      .map((text) => text.trim()),
  );
  const all = matrix({ mounts: true, limits: true });
  const isPlayed = targets.map((target) => hows.map((how) => all.played.some((cell) => cell.target === target && cell.how === how)));
  // Other cells name the target under which they are played.
  expect(shown.map((row) => row?.map((text) => text !== '–' && !targets.some((target) => target === text)))).toEqual(isPlayed);
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
    const { disagreements, folder, stored } = await playRound(planOf(cell), join(directory, name.replaceAll(' ', '')));
    expect(disagreements, `kept in ${folder}\n${logsOf(folder)}`).toEqual([]);
    expect(stored).toBeGreaterThan(0);
  });
});

describe('the judge', () => {
  const frozen: Cell = { target: 'rank', how: 'frozen' };
  /** Ends the journal of a rank with so many more spans than it recorded. */
  const miscount = ({ folder, lives }: Stage, rank: number, by: number): void => {
    const journal = join(folder, `${rank}-${lives[rank]?.pid}.journal`);
    const [spans, ...rest] = readFileSync(journal, 'utf8').trimEnd().split('\n').at(-1)?.split(' ').map(Number) ?? [];
    appendFileSync(journal, `${[(spans as number) + by, ...rest].join(' ')}\n`);
  };
  const disagreements = async (tamper: (stage: Stage) => void): Promise<string> =>
    // A rank whose time to end is short may be cut off.
    (await playRound({ ...planOf(frozen), exitDeadlineMs: 60_000 }, mkdtempSync(join(judged, 'round-')), tamper)).disagreements.join('\n');

  test('finds a span that is nowhere, and one that nobody recorded', { timeout: 300_000 }, async () => {
    const reported = await disagreements((stage) => {
      miscount(stage, 0, 1);
      miscount(stage, 1, -1);
    });
    expect(reported).toMatch(/^rank 0 .*: \d+ spans and \d+ steps recorded; given to the shipper \d+ and \d+, dropped 0$/m);
    expect(reported).toMatch(/^rank 1 .*: span \d+ is there, of \d+$/m);
  });

  test('finds that a stored batch is gone', { timeout: 300_000 }, async () => {
    const reported = await disagreements(({ store, spool }) => {
      // A rank on a busy machine may have left it there, too.
      rmSync(spool, { recursive: true, force: true });
      const segments = readdirSync(store, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.seg'));
      // The last one of a rank has its last batch.
      const [last] = segments
        .filter((name) => dirname(name) === dirname(segments[0] as string))
        .sort()
        .reverse();
      const path = join(store, last as string);
      truncateSync(path, statSync(path).size - 10);
    });
    expect(reported).toMatch(/\/status says batches \d+, the trace \d+/);
    expect(reported).toMatch(/it ended well, and is reported as not ended/);
  });
});

/** A short round of one fault alone. */
function planOf(cell: Cell): ReturnType<typeof planRound> {
  const plan = planRound(1, targets.indexOf(cell.target), [cell]);
  const [fault] = plan.faults;
  return {
    ...plan,
    faults:
      fault === undefined
        ? []
        : [
            {
              ...fault,
              ...(fault.part === 'descriptors' && { part: 'ring' }),
              lastsMs: Math.min(fault.lastsMs, 600),
              staysToTheEnd: false,
            },
          ],
  };
}

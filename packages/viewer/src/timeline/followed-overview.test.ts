import type { Overview, RunModel } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { viewProcess } from '../testing/view-model.ts';
import { FollowedOverview } from './followed-overview.ts';
import type { Row } from './rows.ts';

/** Answers by hand, in any order; time stands still. */
function followed(overviewOfAll?: Overview) {
  const asked: {
    readonly bins: number;
    readonly answer: (overview: Partial<Overview>) => Promise<void>;
    readonly refuse: () => Promise<void>;
  }[] = [];
  const turn = () => new Promise<void>((resolve) => setTimeout(resolve));
  const waiting: (() => void)[] = [];
  const after = (_: number, action: () => void) => {
    waiting.push(action);
    return () => undefined;
  };
  const overview = new FollowedOverview(
    {
      overviewOfAll,
      overview: (bins: number) =>
        new Promise<Overview>((resolve, reject) => {
          asked.push({
            bins,
            answer: (about) => {
              resolve({ analysed: true, ...about } as Overview);
              return turn();
            },
            refuse: () => {
              reject(new Error('no such run'));
              return turn();
            },
          });
        }),
    },
    { now: () => 0, after },
  );
  const pass = (): void => {
    for (const action of waiting.splice(0)) action();
  };
  return { overview, asked, pass };
}

const modelOf = (ranks: number, about: Partial<RunModel> = {}): RunModel =>
  ({ live: false, read: 9, total: 9, processes: Array.from({ length: ranks }, (_, rank) => viewProcess(rank)), ...about }) as RunModel;

it('is asked once of a thousand ranks, before their number is known', async () => {
  const { overview, asked, pass } = followed();
  overview.follow(undefined);
  overview.follow(modelOf(1024));
  expect(overview.isSettled.value).toBe(false);
  await asked[0]?.answer({ steps: 1 });
  pass();
  expect(asked.map(({ bins }) => bins)).toEqual([128]);
  expect([overview.isSettled.value, overview.now.value?.steps]).toEqual([true, 1]);
  overview.dispose();
});

it('is asked with more bins at once of few ranks, and the later question wins', async () => {
  const { overview, asked } = followed();
  overview.follow(undefined);
  overview.follow(modelOf(4));
  expect(asked.map(({ bins }) => bins)).toEqual([128, 512]);
  await asked[1]?.answer({ steps: 2 });
  await asked[0]?.answer({ steps: 1 });
  expect(overview.now.value?.steps).toBe(2);
  overview.dispose();
});

it('is asked again as the run grows, and until causes were looked for', async () => {
  const { overview, asked, pass } = followed();
  const live = modelOf(1024, { live: true });
  overview.follow(live);
  await asked[0]?.answer({ analysed: false });
  pass();
  expect(asked).toHaveLength(2);
  await asked[1]?.answer({});
  overview.follow({ ...live });
  pass();
  expect(asked).toHaveLength(3);
  overview.dispose();
});

it('is asked again with the model when there was none before it', async () => {
  const { overview, asked, pass } = followed();
  overview.follow(undefined);
  await asked[0]?.refuse();
  expect(overview.isSettled.value).toBe(false);
  pass();
  overview.follow(modelOf(1024));
  expect(asked).toHaveLength(2);
  await asked[1]?.refuse();
  expect(overview.isSettled.value).toBe(true);
  overview.dispose();
});

it('begins with what another view was reported', async () => {
  const { overview, asked } = followed({ steps: 7 } as Overview);
  overview.follow(modelOf(1024));
  expect([overview.isSettled.value, overview.now.value?.steps]).toEqual([true, 7]);
  await asked[0]?.answer({ steps: 8 });
  expect(overview.now.value?.steps).toBe(8);
  overview.dispose();
});

it('is asked again of a recorded run after a refusal', async () => {
  const { overview, asked, pass } = followed();
  overview.follow(undefined);
  overview.follow(modelOf(4));
  await asked[0]?.answer({ steps: 1 });
  await asked[1]?.refuse();
  for (let turn = 0; turn < 3; turn++) pass();
  await asked[2]?.answer({ steps: 2 });
  expect([overview.now.value?.steps, asked[2]?.bins]).toEqual([2, asked[1]?.bins]);
  overview.dispose();
});

it('gives a row the band of the ranks that it stands for now', async () => {
  const { overview, asked } = followed();
  overview.follow(modelOf(4));
  const ranks = [10, 20, 30].map((cell, rank) => ({ rank, cells: [cell] }));
  await asked[0]?.answer({ bins: [0], times: [0], toStep: 0, slowest: [30], ranks } as unknown as Partial<Overview>);
  const bandOf = (...of: number[]) => overview.bandOf({ key: 'rest:g', ranks: of } as unknown as Row);
  expect([bandOf(0, 1)?.high[0], bandOf(1, 2)?.high[0], bandOf(0, 1)?.high[0]]).toEqual([20, 30, 20]);
  expect(bandOf(1, 2)).toBe(bandOf(1, 2));
  overview.dispose();
});

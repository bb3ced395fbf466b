import { setTimeout as sleep } from 'node:timers/promises';
import type { AreaTable } from '@ranktrace/protocol';
import type { BatchSource } from '@ranktrace/trace';
import { simulatedCluster } from '@ranktrace/trace/simulate';
import { describe, expect, it } from 'vitest';
import { driveSteps } from '../model/drive-steps.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { type FollowedRun, followStore } from './follow-store.ts';
import { ViewedRun } from './viewed-run.ts';

const cluster = { ranks: 4, hosts: 2, seconds: 20, stepMs: 100, seed: 7 };

/** `source` with only the batches at these places. */
function only(source: BatchSource, places: readonly number[]): BatchSource {
  const most = Math.max(-1, ...places);
  return {
    rank: source.rank,
    incarnation: source.incarnation,
    count: places.length,
    missing: most + 1 - places.length,
    batch: (index, tables) => source.batch(places[index] as number, tables),
  };
}

const first = (source: BatchSource, count: number): BatchSource =>
  only(
    source,
    Array.from({ length: Math.min(count, source.count) }, (_, at) => at),
  );

const noNotice = (notice: string): void => {
  throw new Error(notice);
};

/** Everything that pages can see of a run: tables of names, tiles of three levels, gaps, steps. */
async function shown(viewed: ViewedRun): Promise<unknown> {
  const { timeline } = viewed;
  const tables: unknown[] = [];
  for (const track of timeline.tracks) {
    const table: AreaTable = await driveSteps(timeline.area(timeline.from, timeline.until, [track.id]));
    const tiles = [20, 26, 34].map((level) => timeline.tile({ track: track.id, level, index: 0 }));
    const { rank } = track.process.process;
    tables.push({
      rank,
      name: track.lane.name,
      events: track.events,
      rows: table.rows.map(({ place: _, ...row }) => row),
      tiles: tiles.map(withoutKeys),
    });
  }
  const byName = (a: unknown, b: unknown): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
  const { ranks, percentiles, slowest } = viewed.overview({ bins: 50 });
  return { tables: tables.sort(byName), ranks: ranks.map(({ process: _, ...rank }) => rank), percentiles, slowest };
}

/** Names as text, without versions and numbers of names. */
const withoutKeys = (tile: unknown): unknown => {
  const { track: _, version: __, name: ___, ...rest } = tile as Record<string, unknown>;
  return rest;
};

/** Follows a run whose sources take each of `states` in turn; the last is whole. */
async function followed(states: readonly (readonly BatchSource[])[], viewed: ViewedRun): Promise<void> {
  let at = 0;
  const run: FollowedRun = { isFixed: true, sources: () => states[at] as readonly BatchSource[], isWhole: () => at === states.length - 1 };
  const stop = new AbortController();
  const following = followStore(run, viewed, stop.signal, noNotice);
  for (; at < states.length - 1; at++) {
    const batches = (states[at] as readonly BatchSource[]).reduce((sum, { count }) => sum + count, 0);
    await waitUntil(`state ${at} is read`, () => viewed.about.read === 2 * batches);
  }
  await following;
}

describe('a run that is followed', () => {
  const { sources } = simulatedCluster(cluster);
  const whole = async (): Promise<unknown> => {
    using viewed = new ViewedRun('demo');
    await followed([sources], viewed);
    return await shown(viewed);
  };

  it('is in the end what it is when it is read at once', async () => {
    using viewed = new ViewedRun('demo');
    const parts = [0.2, 0.5, 0.9].map((share) => sources.map((source) => first(source, Math.floor(share * source.count))));
    await followed([...parts, sources], viewed);
    expect(await shown(viewed)).toEqual(await whole());
    expect(viewed.about).toMatchObject({ live: false, worldSize: 4 });
    expect(viewed.model().processes.map(({ rank, ended, alignment }) => [rank, ended, alignment.method])).toEqual([
      [0, true, 'sampled'],
      [1, true, 'sampled'],
      [2, true, 'sampled'],
      [3, true, 'sampled'],
    ]);
  });

  it('is the same when a gap is filled while a larger one opens behind it', async () => {
    const rank = sources[1] as BatchSource;
    const without = (count: number, ...missing: number[]): readonly BatchSource[] => {
      const places = Array.from({ length: count }, (_, at) => at).filter((at) => !missing.includes(at));
      return sources.map((source) => (source === rank ? only(rank, places) : first(source, count)));
    };
    const last = without(rank.count, 11, 14, 15);
    using atOnce = new ViewedRun('demo');
    await followed([last], atOnce);
    using viewed = new ViewedRun('demo');
    await followed([without(14, 10, 11), last], viewed);
    for (const one of [atOnce, viewed]) await waitUntil('it is analysed', () => one.overview({ bins: 1 }).analysed);
    expect(await shown(viewed)).toEqual(await shown(atOnce));
  });

  it('says of a rank without a goodbye that it has not ended, also when nothing more is expected', async () => {
    using viewed = new ViewedRun('demo');
    await followed([sources.map((source) => (source.rank === 2 ? first(source, source.count - 1) : source))], viewed);
    expect(viewed.model().processes.map(({ rank, ended }) => [rank, ended])).toEqual([
      [0, true],
      [1, true],
      [2, false],
      [3, true],
    ]);
  });

  it('is the same when batches come late and fill a gap, and the gap is shown meanwhile', async () => {
    using viewed = new ViewedRun('demo');
    const rank = sources[1] as BatchSource;
    const places = Array.from({ length: rank.count - 1 }, (_, at) => at).filter((at) => at < 10 || at > 14);
    const gapped = sources.map((source) => (source === rank ? only(rank, places) : first(source, source.count - 1)));
    let gaps: unknown;
    viewed.onGrown(() => {
      gaps ??= viewed.model().processes.find((process) => process.rank === 1 && process.gaps.length > 0)?.gaps;
    });
    await followed([gapped, sources], viewed);
    expect(gaps).toMatchObject([{ batches: 5, events: 0 }]);
    expect(viewed.model().processes.every((process) => process.gaps.length === 0 && process.missing === 0)).toBe(true);
    expect(await shown(viewed)).toEqual(await whole());
  });

  it('is analysed to its last batch when it falls silent, although an analysis has just been made', async () => {
    using viewed = new ViewedRun('demo');
    const slow = { rank: 2, phase: 'forward', ms: 20, step: 100, lastStep: 199 } as const;
    const all = simulatedCluster({ ...cluster, stragglers: [slow] }).sources;
    let now = all.map((source) => first(source, 5));
    const run: FollowedRun = { isFixed: false, sources: () => now, isWhole: () => false };
    const stop = new AbortController();
    const following = followStore(run, viewed, stop.signal, noNotice);
    const stragglers = (): object[] => viewed.overview({ bins: 10 }).findings.filter(({ kind }) => kind === 'straggler');
    await waitUntil('its beginning is analysed', () => viewed.profile() !== undefined);
    expect(stragglers()).toEqual([]);
    now = all.map((source) => first(source, source.count - 1));
    await waitUntil('its end is analysed', () => stragglers().length > 0);
    expect(stragglers()).toMatchObject([{ ranks: [2], phase: 'forward' }]);
    // Then there is nothing to do.
    let grown = 0;
    viewed.onGrown(() => grown++);
    await sleep(1000);
    expect(grown).toBe(0);
    stop.abort();
    await following;
  });

  it('says how much is read, and compares only steps that all ranks have reported, at each batch until all is read', async () => {
    using viewed = new ViewedRun('demo');
    const seen: { part: number; steps: number; toStep: number }[] = [];
    const look = (): void => {
      const { read, total } = viewed.model();
      const overview = viewed.overview({ bins: 1000 });
      expect(read).toBeLessThan(total);
      seen.push({ part: read / total, steps: overview.steps, toStep: overview.toStep });
      if (overview.steps === 0) {
        expect([overview.ranks, overview.percentiles]).toEqual([[], null]);
        return;
      }
      expect(overview).toMatchObject({ allRead: false, fromStep: 0 });
      expect(overview.ranks.map(({ rank, steps }) => [rank, steps])).toEqual([0, 1, 2, 3].map((rank) => [rank, overview.toStep + 1]));
      // No cell of a rank stands beside an empty one.
      expect(overview.ranks.every(({ cells }) => cells.every((cell) => cell !== null))).toBe(true);
    };
    look();
    let isReading = true;
    const watched = sources.map((source): BatchSource => {
      return {
        rank: source.rank,
        incarnation: source.incarnation,
        count: source.count,
        missing: source.missing,
        batch: (index, tables) => {
          // The analysis reads them once more.
          if (isReading) look();
          return source.batch(index, tables);
        },
      };
    });
    await followed([watched], viewed);
    isReading = false;
    const batches = sources.reduce((sum, { count }) => sum + count, 0);
    const compared = seen.filter(({ steps }) => steps > 0);
    expect(compared.length).toBeGreaterThan(batches / 2);
    expect(compared.map(({ toStep }) => toStep)).toEqual(compared.map(({ toStep }) => toStep).sort((a, b) => a - b));
    expect(seen.map(({ part }) => part)).toEqual(seen.map(({ part }) => part).sort((a, b) => a - b));
    const { ranks, allRead } = viewed.overview({ bins: 1000 });
    expect([allRead, viewed.about.read === viewed.about.total, ranks.length]).toEqual([true, true, 4]);
  });

  it('waits for no rank of a live run that has said nothing more', async () => {
    using viewed = new ViewedRun('demo');
    const upTo = (share: number): BatchSource[] =>
      sources.map((source, rank) => first(source, Math.floor((rank === 3 ? 0.2 : share) * source.count)));
    const silentSince = (): number => viewed.timeline.processes.find(({ process }) => process.rank === 3)?.steps.range?.[1] ?? 0;
    const seen: number[] = [];
    viewed.onGrown(() => {
      const { read, total } = viewed.about;
      if (seen.length > 0 || read === total) seen.push(viewed.overview({ bins: 1000 }).toStep);
    });
    await followed([upTo(0.6), upTo(1)], viewed);
    expect(Math.min(...seen)).toBeGreaterThan(2 * silentSince());
    expect(seen.at(-1)).toBeGreaterThan(seen[0] as number);
  });

  it('sends pages what they have not, whenever they ask', async () => {
    using viewed = new ViewedRun('demo');
    const before = viewed.growth(undefined);
    expect(before?.growth).toMatchObject({ processes: [], tracks: [] });
    await followed([sources], viewed);
    const grown = viewed.growth(before?.cursor);
    const { type, namesFrom, ...model } = viewed.growth(undefined)?.growth ?? {};
    expect(grown?.growth.processes).toHaveLength(4);
    expect(model).toEqual(viewed.model());
    await waitUntil('it is analysed', () => viewed.overview({ bins: 1 }).analysed);
    expect(viewed.growth(viewed.growth(grown?.cursor)?.cursor ?? grown?.cursor)).toBeUndefined();
  });
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createViewState, type ViewState } from './client/view-state.ts';
import { formatAddress, readAddress } from './url-state.ts';

const valuesOf = (state: ViewState): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(state)
      .filter(([key]) => key !== 'target' && key !== 'follow')
      .map(([key, signal]) => [key, (signal as { peek(): unknown }).peek()]),
  );

const key = fc.string({ minLength: 1, maxLength: 20 }).filter((text) => !/[,\n\r]/.test(text) && text.isWellFormed());
const keys = fc.uniqueArray(key, { maxLength: 5 });
const number = fc.nat({ max: 2 ** 31 });
const hash = fc.nat({ max: 2 ** 32 - 1 }).map((value) => value.toString(36));
const track = fc
  .tuple(fc.nat({ max: 65_535 }), fc.constantFrom('', '.2', '.12', '.beside', '.beside.2'), hash)
  .map(([rank, life, of]) => `r${rank}${life}-${of}`);

test('groups with commas in their names, and with the longest names, stay folded', () => {
  const state = createViewState();
  const groups = ['g:tp [0, 1]', 'g:50 %, or 100 %2C', `rest:g:${'h'.repeat(256)}`];
  for (const list of [state.folded, state.unfolded]) list.value = new Set(groups);
  state.order.value = groups;
  const other = createViewState();
  readAddress(formatAddress(state), other);
  expect([[...other.folded.value], [...other.unfolded.value], other.order.value]).toEqual([groups, groups, groups]);
});

test('an area of more tracks than an address has room for is not in it: a part of them would have another sum', () => {
  const state = createViewState();
  const areaOf = (count: number) => ({ from: 1, until: 2, tracks: Array.from({ length: count }, (_, rank) => `r${rank}-1kq0zb`) });
  const read = (count: number) => {
    state.area.value = areaOf(count);
    const other = createViewState();
    readAddress(formatAddress(state), other);
    return other.area.value;
  };
  expect([read(0), read(200), read(201)]).toEqual([areaOf(0), areaOf(200), undefined]);
});

test('an address brings back what was seen (seed 5)', () => {
  fc.assert(
    fc.property(
      fc.record({
        page: fc.constantFrom('overview' as const, 'timeline' as const, 'compare' as const, 'profile' as const),
        run: fc.option(key, { nil: undefined }),
        range: fc.option(fc.tuple(fc.integer({ min: -1e9, max: 1e15 }), fc.integer({ min: 1e6, max: 1e12 })), { nil: undefined }),
        folded: keys,
        unfolded: keys,
        pinned: keys,
        order: keys,
        ranks: fc.uniqueArray(number, { maxLength: 5 }),
        link: fc.option(fc.record({ track, start: number, depth: fc.nat({ max: 255 }), name: hash }), { nil: undefined }),
        area: fc.option(fc.tuple(number, fc.integer({ min: 1, max: 1e9 }), fc.uniqueArray(track, { maxLength: 5 })), { nil: undefined }),
        steps: fc.option(fc.tuple(number, number), { nil: undefined }),
        choices: fc.array(fc.option(key, { nil: undefined }), { minLength: 5, maxLength: 5 }),
        rank: fc.option(number, { nil: undefined }),
        search: fc.string({ maxLength: 30 }).filter((text) => text.isWellFormed()),
      }),
      (seen) => {
        const state = createViewState();
        state.page.value = seen.page;
        state.run.value = seen.run;
        state.from.value = seen.range?.[0];
        state.until.value = seen.range === undefined ? undefined : seen.range[0] + seen.range[1];
        state.folded.value = new Set(seen.folded);
        state.unfolded.value = new Set(seen.unfolded);
        state.pinned.value = seen.pinned;
        state.order.value = seen.order;
        state.highlighted.value = new Set(seen.ranks);
        state.link.value = seen.link;
        if (seen.area !== undefined) state.area.value = { from: seen.area[0], until: seen.area[0] + seen.area[1], tracks: seen.area[2] };
        state.search.value = seen.search;
        if (seen.steps !== undefined) state.steps.value = { fromStep: Math.min(...seen.steps), toStep: Math.max(...seen.steps) };
        const choices = [state.rankOrder, state.cells, state.tables, state.compareTab, state.alignment];
        for (const [at, choice] of choices.entries()) choice.value = seen.choices[at];
        state.tablesRank.value = seen.rank;
        const other = createViewState();
        readAddress(formatAddress(state), other);
        expect(valuesOf(other)).toEqual(valuesOf(state));
      },
    ),
    { seed: 5, numRuns: 200 },
  );
});

test('whatever an address holds, the state is one that can be shown (seed 6)', () => {
  const word = fc.constantFrom(
    'from',
    'until',
    'sel',
    'area',
    'fold',
    'ranks',
    'page',
    'run',
    'shift',
    'steps',
    'rank',
    '-',
    'q',
    '=',
    '&',
    '?',
    '.',
    '_',
    '%',
    '%2',
    '-1',
    '1e400',
    '9',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(word, fc.string()), { maxLength: 30 }), (words) => {
      const state = createViewState();
      readAddress(`#/timeline?${words.join('')}`, state);
      const [from, until] = [state.from.peek(), state.until.peek()];
      expect(from === undefined ? until === undefined : until !== undefined && from < until).toBe(true);
      expect(Number.isFinite(state.otherShift.peek())).toBe(true);
      const steps = state.steps.peek();
      if (steps !== undefined) expect(steps.fromStep).toBeLessThanOrEqual(steps.toStep);
      const area = state.area.peek();
      if (area !== undefined) expect(area.from).toBeLessThan(area.until);
      formatAddress(state);
    }),
    { seed: 6, numRuns: 500 },
  );
});

test('a window of nanoseconds is the same again', () => {
  const state = createViewState();
  state.page.value = 'timeline';
  [state.from.value, state.until.value] = [5_000_000_000.125, 5_000_000_060.5];
  const address = formatAddress(state);
  const other = createViewState();
  readAddress(address, other);
  expect([other.from.peek(), other.until.peek()]).toEqual([5_000_000_000.125, 5_000_000_060.5]);
});

test('a run that is followed is not tied to a window', () => {
  const state = createViewState();
  [state.from.value, state.until.value, state.follow.value] = [0, 1e9, true];
  expect(formatAddress(state)).toBe('#/overview');
});

test('an address with a range ends following, one without leaves it', () => {
  const state = createViewState();
  state.follow.value = true;
  readAddress('#/timeline?run=train', state);
  expect(state.follow.value).toBe(true);
  readAddress('#/timeline?run=train&from=1000&until=2000', state);
  expect([state.follow.value, state.from.value]).toEqual([false, 1000]);
});

import type { CounterTile, Tile, TileKey } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { type FixtureItem, spanTile } from '../testing/span-tile.ts';
import { modelOf, viewProcess } from '../testing/view-model.ts';
import { fillColumns } from './counter-columns.ts';
import { type Frame, FramePainter, levelOf, rulerHeight } from './frame-painter.ts';
import { NameColourTable } from './name-colours.ts';
import { colourOf, palettes } from './palette.ts';
import { layOut } from './rows.ts';
import { TileCache } from './tile-cache.ts';

const palette = palettes.light;
const names = ['a', 'b', 'forward', 'ProfilerStep#3', 'c', 'backward'];
const colour = (name: string): number | undefined => palette.spans[colourOf(name)];
const dimmedColour = (name: string): number | undefined => palette.dimmed[colourOf(name)];

/** A frame of a run of one rank: steps in track 0, spans in track 1, a counter in track 2; 1000 ns on 100 pixels. */
async function paint(items: Readonly<Record<number, readonly FixtureItem[]>>, about: Partial<Frame> = {}, process = viewProcess(0)) {
  const source = {
    async tiles(keys: readonly TileKey[], onTiles: (tiles: readonly Tile[]) => void): Promise<void> {
      onTiles(keys.map((key) => spanTile(key.index === 0 ? (items[key.track] ?? []) : [], key)));
    },
  };
  const painter = new FramePainter(new TileCache(source, () => undefined));
  const layout = layOut({
    model: { ...modelOf(1), processes: [process] },
    grouping: 'rank',
    folded: new Set(),
    unfolded: new Set(),
    pinned: [],
    order: [],
    highlighted: new Set(),
    representatives: new Map(),
  });
  const frame: Frame = {
    width: 100,
    height: 200,
    ratio: 1,
    window: { from: 0, until: 1000 },
    layout,
    scrollTop: 0,
    until: 1000,
    palette,
    colours: new NameColourTable(() => names),
    means: undefined,
    bandOf: () => undefined,
    ...about,
  };
  painter.paint(frame);
  await Promise.resolve();
  painter.paint(frame);
  return { painter, at: (x: number, y: number): number => painter.pixels.data[y * painter.pixels.width + x] as number };
}

// The rank's row is 28 high, then the thread's two lines of 18 each.
const firstLine = rulerHeight + 28 + 8;

test('spans lie in their lane, at their depth, at their time', async () => {
  const { at, painter } = await paint({
    0: [{ start: 0, length: 500, name: 3 }],
    1: [
      { start: 100, length: 400, name: 2 },
      { start: 200, length: 100, depth: 1, name: 5 },
    ],
  });
  expect(at(20, rulerHeight + 14)).toBe(palette.steps[1]);
  expect(at(60, rulerHeight + 14)).toBe(palette.header);
  expect(at(5, firstLine)).toBe(palette.background);
  expect(at(15, firstLine)).toBe(colour('forward'));
  expect(at(25, firstLine + 18)).toBe(colour('backward'));
  expect(at(35, firstLine + 18)).toBe(palette.background);
  const labels = painter.texts.labels.slice(0, painter.texts.labelCount).map(({ name, left, right }) => `${name}: ${left}–${right}`);
  expect(labels).toEqual(['3: 0–50', '2: 10–50']);
});

test('what a search does not mean is dimmed', async () => {
  const { at } = await paint(
    {
      1: [
        { start: 100, length: 100, name: 2 },
        { start: 300, length: 100, name: 5 },
      ],
    },
    { means: (name) => name === 5 },
  );
  expect(at(15, firstLine)).toBe(dimmedColour('forward'));
  expect(at(35, firstLine)).toBe(colour('backward'));
});

test('a gap is hatched over all lanes of its rank', async () => {
  const gaps = [{ from: 400, until: 600, batches: 1, events: 0 }];
  const { at } = await paint({}, {}, viewProcess(0, { gaps }));
  const colours = new Set(Array.from({ length: 20 }, (_, x) => at(40 + x, firstLine)));
  expect(colours.size).toBe(2);
  expect(at(39, firstLine)).toBe(palette.background);
  expect(at(61, firstLine)).toBe(palette.background);
});

test('where a live rank has reported nothing yet is not empty but unknown', async () => {
  const { at } = await paint({ 1: [{ start: 100, length: 100 }] }, {}, viewProcess(0, { ended: false, until: 600 }));
  expect(at(50, firstLine)).toBe(palette.background);
  expect(at(80, firstLine)).toBe(palette.unknown);
});

test('the ruler is never painted over, however far the lanes are scrolled', async () => {
  const { at } = await paint({ 1: [{ start: 0, length: 1000 }] }, { scrollTop: 40 });
  for (let y = 0; y < rulerHeight; y++) expect(at(50, y)).toBe(palette.background);
});

test('an instant is a marker at the foot of its line', async () => {
  const { at } = await paint({ 1: [{ start: 500, length: 0, kind: 'instant' }] });
  expect(at(50, rulerHeight + 28 + 14)).not.toBe(palette.background);
  expect(at(40, rulerHeight + 28 + 14)).toBe(palette.background);
});

test('columns of a counter hold the value until the next, and what was merged as a range', () => {
  const tile: CounterTile = {
    type: 'counter',
    track: 0,
    level: 0,
    index: 0,
    version: 1,
    complete: true,
    time: Float64Array.of(-10, 2, 5.5),
    last: Float64Array.of(1, 2, 3),
    low: Float64Array.of(1, 0, 3),
    high: Float64Array.of(1, 9, 3),
    count: Uint32Array.of(1, 4, 1),
  };
  const columns = {
    last: new Float64Array(8).fill(Number.NaN),
    low: new Float64Array(8).fill(Number.NaN),
    high: new Float64Array(8).fill(Number.NaN),
  };
  fillColumns(tile, 0, 1, 0, 7, columns);
  expect([...columns.last]).toEqual([1, 1, 2, 2, 2, 3, 3, Number.NaN]);
  expect([...columns.low].slice(0, 5)).toEqual([1, 1, 0, 2, 2]);
  expect([...columns.high].slice(0, 5)).toEqual([1, 1, 9, 2, 2]);
  // No number from 3 on, a number again within the column of 5: its range is that of the number.
  for (const values of Object.values(columns)) values.fill(Number.NaN);
  const gap = Float64Array.of(1, Number.NaN, 4);
  fillColumns({ ...tile, time: Float64Array.of(0, 3, 5.5), last: gap, low: gap, high: gap }, 0, 1, 0, 7, columns);
  for (const values of Object.values(columns)) expect([...values]).toEqual([1, 1, 1, Number.NaN, Number.NaN, 4, 4, Number.NaN]);
});

test('the level has a grain of at most a pixel, and at least half of one', () => {
  for (const nsPerPx of [1, 1.5, 2, 3, 1000, 123_456]) {
    expect(2 ** levelOf(nsPerPx)).toBeLessThanOrEqual(nsPerPx);
    expect(2 ** levelOf(nsPerPx)).toBeGreaterThan(nsPerPx / 2);
  }
  expect(levelOf(0.01)).toBe(0);
});

test('time in which events are shifted is marked below the steps of their rank', async () => {
  const alignment = { ...viewProcess(0).alignment, shifted: [{ from: 200, until: 400, most: 50 }] };
  const { at } = await paint({}, {}, viewProcess(0, { alignment }));
  const bottom = rulerHeight + 28 - 3;
  expect([at(19, bottom), at(20, bottom), at(39, bottom), at(40, bottom)].map((pixel) => pixel === palette.clockStep)).toEqual([
    false,
    true,
    true,
    false,
  ]);
  expect(at(30, bottom - 4)).not.toBe(palette.clockStep);
});

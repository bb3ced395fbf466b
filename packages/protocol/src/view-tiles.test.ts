import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProtocolError } from './errors.ts';
import { type CounterTile, decodeTiles, encodeTiles, type SpanTile, type Tile, tileBytes, tileWidth } from './view-tiles.ts';

const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const about = fc.record({
  track: u32,
  level: fc.integer({ min: 0, max: 52 }),
  index: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
  version: u32,
  complete: fc.boolean(),
});
const items = fc.integer({ min: 0, max: 9 });
const columns = (size: number) => {
  const of = <T extends number>(value: fc.Arbitrary<T>) => fc.array(value, { minLength: size, maxLength: size });
  return {
    f64: of(fc.double()).map((values) => Float64Array.from(values)),
    f32: of(fc.float()).map((values) => Float32Array.from(values)),
    u32: of(u32).map((values) => Uint32Array.from(values)),
    u8: of(fc.integer({ min: 0, max: 255 })).map((values) => Uint8Array.from(values)),
  };
};

const spanTile: fc.Arbitrary<SpanTile> = fc.tuple(about, items).chain(([key, size]) => {
  const { f64, f32, u32: u32s, u8 } = columns(size);
  return fc
    .record({ start: f64, length: f64, busy: f32, count: u32s, name: u32s, event: u32s, depth: u8, kind: u8 })
    .map((held) => ({ type: 'spans', ...key, ...held }));
});

const counterTile: fc.Arbitrary<CounterTile> = fc.tuple(about, items).chain(([key, size]) => {
  const { f64, u32: u32s } = columns(size);
  return fc.record({ time: f64, last: f64, low: f64, high: f64, count: u32s }).map((held) => ({ type: 'counter', ...key, ...held }));
});

const tiles: fc.Arbitrary<Tile[]> = fc.array(fc.oneof(spanTile, counterTile), { maxLength: 5 });

/** Fails on anything but a value or a ProtocolError. */
function decodeAnything(bytes: Uint8Array): void {
  try {
    for (const tile of decodeTiles(bytes).tiles) expect(tileBytes(tile)).toBeLessThanOrEqual(bytes.length);
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError);
    expect((error as ProtocolError).code).toBe('bad_message');
  }
}

describe('tiles', () => {
  it('come back as they were sent, with the request they answer (seed 41)', () => {
    fc.assert(
      fc.property(u32, tiles, (request, sent) => {
        expect(decodeTiles(encodeTiles(request, sent))).toEqual({ request, tiles: sent });
      }),
      { seed: 41, numRuns: 200 },
    );
  });

  it('take as many bytes as they say', () => {
    fc.assert(
      fc.property(tiles, (sent) => {
        expect(encodeTiles(1, sent).length).toBe(sent.reduce((sum, tile) => sum + tileBytes(tile), 16));
      }),
      { seed: 42, numRuns: 50 },
    );
  });

  it('that are no tiles are a ProtocolError, whatever they are (seed 43)', () => {
    const frame = fc.tuple(tiles, fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }), fc.nat());
    fc.assert(
      fc.property(frame, ([sent, changes, cut]) => {
        const bytes = encodeTiles(7, sent);
        for (const [at, value] of changes) bytes[at % bytes.length] = value;
        decodeAnything(bytes);
        decodeAnything(bytes.slice(0, cut % (bytes.length + 1)));
      }),
      { seed: 43, numRuns: 500 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200, size: 'max' }), decodeAnything), { seed: 44, numRuns: 300 });
  });

  it('that announce more than the frame holds are refused at once', () => {
    const bytes = encodeTiles(1, []);
    new DataView(bytes.buffer).setUint32(8, 2 ** 32 - 1, true);
    expect(() => decodeTiles(bytes)).toThrow('it must hold 4294967295 tiles, got 0');
    const one = encodeTiles(1, [{ type: 'counter', track: 0, level: 0, index: 0, version: 0, complete: true, ...noValues }]);
    new DataView(one.buffer).setUint32(16 + 24, 2 ** 32 - 1, true);
    expect(() => decodeTiles(one)).toThrow(ProtocolError);
  });

  it('cover 1024 grains', () => {
    expect([0, 10, 42].map(tileWidth)).toEqual([1024, 2 ** 20, 2 ** 52]);
  });
});

const noValues = {
  time: new Float64Array(0),
  last: new Float64Array(0),
  low: new Float64Array(0),
  high: new Float64Array(0),
  count: new Uint32Array(0),
};

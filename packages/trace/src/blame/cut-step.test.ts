import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Meeting } from './blame-window.ts';
import { cutStep, type PlacedPhase, type StepCollective } from './cut-step.ts';

const names = ['data', 'forward', 'backward', 'other'];
const meeting = (name: string): Meeting => ({ name, lastRank: 1, transfer: 1, epsilon: 0 });

/** A collective named `c`, entered and left at these times, in ns. */
const collective = (entry: number, waitedUntil: number, exit: number | undefined, about: Partial<StepCollective> = {}): StepCollective => ({
  ...{ entry, exit, meeting: meeting('c'), waitedUntil, lag: 0, exposed: undefined },
  ...about,
});

const placed = (text: string): PlacedPhase[] =>
  text.split(', ').map((part) => {
    const [name = '', from, until, isAsync] = part.split(' ');
    return { phase: names.indexOf(name), from: Number(from), until: Number(until), isAsync: isAsync === 'async' };
  });

/** Pieces as text: `own data 40`, `enter c`, … */
function check(length: number, phases: string, collectives: readonly StepCollective[], expected: string): void {
  const pieces = cutStep(1000, length, placed(phases), collectives, names.indexOf('other'));
  const shown = pieces.map((piece) => {
    if (piece.kind === 'enter' || piece.kind === 'leave') return `${piece.kind} ${piece.meeting.name}`;
    return `${piece.kind} ${names[piece.phase]} ${piece.length}`;
  });
  expect(shown.join(', ')).toBe(expected);
}

it('cuts phases at collectives, and these at the entry of the last rank', () => {
  const collectives = [collective(1060, 1075, 1080)];
  const phases = 'data 1000 1020, backward 1025 1090';
  const cut =
    'own data 20, own other 5, own backward 35, enter c, wait backward 15, transfer backward 5, leave c, own backward 10, own other 10';
  check(100, phases, collectives, cut);
});

it('has no wait for the rank that came last, and no leave for one that went before', () => {
  check(100, 'data 1000 1100', [collective(1050, 1050, 1060)], 'own data 50, enter c, transfer data 10, leave c, own data 40');
  check(100, 'data 1000 1100', [collective(1050, 1060, 1060, { lag: undefined })], 'own data 50, enter c, wait data 10, own data 40');
});

it('goes on inside of a collective that began in the step before, or ends in the next one', () => {
  check(100, 'data 1000 1100', [collective(990, 995, 1010)], 'transfer data 10, leave c, own data 90');
  check(100, 'data 1000 1100', [collective(1090, 1110, 1120)], 'own data 90, enter c, wait data 10');
});

it('calls work what hides a collective, and waits for the later of two', () => {
  const hidden = collective(1010, 1050, 1060, { exposed: [[1040, 1060]] });
  check(
    100,
    'backward 1000 1100',
    [hidden],
    'own backward 10, enter c, own backward 30, wait backward 10, transfer backward 10, leave c, own backward 40',
  );
  const pair = [collective(1010, 1015, 1060), collective(1010, 1050, 1060, { meeting: meeting('d') })];
  check(
    100,
    'backward 1000 1100',
    pair,
    'own backward 10, enter c, enter d, wait backward 5, wait backward 35, transfer backward 10, leave c, leave d, own backward 40',
  );
});

it('reports what nobody else took part in, as far as is known', () => {
  check(100, 'data 1000 1100', [collective(1050, 1050, undefined, { meeting: undefined })], 'own data 50, unmatched data 50');
});

it('counts the phase that began first where spans of a thread overlap', () => {
  check(100, 'data 1000 1050, forward 1010 1020, backward 1040 1100', [], 'own data 50, own backward 50');
});

it('counts the phase that began last where spans are asynchronous: what runs beside it is hidden', () => {
  const after = 'own other 1, own forward 59, own data 30, own other 10';
  check(100, 'data 1001 1090 async, forward 1001 1060 async', [], after);
  check(100, 'data 1000 1040 async, forward 1001 1060 async, data 1060 1100 async', [], 'own data 1, own forward 59, own data 40');
  check(
    100,
    'data 1000 1100 async, forward 1010 1060, backward 1020 1080 async',
    [],
    'own data 10, own forward 50, own backward 20, own data 20',
  );
});

it('makes pieces that add up to the step, whatever overlaps', () => {
  const time = fc.integer({ min: 950, max: 1150 });
  const stretch = fc.tuple(time, time).map((times) => times.sort((a, b) => a - b));
  const some = fc.array(
    fc.tuple(time, time, time).map((times) => {
      const [entry, waitedUntil, exit] = times.sort((a, b) => a - b) as [number, number, number];
      return collective(entry, waitedUntil, exit);
    }),
  );
  const phases = fc.array(stretch.map(([from, until]): PlacedPhase => ({ phase: 1, from: from as number, until: until as number })));
  fc.assert(
    fc.property(phases, some, fc.nat(120), (spans, collectives, length) => {
      const pieces = cutStep(1000, length, spans, collectives, 3);
      expect(pieces.reduce((sum, piece) => sum + ('length' in piece ? piece.length : 0), 0)).toBe(length);
      const count = (kind: string): number => pieces.filter((piece) => piece.kind === kind).length;
      expect(count('enter')).toBe(collectives.filter(({ entry }) => entry >= 1000 && entry <= 1000 + length).length);
    }),
  );
});

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cutText } from './cut-text.ts';

const widthOf = (char: string): number => (char === 'm' ? 9 : char === 'i' ? 3 : 6);
const wide = (text: string): number => [...text].reduce((sum, char) => sum + widthOf(char), 0);

it('takes the room that wide and narrow characters need, not a mean of them', () => {
  expect(cutText('mmmmiiii', 40, widthOf)).toBe('mmm…');
  expect(cutText('iiiimmmm', 40, widthOf)).toBe('iiiimm…');
});

it('keeps the end of a long text, too', () => {
  expect(cutText('ampere_sgemm_128x64_tn', 120, widthOf)).toBe('ampere_sgemm…64_tn');
});

it('says nothing when there is room for too little', () => {
  expect(cutText('mmmm', 23, widthOf)).toBe('');
  expect(cutText('mmmm', 24, widthOf)).toBe('mm…');
});

it('is never wider than the room, and never half a character (seed 41)', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('m', 'i', 'a', '🧵') }), fc.integer({ min: 0, max: 200 }), (text, room) => {
      const cut = cutText(text, room, widthOf);
      expect(wide(cut)).toBeLessThanOrEqual(room);
      expect(cut.isWellFormed()).toBe(true);
      const [head = '', tail = ''] = cut.split('…');
      expect([text.startsWith(head), text.endsWith(tail)]).toEqual([true, true]);
    }),
    { seed: 41, numRuns: 200 },
  );
});

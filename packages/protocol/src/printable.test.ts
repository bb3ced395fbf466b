import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { printable, printableJson, printableLines } from './printable.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
const harmful = /[\u0000-\u001f\u007f-\u009f]|\p{Bidi_Control}|[\u2028\u2029\u200b-\u200d\ufeff]|\p{Surrogate}/u;

const text = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0x0a, 0x1b, 0x9b, 0x7f, 0x202e, 0xd83d, 0xde80, 0x2066)), {
    maxLength: 60,
  })
  .map((codes) => String.fromCharCode(...codes));

describe('printable', () => {
  it('shows as an escape what a terminal would obey', () => {
    expect(printable('a\u001b[2Jb\nc\td\u009b31me\u007f\u202e')).toBe('a\\u001b[2Jb\\u000ac\\u0009d\\u009b31me\\u007f\\u202e');
  });

  it('leaves harmless text as it is, whatever the script', () => {
    for (const same of ['', 'aten::mm', 'Σ_rank 数据 🚀', '±3 µs · 4 %', 'a\\u202eb']) expect(printable(same)).toBe(same);
  });

  it('gives nothing harmful, and the same when it is done again, for any text (seed 3)', () => {
    fc.assert(
      fc.property(text, (any) => {
        const shown = printable(any);
        expect(shown).not.toMatch(harmful);
        expect(printable(shown)).toBe(shown);
        expect(printableLines(any).split('\n')).toEqual(any.split('\n').map(printable));
      }),
      { seed: 3 },
    );
  });

  it('gives JSON that says the same and has nothing harmful, for any text (seed 4)', () => {
    fc.assert(
      fc.property(text, (any) => {
        const shown = printableJson({ [any]: [any] });
        expect(shown).not.toMatch(harmful);
        expect(JSON.parse(shown)).toEqual({ [any]: [any] });
      }),
      { seed: 4 },
    );
  });
});

import { limits } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { displayName, displayText } from './shown-name.ts';

const check = (input: string, expected: string): void => expect(displayName(input)).toBe(expected);

describe('displayName', () => {
  it('leaves harmless text as it is, whatever the script', () => {
    for (const text of ['', 'aten::mm', 'Σ_rank 数据 🚀', '<img src=x onerror=alert(1)>', 'a\\u202eb']) check(text, text);
  });

  it('shows what would hide or turn round its neighbours as an escape', () => {
    check('a\u202ecba', 'a\\u202ecba');
    check('one\ntwo\u0000', 'one\\u000atwo\\u0000');
    check('\u200bzero\u2066\u061c\ufeff\u0085', '\\u200bzero\\u2066\\u061c\\ufeff\\u0085');
    check('\ud800 alone, \udc00 too', '\\ud800 alone, \\udc00 too');
  });

  it('leaves out the middle of a long one, so that both ends distinguish it from others', () => {
    const shown = displayName(`gemm<${'float, '.repeat(500)}128, 64>`);
    expect(shown.length).toBe(limits.viewNameCharsMax);
    expect(shown).toMatch(/^gemm<float, .*….*128, 64>$/);
  });

  it('gives no harmful character and no more than were asked for, for any text (seed 5)', () => {
    const units = fc.array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 0x202e, 0xd83d, 0xde80, 0x41, 0x2066)), {
      maxLength: 700,
      size: 'max',
    });
    fc.assert(
      fc.property(units, fc.integer({ min: 8, max: 300 }), (codes, charsMax) => {
        const shown = displayText(String.fromCharCode(...codes), charsMax);
        expect(shown.length).toBeLessThanOrEqual(charsMax);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
        expect(shown).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/);
        expect(shown).not.toMatch(/\p{Surrogate}/u);
      }),
      { seed: 5, numRuns: 300 },
    );
  });
});

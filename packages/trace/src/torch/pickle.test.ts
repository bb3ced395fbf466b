import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { readPickle } from './pickle.ts';

/** Bytes from texts and numbers. */
const bytes = (...parts: readonly (string | number)[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'number' ? [part] : [...part].map((letter) => letter.charCodeAt(0)))));
const codeOf = (pickle: Uint8Array): string => {
  try {
    readPickle(pickle);
    return 'read';
  } catch (error) {
    if (error instanceof TraceError) return `${error.code}: ${error.message}`;
    throw error;
  }
};

describe('a pickle of plain data', () => {
  it('is read as it is written', () => {
    const value = readPickle(
      bytes(
        0x80,
        2,
        '}q',
        0,
        '(',
        'X',
        1,
        0,
        0,
        0,
        'aq',
        1,
        ']q',
        2,
        '(K',
        1,
        'J',
        0xfe,
        0xff,
        0xff,
        0xff,
        'G',
        0x40,
        0x0c,
        0,
        0,
        0,
        0,
        0,
        0,
        'N',
        0x88,
        'K',
        4,
        'X',
        2,
        0,
        0,
        0,
        0xc3,
        0xa9,
        0x86,
        'e',
        'K',
        7,
        'h',
        1,
        'K',
        8,
        0x8a,
        9,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0x40,
        'K',
        9,
        0x8a,
        1,
        0xff,
        'u.',
      ),
    );
    expect(value).toEqual(
      new Map<unknown, unknown>([
        ['a', [1, -2, 3.5, null, true, [4, 'é']]],
        [7, 'a'],
        [8, 2n ** 70n],
        [9, -1],
      ]),
    );
  });

  it('may refer to itself', () => {
    const list = readPickle(bytes(0x80, 2, ']q', 0, 'h', 0, 'a.')) as unknown[];
    expect(list[0]).toBe(list);
  });
});

describe('a hostile pickle', () => {
  it.each([
    [
      'imports a module',
      bytes(0x80, 2, 'cos\nsystem\n(X', 2, 0, 0, 0, 'idtR.'),
      'not_pickle: Cannot read the pickle: instruction c asks to call code, at byte 2',
    ],
    [
      'imports by names on its stack',
      bytes(0x80, 4, 0x8c, 2, 'os', 0x8c, 6, 'system', 0x93, '.'),
      'not_pickle: Cannot read the pickle: instruction 0x93 asks to call code, at byte 14',
    ],
    ['builds an object', bytes(0x80, 2, '}}b.'), 'not_pickle: Cannot read the pickle: instruction b asks to call code, at byte 4'],
    [
      'asks for an object outside of it',
      bytes(0x80, 2, '}Q.'),
      'not_pickle: Cannot read the pickle: instruction Q asks to call code, at byte 3',
    ],
    ['is of protocol 0', bytes('(dp0\n.'), 'not_pickle: Cannot read the pickle: instruction 0x64 is no part of plain data, at byte 1'],
    [
      'appends to a dictionary',
      bytes(0x80, 2, '}K', 1, 'a.'),
      'not_pickle: Cannot read the pickle: its instructions do not fit together, before byte 6',
    ],
    [
      'recalls what it never stored',
      bytes(0x80, 2, 'h', 3, '.'),
      'not_pickle: Cannot read the pickle: its instructions do not fit together, before byte 4',
    ],
    [
      'stores at a place far away',
      bytes(0x80, 2, ']r', 0xff, 0xff, 0xff, 0x7f, '.'),
      'not_pickle: Cannot read the pickle: its instructions do not fit together, before byte 8',
    ],
    ['promises a text of 4 GB', bytes(0x80, 2, 'X', 0xff, 0xff, 0xff, 0xff, 'a.'), 'truncated: Cannot read the pickle: it ends at byte 9'],
    ['has no end', bytes(0x80, 2, '}'), 'truncated: Cannot read the pickle: it ends at byte 3'],
    ['has nothing in it', bytes(0x80, 2, '.'), 'not_pickle: Cannot read the pickle: its instructions do not fit together, before byte 3'],
  ])('that %s is refused', (_, pickle, expected) => {
    expect(codeOf(pickle)).toBe(expected);
  });

  it('of five million values is refused, and one whose lists hold each other a million million times is read', () => {
    expect(codeOf(Uint8Array.from({ length: 5_000_000 }, () => 0x4e))).toMatch(/^too_large: .* over 4194304 values$/);
    const doubled = Array.from({ length: 40 }, (_, depth) => ['(h', depth, 'h', depth, 'lq', depth + 1]).flat();
    // 'l' is of protocol 0: tuples of two do the same.
    const tuples = Array.from({ length: 40 }, (_, depth) => ['h', depth, 'h', depth, 0x86, 'q', depth + 1]).flat();
    expect(codeOf(bytes(0x80, 2, ']q', 0, ...doubled, '.'))).toMatch(/^not_pickle/);
    expect(codeOf(bytes(0x80, 2, ']q', 0, ...tuples, '.'))).toBe('read');
  });

  it('gives a value or a TraceError, whatever its bytes (seed 9)', () => {
    const opcodes = [...'}](.Nt)aesuqrhjKMJGX0']
      .map((letter) => letter.charCodeAt(0))
      .concat([0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8c, 0x94, 0x95, 0, 1, 2]);
    const property = fc.property(fc.array(fc.oneof(fc.constantFrom(...opcodes), fc.nat(255)), { maxLength: 200 }), (body) => {
      expect(codeOf(Uint8Array.from([0x80, 2, ...body]))).toMatch(/^(read|not_pickle|truncated)/);
    });
    fc.assert(property, { seed: 9, numRuns: 3000 });
  });
});

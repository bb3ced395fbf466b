import { expect, it } from 'vitest';
import { keysIn } from './top-keys.ts';

it.each([
  ['one arrow', '\u001b[A', ['\u001b[A']],
  ['the arrows of a wheel', '\u001b[B\u001b[B\u001b[B', ['\u001b[B', '\u001b[B', '\u001b[B']],
  ['letters of a held key', 'jjq', ['j', 'j', 'q']],
  ['Escape', '\u001b', ['\u001b']],
  ['keys without a meaning here, among others', '\u001b[1;5Ak\u001bOq\u001bqn', ['\u001b[1;5A', 'k', '\u001bOq', '\u001bq', 'n']],
])('a piece of input may have several keys: %s', (_, text, keys) => expect(keysIn(text)).toEqual(keys));

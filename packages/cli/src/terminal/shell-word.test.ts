// Words of commands that people copy, read back by a real shell.

import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { shellWord } from './shell-word.ts';

it.each(['ranktrace-out/night-42', 'out dir/run 1', "it's/a $HOME `date`", 'a"b\\c', '*?;&|', ''])('one word of a shell: %s', (path) => {
  expect(execFileSync('sh', ['-c', `printf %s ${shellWord(path)}`], { encoding: 'utf8' })).toBe(path);
});

it('leaves a plain path as it is', () => {
  expect(shellWord('ranktrace-out/night-42')).toBe('ranktrace-out/night-42');
});

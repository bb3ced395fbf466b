// docs/command-line.md is the help of the commands: written by UPDATE_GOLDEN=1, compared otherwise.

import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { repository, runCommand } from './setup/ranktrace-command.ts';

const page = `${repository}docs/command-line.md`;
// The layout of help follows the terminal's width; without a terminal commander takes 80 columns.
const help = async (...args: string[]): Promise<string> => (await runCommand([...args, '--help'])).stdout.trim();

it('docs/command-line.md has the help of every command, as it is', async () => {
  const main = await help();
  const commands = [...main.matchAll(/^ {2}([a-z]+) /gm)].map((match) => match[1] as string).filter((name) => name !== 'help');
  const sections = ['# Command line', '', 'Written by the commands themselves; a test holds it to them.', '', '```', main, '```'];
  for (const name of [...new Set(commands)].filter((name) => name !== 'ranktrace')) {
    sections.push('', `## ranktrace ${name}`, '', '```', await help(name), '```');
  }
  const text = `${sections.join('\n')}\n`;
  if (process.env.UPDATE_GOLDEN === '1') writeFileSync(page, text);
  expect(readFileSync(page, 'utf8')).toBe(text);
});

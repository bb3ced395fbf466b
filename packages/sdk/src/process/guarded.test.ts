import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { guarded, reasonOf } from './guarded.ts';

const sources = fileURLToPath(new URL('..', import.meta.url));

/** Ways to pass a callback, up to the callback itself. */
const handovers =
  /\b(?:set(?:Timeout|Interval|Immediate)\(|queueMicrotask\(|nextTick\(|new PerformanceObserver\()|\.(?:on|once|addListener|prependListener|prependOnceListener|addEventListener)\(\s*[^,()]+,|\.on[a-z]+ =(?!=)|\{\s*callback:/g;

/** Places in `text` that pass an unguarded callback. */
function unguarded(text: string): string[] {
  const code = text.replaceAll(/^\s*(?:\/\/|\*|\/\*\*).*$/gm, (comment) => ' '.repeat(comment.length));
  return [...code.matchAll(handovers)].flatMap((match) => {
    const rest = code.slice(match.index + match[0].length).trimStart();
    const [, name] = /^(?:this\.#)?(\w+)\b(?!\()/.exec(rest) ?? [];
    const isGuarded =
      rest.startsWith('guarded(') || (name !== undefined && new RegExp(`(?:const |readonly #)${name} = guarded\\(`).test(code));
    return isGuarded ? [] : [`line ${code.slice(0, match.index).split('\n').length}: ${match[0]}${rest.slice(0, 30).split('\n')[0]}`];
  });
}

test('every callback of the SDK is guarded', () => {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.startsWith('testing'),
  );
  const found = files.flatMap((file) => unguarded(readFileSync(join(sources, file), 'utf8')).map((place) => `${file} ${place}`));
  expect(files.length).toBeGreaterThan(80);
  expect(found).toEqual([]);
});

test.for([
  ['setInterval(() => add(host.sample()), 1000)', 1],
  ["setInterval(guarded('sampling', () => add()), 1000)", 0],
  ['setTimeout(\n  resolve, 10)', 1],
  ["socket.on('close', (code) => {})", 1],
  ["socket.on('close', guarded('closing', (code) => {}))", 0],
  ["socket.on(\n  'close',\n  guarded('closing', () => {}))", 0],
  ["const kill = guarded('killing', () => {});\nprocess.on('exit', kill);", 0],
  ["const kill = () => {};\nprocess.once('exit', kill);", 1],
  ['handle.onsignal = () => this.hear();', 1],
  ['connection.subscribe(subject, { callback: (error) => {} })', 1],
  ['new PerformanceObserver((list) => {})', 1],
  ["// socket.on('close', f)", 0],
] as const)('the test finds what is not guarded: %s', ([text, count]) => {
  expect(unguarded(text)).toHaveLength(count);
});

test('what is thrown is one line', () => {
  const hostile = {
    toString: () => {
      throw new Error('no');
    },
  };
  expect(reasonOf(new Error('EMFILE: too many\n  at stack'))).toBe('EMFILE: too many');
  expect(['text', undefined, 7n, hostile, new Error('')].map(reasonOf)).toEqual([
    'text',
    'undefined',
    '7',
    'for a reason that is no text',
    'for no reason that it gave',
  ]);
});

test('what throws, or is rejected, goes no further', async () => {
  let calls = 0;
  guarded('a test', () => {
    calls++;
    throw new Error('thrown');
  })();
  guarded('a test', async () => {
    calls++;
    throw new Error('rejected');
  })();
  // An unhandled rejection would fail this file.
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(calls).toBe(2);
});

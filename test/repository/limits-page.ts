// docs/limits.md, made of the limits files: names and values from the code, meanings from the comments above them.
//
// Invariant: a row explains its limit when its comment has, beside stop words, two words or a number that are not in the limit's name.

import { filesBelow, packageNames, read, repository } from './source-files.ts';

const head = `# Limits

ranktrace bounds every queue, wait, buffer and table. A row names a limit, its value, what it bounds, and what happens when it is reached; sizes
are in KiB, MiB and GiB, and a value without a unit is a number of things. [data-loss.md](data-loss.md) lists what can be lost at a limit, and
where the loss is counted. \`UPDATE_GOLDEN=1 npx vitest run --project repository\` makes this page of the comments in the packages' limits files,
and a test compares the two.
`;

/** Limits files of one package: `limits.ts` and `…-limits.ts`. */
export const limitFilesOf = (name: string): string[] =>
  filesBelow(`packages/${name}/src`).filter((path) => /(^|[-/])limits\.ts$/.test(path));

/** The page. Throws for limits whose comments do not explain them. */
export async function limitsPage(): Promise<string> {
  const parts = [head];
  for (const name of packageNames) {
    const files = limitFilesOf(name);
    if (files.length === 0) continue;
    parts.push(`## ${name}\n`);
    for (const file of files) parts.push(await limitsTable(file));
  }
  return `${parts.join('\n').trimEnd()}\n`;
}

async function limitsTable(file: string): Promise<string> {
  const values = Object.entries(await limitsIn(file));
  const meanings = meaningsIn(file);
  const unexplained = values.filter(([name]) => !explains(name, meanings.get(name) ?? '')).map(([name]) => name);
  if (unexplained.length > 0) {
    const wanted = 'the comment above each limit must say what it bounds, not only repeat its name';
    throw new Error(`Cannot make docs/limits.md of "${file}": ${wanted}: ${unexplained.join(', ')}`);
  }
  const rows = values.map(([name, value]) => `| \`${name}\` | ${valueText(name, value)} | ${meanings.get(name)} |`);
  return [`From [${file}](../${file}):\n`, '| limit | value | what it bounds |', '|---|---|---|', ...rows, ''].join('\n');
}

/** A limit; one with several values has one for each try. */
type LimitValue = number | readonly number[];

/** The one object that a limits file exports, as name → value. */
async function limitsIn(file: string): Promise<Record<string, LimitValue>> {
  const exported = Object.values((await import(/* @vite-ignore */ `${repository}${file}`)) as Record<string, Record<string, LimitValue>>);
  return Object.assign({}, ...exported) as Record<string, LimitValue>;
}

/** Field → text of the comment right above it. */
function meaningsIn(file: string): Map<string, string> {
  const meanings = new Map<string, string>();
  let meaning: string | undefined;
  for (const [text, comment, field] of read(file).matchAll(/\/\*\*([\s\S]*?)\*\/|^ {2}([a-zA-Z]\w*):|^\n/gm)) {
    if (comment !== undefined) {
      meaning = comment
        .replaceAll(/\n\s*\*/g, ' ')
        .replaceAll(/\s+/g, ' ')
        .replaceAll('|', '\\|')
        .trim();
    } else {
      if (field !== undefined && meaning !== undefined) meanings.set(field, meaning);
      if (field !== undefined || text === '\n') meaning = undefined;
    }
  }
  return meanings;
}

/** Words that explain nothing about a limit: grammar, extremes and units, in the form that `wordsOf` gives. */
const stopWords = new Set(
  wordsOf(`
    a an the this that these those it its one ones and or but of in on at to by for from with as per each every all any some no not
    is are be been was were has have can may must will than then so how many much often
    max maximum most high highest large largest long longest up min minimum least low lowest small smallest short shortest
    limit bound number count amount value size time length unit share
    ns us ms s second millisecond microsecond nanosecond minute hour day byte char character`),
);

/** Whether `meaning` says more than `name` does: beside stop words, two words or a number that are not in the name. */
export function explains(name: string, meaning: string): boolean {
  const known = new Set(wordsOf(name));
  const further = new Set(wordsOf(meaning).filter((word) => !known.has(word) && !stopWords.has(word)));
  return further.size >= 2 || [...further].some((word) => /^\d/.test(word));
}

/** Lower-case words and numbers, parts of `camelCase` among them, without the ends of plurals and verbs: `retries`, `retried` → `retr`. */
function wordsOf(text: string): string[] {
  const words =
    text
      .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
      .toLowerCase()
      .match(/[a-z]+|\d+/g) ?? [];
  return words.map((word) => (word.length > 3 ? word.replace(/(?:i?es|s|i?ed|ing|e|y)$/, '') : word));
}

/** ns of the units that names of times end in. */
const timeUnits: ReadonlyMap<string, number> = new Map([
  ['Ns', 1],
  ['Us', 1e3],
  ['Ms', 1e6],
  ['S', 1e9],
  ['Seconds', 1e9],
  ['Minutes', 60e9],
  ['Hours', 3600e9],
]);

/** A value as people read it, in the unit that the name states: `idleMs` 86400000 → `24 h`, `batchBytesMax` 4096 → `4 KiB`. */
export function valueText(name: string, value: LimitValue): string {
  if (typeof value !== 'number') return value.map((one) => valueText(name, one)).join(', ');
  // The unit of what is counted stands before `Per`; bytes per byte are a ratio.
  const [counted = '', per = ''] = name.split(/Per(?=[A-Z])/);
  const words = counted.split(/(?=[A-Z])/);
  const unit = words.find((word) => timeUnits.has(word));
  if (unit !== undefined) return inUnits(value * (timeUnits.get(unit) as number), times) ?? `${groupedText(value)} ${unit.toLowerCase()}`;
  if (words.includes('Bytes') && !per.includes('Byte')) return inUnits(value, sizes) ?? groupedText(value);
  return groupedText(value);
}

type Units = readonly (readonly [unit: string, size: number, from: number])[];

/** `from`: the least value that is shown in the unit. A day is 24 h, as people say it. */
const times: Units = [
  ['d', 86_400e9, 2 * 86_400e9],
  ['h', 3600e9, 3600e9],
  ['min', 60e9, 60e9],
  ['s', 1e9, 1e9],
  ['ms', 1e6, 1e6],
  ['µs', 1e3, 1e3],
  ['ns', 1, 1],
];
const sizes: Units = [
  ['TiB', 1024 ** 4, 1024 ** 4],
  ['GiB', 1024 ** 3, 1024 ** 3],
  ['MiB', 1024 ** 2, 1024 ** 2],
  ['KiB', 1024, 1024],
  ['B', 1, 1],
];

/** In the largest unit in which `value` is a whole number, so that nothing is rounded. */
function inUnits(value: number, units: Units): string | undefined {
  const found = units.find(([, size, from]) => value >= from && value % size === 0);
  return found && `${groupedText(value / found[1])} ${found[0]}`;
}

/** 65536 → `65 536` (with narrow no-break spaces), 4096 as it is. */
function groupedText(value: number): string {
  return Number.isInteger(value) && value >= 10_000 ? String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, '\u202f') : String(value);
}

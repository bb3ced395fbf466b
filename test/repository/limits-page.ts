// Makes docs/limits.md from the limits files: names and values from the code, meanings from the comments above them.

import { filesBelow, packageNames, read, repository } from './source-files.ts';

const head = `# Limits

Every bounded place of ranktrace. Units come last in the names: \`Bytes\`, \`Ms\`, \`Chars\`; no unit: a number of things. What a full one costs
is in [data-loss.md](data-loss.md). This page is made of the packages' \`limits.ts\` by
\`UPDATE_GOLDEN=1 npx vitest run --project repository\`, and a test holds it to them.
`;

/** Limits files of one package: \`limits.ts\` and \`…-limits.ts\`. */
export const limitFilesOf = (name: string): string[] =>
  filesBelow(`packages/${name}/src`).filter((path) => /(^|[-/])limits\.ts$/.test(path));

/** The page. */
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
  const values = await limitsIn(file);
  const meanings = meaningsIn(file);
  const rows = Object.entries(values).map(([field, value]) => {
    return `| \`${field}\` | ${inWords(value)} | ${meanings.get(field) ?? nameInWords(field)} |`;
  });
  return [`From [${file}](../${file}):\n`, '| limit | value | what it bounds |', '|---|---|---|', ...rows, ''].join('\n');
}

/** The one object a limits file exports, as name → value. */
async function limitsIn(file: string): Promise<Record<string, number>> {
  const exported = Object.values((await import(/* @vite-ignore */ `${repository}${file}`)) as Record<string, Record<string, number>>);
  return Object.assign({}, ...exported) as Record<string, number>;
}

/** Field → text of the comment right above it; for a field without one, the words of its name. */
function meaningsIn(file: string): Map<string, string> {
  const meanings = new Map<string, string>();
  let meaning: string | undefined;
  for (const match of read(file).matchAll(/\/\*\*([\s\S]*?)\*\/|^ {2}([a-zA-Z]\w*):|^\n/gm)) {
    const [text, comment, field] = match;
    if (comment !== undefined) {
      meaning = comment
        .replaceAll(/\n\s*\*/g, ' ')
        .replaceAll(/\s+/g, ' ')
        .replaceAll('|', '\\|')
        .trim();
    } else if (field !== undefined) {
      meanings.set(field, meaning ?? nameInWords(field));
      meaning = undefined;
    } else if (text === '\n') meaning = undefined;
  }
  return meanings;
}

/** The words of a name without a comment: `rankMax` → `Rank max`. */
function nameInWords(field: string): string {
  const words = field.replaceAll(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`);
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

/** 4194304 → `4194304 (4 Mi)`. */
function inWords(value: number): string {
  for (const [unit, name] of [
    [1024 ** 4, 'Ti'],
    [1024 ** 3, 'Gi'],
    [1024 ** 2, 'Mi'],
    [1024, 'Ki'],
  ] as const) {
    if (value > unit - 1 && value % unit === 0) return `${value} (${value / unit} ${name})`;
  }
  return String(value);
}

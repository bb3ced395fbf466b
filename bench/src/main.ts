// `npm run bench -- NAME…`: runs the named benchmarks (all without a name), prints a JSON line per figure and renews their sections of
// docs/benchmarks.md. Exit code 1 when a target is missed.

import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { type Figure, meetsTarget, rounded } from './figure.ts';

const benches: Record<string, () => Promise<{ run: () => Promise<Figure[]> }>> = {
  recorder: async () => ({ run: (await import('./recorder.ts')).recorder }),
  overhead: async () => ({ run: (await import('./overhead.ts')).overhead }),
  wire: async () => ({ run: (await import('./wire.ts')).wire }),
  ingest: async () => ({ run: (await import('./ingest.ts')).ingest }),
  table: async () => ({ run: (await import('./table.ts')).table }),
  clock: async () => ({ run: (await import('./clock.ts')).clock }),
  merge: async () => ({ run: (await import('./merge.ts')).merge }),
  viewer: async () => ({ run: (await import('./viewer.ts')).viewer }),
  detect: async () => ({ run: (await import('./detect.ts')).detect }),
};

const document = new URL('../../docs/benchmarks.md', import.meta.url);

function section(name: string, figures: readonly Figure[]): string {
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}`;
  const rows = figures.map((figure) => {
    const { target, baseline, ratio } = figure;
    const wanted =
      target === undefined ? '' : `${target.at === 'most' ? '≤' : '≥'} ${target.value}${target.of === 'ratio' ? ' ×' : ` ${figure.unit}`}`;
    const against = baseline === undefined ? '' : `${rounded(baseline.value)} ${figure.unit} (${baseline.name})`;
    const met = meetsTarget(figure);
    return `| ${figure.name} | ${rounded(figure.value)} ${figure.unit} | ${against} | ${ratio === undefined ? '' : `${rounded(ratio)} ×`} | ${wanted}${met === false ? ' **missed**' : ''} |`;
  });
  return [
    `## ${name}`,
    '',
    `\`npm run bench -- ${name}\` on ${machine}`,
    '',
    '| figure | value | baseline, same run | ratio | target |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

/** Puts a section in its place, or at the end. */
function renew(text: string, name: string, body: string): string {
  const sections = text.split(/^(?=## )/m);
  const at = sections.findIndex((part) => part.startsWith(`## ${name}\n`));
  if (at === -1) return `${text.trimEnd()}\n\n${body}`;
  sections[at] = `${body}\n`;
  return `${sections.join('').trimEnd()}\n`;
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => benches[name] === undefined);
if (unknown.length > 0) {
  console.error(`bench: there is no "${unknown.join('", "')}"; there are ${Object.keys(benches).join(', ')}`);
  process.exit(2);
}
for (const name of names.length === 0 ? Object.keys(benches) : names) {
  const figures = await (await (benches[name] as (typeof benches)[string])()).run();
  for (const figure of figures) {
    const { target: _, ...line } = figure;
    console.log(
      JSON.stringify({
        bench: name,
        ...line,
        value: rounded(line.value),
        ...(line.ratio === undefined ? {} : { ratio: rounded(line.ratio) }),
      }),
    );
    if (meetsTarget(figure) === false) {
      process.exitCode = 1;
      console.error(`bench: ${name}: "${figure.name}" misses its target`);
    }
  }
  const text = readFileSync(document, 'utf8');
  writeFileSync(document, renew(text, name, section(name, figures)));
}

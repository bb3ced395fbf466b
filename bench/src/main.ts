// `npm run bench -- NAME… [--seconds S]`: runs the named benchmarks (all without a name), prints a JSON line per figure and renews their sections of
// docs/benchmarks.md. Exit code 1 when a target is missed, 2 for a name that does not exist. Figures for which the machine lacks a program or
// recordings are named on stderr, and in the section; they miss no target.

import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { type Figure, meetsTarget, type NotMeasured, rounded } from './figure.ts';
import { progress } from './turns.ts';

interface Bench {
  readonly about: string;
  /** Loaded when it runs: each stands on other packages. */
  readonly run: (options: { readonly seconds: number | undefined }) => Promise<readonly (Figure | NotMeasured)[]>;
}

const benches: Readonly<Record<string, Bench>> = {
  recorder: {
    about: 'ns that spans, steps and ops take of the training thread, against two clock readings and OpenTelemetry',
    run: async () => (await import('./recorder.ts')).recorder(),
  },
  overhead: {
    about: 'what profiling adds to a training step, against the same step without',
    run: async () => (await import('./overhead.ts')).overhead(),
  },
  python: {
    about: "ns that spans and steps of the Python client take of the training thread, against PyTorch's record_function",
    run: async () => (await import('./python.ts')).python(),
  },
  agent: {
    about: 'CPU time and memory of `ranktrace agent` beside eight idle ranks, against an idle process',
    run: async () => (await import('./agent.ts')).agent(),
  },
  gpu: {
    about: 'GPU rows through the ring, against copying their bytes, and through events into batches: rows per second, bytes per kernel',
    run: async () => (await import('./gpu.ts')).gpu(),
  },
  wire: {
    about: 'bytes per span sent and stored, against Kineto JSON, varint columns and msgpackr records',
    run: async () => (await import('./wire.ts')).wire(),
  },
  ingest: {
    about: 'events per second into the store, against JSON.parse, and through nats-server, against JetStream alone',
    run: async () => (await import('./ingest.ts')).ingest(),
  },
  import: {
    about: 'torch.profiler JSON into columns, against JSON.parse of the same bytes, and the peak memory of reading 1 and 4 GB',
    run: async () => (await import('./import.ts')).importFiles(),
  },
  table: {
    about: 'events per second of key averages, against the same rules on parsed objects',
    run: async () => (await import('./table.ts')).table(),
  },
  clock: {
    about: 'errors and reversed messages of aligned simulated clocks, against the rules of others',
    run: async () => (await import('./clock.ts')).clock(),
  },
  merge: {
    about: 'events per second and memory from a stored run to a trace, against inflating and decoding alone',
    run: async () => (await import('./merge.ts')).merge(),
  },
  analyse: {
    about: 'events per second of all analyses in one pass, against the merge of the same events alone',
    run: async () => (await import('./analyse.ts')).analyse(),
  },
  viewer: {
    about: 'first picture, frames and memory of the page in Chromium, against an empty page and a bare fill',
    run: async () => (await import('./viewer.ts')).viewer(),
  },
  detect: {
    about: 'false alarms and found slow-downs of the regression detector, against the rules of others',
    run: async () => (await import('./detect.ts')).detect(),
  },
  soak: {
    about: 'an hour and a half of a 64-rank job in fifteen minutes: memory and descriptors flat, store and stream within their bounds',
    run: async (options) => (await import('./soak.ts')).soak(options),
  },
};

const document = new URL('../../docs/benchmarks.md', import.meta.url);

function help(): string {
  const width = Math.max(...Object.keys(benches).map((name) => name.length));
  return [
    'npm run bench -- [NAME…] [--seconds S]',
    '',
    'Runs the named benchmarks, or all: a JSON line per figure on stdout, and their sections of docs/benchmarks.md.',
    'Exit code 1 when a target is missed. --seconds: how long the soak lasts (600).',
    '',
    ...Object.entries(benches).map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`),
    '',
  ].join('\n');
}

function section(name: string, results: readonly (Figure | NotMeasured)[]): string {
  const load = (loadavg()[1] ?? 0).toFixed(1);
  const date = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}, ${date}, load ${load}`;
  const rows = results.filter(isFigure).map((figure) => {
    const { target, baseline, ratio } = figure;
    const wanted =
      target === undefined ? '' : `${target.at === 'most' ? '≤' : '≥'} ${target.value}${target.of === 'ratio' ? ' ×' : ` ${figure.unit}`}`;
    const against = baseline === undefined ? '' : `${rounded(baseline.value)} ${figure.unit} (${baseline.name})`;
    const met = meetsTarget(figure);
    return `| ${figure.name} | ${rounded(figure.value)} ${figure.unit} | ${against} | ${ratio === undefined ? '' : `${rounded(ratio)} ×`} | ${wanted}${met === false ? ' **missed**' : ''} |`;
  });
  const missing = results.flatMap((result) => (isFigure(result) ? [] : [notMeasuredLine(result), '']));
  return [
    `## ${name}`,
    '',
    `\`npm run bench -- ${name}\` on ${machine}`,
    '',
    ...(rows.length === 0 ? [] : ['| figure | value | baseline, same run | ratio | target |', '|---|---|---|---|---|', ...rows, '']),
    ...missing,
  ].join('\n');
}

/** Ends the process if they make no sense. */
function argumentsOf(args: string[]): { names: readonly string[]; seconds: number | undefined; isHelp: boolean } {
  try {
    const options = { seconds: { type: 'string' }, help: { type: 'boolean' } } as const;
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
    const seconds = values.seconds === undefined ? undefined : Number(values.seconds);
    if (seconds !== undefined && !(seconds >= 10 && seconds <= 86_400))
      throw new Error(`--seconds must be 10 to 86400, got "${values.seconds}"`);
    return { names: positionals, seconds, isHelp: values.help === true };
  } catch (error) {
    progress((error as Error).message);
    process.exit(2);
  }
}

const isFigure = (result: Figure | NotMeasured): result is Figure => !('notMeasured' in result);

const notMeasuredLine = ({ notMeasured, why }: NotMeasured): string => `not measured: ${notMeasured}, as ${why}`;

/** Puts a section in its place, or at the end. */
function renew(text: string, name: string, body: string): string {
  const sections = text.split(/^(?=## )/m);
  const at = sections.findIndex((part) => part.startsWith(`## ${name}\n`));
  if (at === -1) return `${text.trimEnd()}\n\n${body}`;
  sections[at] = `${body}\n`;
  return `${sections.join('').trimEnd()}\n`;
}

function report(name: string, result: Figure | NotMeasured): void {
  if (!isFigure(result)) {
    progress(`${name}: ${notMeasuredLine(result)}`);
    return;
  }
  const { target: _, ...line } = result;
  console.log(
    JSON.stringify({
      bench: name,
      ...line,
      value: rounded(line.value),
      ...(line.ratio === undefined ? {} : { ratio: rounded(line.ratio) }),
    }),
  );
  if (meetsTarget(result) === false) {
    process.exitCode = 1;
    progress(`${name}: "${result.name}" misses its target`);
  }
}

const { names, seconds, isHelp } = argumentsOf(process.argv.slice(2));
if (isHelp) {
  process.stdout.write(help());
  process.exit(0);
}
const unknown = names.filter((name) => benches[name] === undefined);
if (unknown.length > 0) {
  progress(`there is no "${unknown.join('", "')}"; there are ${Object.keys(benches).join(', ')}`);
  process.exit(2);
}
for (const [name, bench] of Object.entries(benches).filter(([name]) => names.length === 0 || names.includes(name))) {
  progress(name);
  const results = await bench.run({ seconds });
  for (const result of results) report(name, result);
  const text = readFileSync(document, 'utf8');
  writeFileSync(document, renew(text, name, section(name, results)));
}

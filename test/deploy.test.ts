// deploy/ as far as one machine can run it: the scripts for Slurm and for hosts without a scheduler as real jobs, the image of the Dockerfile as a
// directory. test/repository/deploy.test.ts compares with the code what only Docker, Kubernetes or Slurm could run.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type AggregatorError, openBatchLog } from '@ranktrace/aggregator';
import { afterAll, expect, test } from 'vitest';
import { countable } from './setup/rank-programs.ts';
import { commandPath, repository } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { readRun } from './setup/trace-events.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-deploy-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A directory to submit jobs from, with programs of these names and texts before all others. */
function jobDirectory(name: string, programs: Readonly<Record<string, string>> = {}): string {
  const job = join(directory, name);
  const bin = join(job, 'node_modules/.bin');
  mkdirSync(bin, { recursive: true });
  const all = { ranktrace: `exec '${process.execPath}' '${commandPath}' "$@"`, ...programs };
  for (const [program, text] of Object.entries(all)) writeFileSync(join(bin, program), `#!/usr/bin/env bash\n${text}\n`, { mode: 0o755 });
  return job;
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

interface Place {
  readonly cwd: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly user?: { readonly uid: number; readonly gid: number };
}

function start(
  program: string,
  args: readonly string[],
  { cwd, environment = {}, user = undefined }: Place,
): { child: ChildProcess; ended: Promise<Ended> } {
  const path = `${join(cwd, 'node_modules/.bin')}:${process.env.PATH}`;
  const env = { ...process.env, PATH: path, ...countable, ...environment };
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], ...user });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
  return { child, ended };
}

const steps = ['node', join(repository, 'test/programs/steps.mjs'), '60', '5'];

/** Starts the tasks of a step as Slurm does; its srun(1), too, kills them when it gets SIGTERM. */
const srun = `
while [ "\${1#--}" != "$1" ]; do [ "$1" != --overlap ] || SLURM_NTASKS=1; shift; done
trap 'kill -KILL "\${pids[@]}"' TERM
status=0 pids=()
for ((task = 0; task < SLURM_NTASKS; task++)); do
  SLURM_STEP_ID=0 SLURM_PROCID=$task SLURM_LOCALID=$task "$@" & pids+=($!)
  echo $! >> tasks
done
for pid in "\${pids[@]}"; do wait "$pid" || status=$?; done
# A signal ends a wait, not what it waits for.
wait
exit $status`;

interface Job {
  readonly environment?: Readonly<Record<string, string>>;
  readonly programs?: Readonly<Record<string, string>>;
}

/** Starts the batch script as Slurm does, in a process group of its own. */
async function launch(name: string, command: readonly string[], { environment = {}, programs = {} }: Job) {
  const scontrol = '[ "$*" = "show hostnames 127.0.0.[1-1]" ] && echo 127.0.0.1';
  const scancel = '[ "$*" = "--signal=TERM 4711" ] && for pid in $(cat tasks); do kill -TERM "$pid" 2> /dev/null || true; done';
  const cwd = jobDirectory(name, { srun, scontrol, scancel, ...programs });
  const slurm = { SLURM_JOB_ID: '4711', SLURM_NTASKS: '2', SLURM_JOB_NODELIST: '127.0.0.[1-1]', PORT: `${await freePort()}` };
  const spool = { RANKTRACE_SPOOL_DIRECTORY: join(cwd, 'spool') };
  const script = [join(repository, 'deploy/slurm.sbatch'), ...command];
  return { cwd, ...start('setsid', script, { cwd, environment: { ...slurm, ...spool, ...environment } }) };
}

async function submit(name: string, command: readonly string[], job: Job = {}): Promise<Ended & { cwd: string }> {
  const { cwd, ended } = await launch(name, command, job);
  return { ...(await ended), cwd };
}

/** Until both ranks are in training and known to the aggregator, which has nothing to wait for when SIGTERM reaches it before a rank does. */
async function untilTraining(cwd: string, run: string, child: ChildProcess): Promise<void> {
  const isTraining = (rank: number): boolean => {
    const path = join(cwd, `progress-${rank}`);
    return existsSync(path) && readFileSync(path, 'utf8').includes('\n20\n');
  };
  const ranksStored = (): number => {
    if (!existsSync(join(cwd, 'ranktrace-out', run, 'segments/000001.seg'))) return 0;
    try {
      using log = openBatchLog(join(cwd, 'ranktrace-out', run));
      return log.run(run).sources().length;
    } catch (error) {
      // The first batch is being written.
      if ((error as AggregatorError).code === 'store_truncated') return 0;
      throw error;
    }
  };
  while ((!isTraining(0) || !isTraining(1) || ranksStored() < 2) && child.exitCode === null) await wait(20);
}

test('a job under Slurm brings its own aggregator, loses nothing, and ends with the report', async () => {
  const { code, output, cwd } = await submit('slurm', steps);
  expect(code, output).toBe(0);
  expect(output).toMatch(/run slurm-4711: 2 of 2 ranks/);
  expect(output).toMatch(/verdict: /);
  const run = await readRun(join(cwd, 'ranktrace-out/slurm-4711'), 'slurm-4711');
  expect(run.findings).toEqual([]);
  expect(run.events.filter(({ kind }) => kind === 'step')).toHaveLength(120);
  expect(existsSync(join(cwd, 'ranktrace-out/slurm-4711/trace.pftrace'))).toBe(true);
});

test('PyTorch ranks under Slurm, as they are: the agent beside them finds and ends them', async () => {
  const rank = ['sh', '-c', 'echo "rank $SLURM_PROCID sends to [$RANKTRACE_URL]"; exec sleep 12'];
  const { code, output, cwd } = await submit('slurm-agent', rank, { environment: { AGENT: '1', SLURM_JOB_NUM_NODES: '1' } });
  expect(code, output).toBe(0);
  expect(output).toContain('rank 0 sends to []');
  expect(output).toMatch(/rank 1 of 2 of run "slurm-4711": process \d+/);
  const run = await readRun(join(cwd, 'ranktrace-out/slurm-4711'), 'slurm-4711');
  expect(run.processes.map(({ rank }) => rank)).toEqual([0, 1]);
  expect(run.findings).toEqual([]);
});

test('a job under Slurm uses the service that is there, and passes on how its ranks ended', async () => {
  const environment = { RANKTRACE_URL: 'ws://127.0.0.1:1', RANKTRACE_EXIT_DEADLINE_MS: '0' };
  const { code, output, cwd } = await submit(
    'slurm-service',
    ['sh', '-c', 'echo "$RANKTRACE_URL as $RANKTRACE_RUN"; exit $((SLURM_PROCID * 7))'],
    { environment },
  );
  expect([code, output]).toEqual([7, 'ws://127.0.0.1:1 as slurm-4711\n'.repeat(2)]);
  expect(existsSync(join(cwd, 'ranktrace-out'))).toBe(false);
  const nothing = await submit('slurm-nothing', []);
  expect([nothing.code, nothing.output.trim().split('\n')]).toEqual([2, [expect.stringContaining('name the training command')]]);
});

test('a job under Slurm does not take the program that has its port for its aggregator: no rank starts', async () => {
  const server = createServer().listen(0, '0.0.0.0');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const { code, output } = await submit('slurm-port', ['echo', 'training'], { environment: { PORT: `${port}` } });
    expect([code, output]).toEqual([1, expect.stringMatching(/the aggregator did not start, see above; PORT names another port\n$/)]);
    expect(output).not.toContain('training');
  } finally {
    server.close();
  }
});

test('a job under Slurm whose aggregator died ends as its ranks do, with the report of what was stored', async () => {
  const ranktrace = `[ "$1" != serve ] || echo $$ > aggregator; exec '${process.execPath}' '${commandPath}' "$@"`;
  const ends = 'until [ -s ranktrace-out/slurm-4711/segments/000001.seg ]; do sleep 0.1; done; kill -KILL $(cat aggregator)';
  const { code, output } = await submit('slurm-died', ['sh', '-c', `[ $SLURM_PROCID = 1 ] || { ${ends}; } & exec ${steps.join(' ')}0`], {
    environment: { RANKTRACE_EXIT_DEADLINE_MS: '0' },
    programs: { ranktrace },
  });
  expect([code, output]).toEqual([0, expect.stringMatching(/verdict: /)]);
});

test.each([
  ['all of its processes, as at its time limit', -1, '100000', 128 + 9],
  // Its ranks go on to their end.
  ['its batch script alone, by --signal=B:TERM', 1, '200', 0],
] as const)('a job under Slurm that gets SIGTERM, %s, has its trace and its report', async (_, whom, count, status) => {
  const name = `slurm-term-${status}`;
  const { cwd, child, ended } = await launch(
    name,
    ['sh', '-c', `exec ${steps.slice(0, 2).join(' ')} ${count} 20 progress-$SLURM_PROCID`],
    {},
  );
  await untilTraining(cwd, 'slurm-4711', child);
  process.kill(whom * (child.pid as number), 'SIGTERM');
  const { code, output } = await ended;
  expect(output).toMatch(/run slurm-4711: 2 of 2 ranks[\s\S]*verdict: /);
  expect(status === 0 ? [0] : [status, 128 + 15]).toContain(code);
});

test('hosts without a scheduler: four ranks on two nodes are one run', async () => {
  const environment = { PORT: `${await freePort()}`, RANKTRACE_TOKEN: 'secret' };
  const nodes = [0, 1].map((node) => {
    const cwd = jobDirectory(`node-${node}`);
    const options = ['--nnodes', '2', '--nproc-per-node', '2', '--node-rank', `${node}`, '--rdzv-id', 'night', '--', ...steps];
    const spool = { RANKTRACE_SPOOL_DIRECTORY: join(cwd, 'spool') };
    return { cwd, ...start(join(repository, 'deploy/torchrun.sh'), options, { cwd, environment: { ...environment, ...spool } }) };
  });
  const [first, second] = await Promise.all(nodes.map(({ ended }) => ended));
  expect([first?.code, second?.code], `${first?.output}${second?.output}`).toEqual([0, 0]);
  expect(first?.output).toMatch(/run night: 4 of 4 ranks/);
  const run = await readRun(join(directory, 'node-0/ranktrace-out/night'), 'night');
  expect(run.findings).toEqual([]);
  expect(run.processes.map(({ rank }) => rank)).toEqual([0, 1, 2, 3]);
  expect(run.events.filter(({ kind }) => kind === 'step')).toHaveLength(240);
});

test('hosts without a scheduler: a rank that fails ends those of its host, and a wrong option is one line', async () => {
  const cwd = jobDirectory('fails');
  const environment = { RANKTRACE_URL: 'ws://127.0.0.1:1' };
  const launch = (...args: string[]) => start(join(repository, 'deploy/torchrun.sh'), args, { cwd, environment }).ended;
  // The others would never end.
  const failed = await launch('--nproc-per-node', '3', '--rdzv-id', 'a', '--', 'sh', '-c', '[ $RANK = 1 ] && exit 7; exec sleep 100000');
  expect(failed.code).toBe(7);
  for (const [args, message] of [
    [['--nproc-per-node', 'x', '--', 'true'], /whole numbers, got "x"/],
    [['--nproc-per-node', '0', '--rdzv-id', 'a', '--', 'true'], /--nproc-per-node must be at least 1/],
    [['--nnodes', '2', '--node-rank', '2', '--rdzv-id', 'a', '--', 'true'], /--node-rank must be below --nnodes \(2\), got 2/],
    [['--gpus', '2'], /got "--gpus"/],
    [['--rdzv-id', 'a'], /name the training command after --/],
    [['--', 'true'], /name the run/],
  ] as const) {
    const { code, output } = await launch(...args);
    expect([code, output.trim().split('\n')]).toEqual([2, [expect.stringMatching(message)]]);
  }
});

test.each([
  ['Ctrl-C at its terminal', -1, 'SIGINT', 130],
  ['SIGTERM to all of its processes', -1, 'SIGTERM', 143],
  ['SIGTERM to the script alone', 1, 'SIGTERM', 143],
] as const)('hosts without a scheduler: %s ends the ranks, and there are a trace and a report', async (_, whom, signal, status) => {
  const cwd = jobDirectory(`ended-${whom}-${signal}`);
  const environment = { PORT: `${await freePort()}`, RANKTRACE_TOKEN: 'secret', RANKTRACE_SPOOL_DIRECTORY: join(cwd, 'spool') };
  const program = ['sh', '-c', `exec ${steps.slice(0, 2).join(' ')} 100000 20 progress-$RANK`];
  const script = [join(repository, 'deploy/torchrun.sh'), '--nproc-per-node', '2', '--rdzv-id', 'night', '--', ...program];
  const { child, ended } = start('setsid', script, { cwd, environment });
  await untilTraining(cwd, 'night', child);
  process.kill(whom * (child.pid as number), signal);
  const { code, output } = await ended;
  expect(output).toMatch(/run night: 2 of 2 ranks[\s\S]*verdict: /);
  expect(code).toBe(status);
  expect(existsSync(join(cwd, 'ranktrace-out/night/trace.pftrace'))).toBe(true);
});

test('a job that records nothing says so, and where its ranks would have kept it', async () => {
  const environment = { PORT: `${await freePort()}`, RANKTRACE_TOKEN: 'secret', RANKTRACE_SPOOL_DIRECTORY: '/spool' };
  const options = ['--rdzv-id', 'night', '--', 'echo', 'training'];
  const hosts = await start(join(repository, 'deploy/torchrun.sh'), options, { cwd: jobDirectory('records-nothing'), environment }).ended;
  const slurm = await submit('slurm-records-nothing', ['echo', 'training'], { environment: { RANKTRACE_SPOOL_DIRECTORY: '/spool' } });
  const says = (script: string, run: string): RegExp =>
    new RegExp(
      `training\n[^]*${script}: no rank of run "${run}" reached the aggregator, so there is no trace; [^\n]* in /spool/${run}, .*\n$`,
    );
  expect([hosts.code, hosts.output]).toEqual([0, expect.stringMatching(says('torchrun.sh', 'night'))]);
  expect([slurm.code, slurm.output]).toEqual([0, expect.stringMatching(says('slurm.sbatch', 'slurm-4711'))]);
});

test('hosts without a scheduler: a node is numbered as it is written, with zeros before it, too', async () => {
  const environment = { RANKTRACE_URL: 'ws://127.0.0.1:1' };
  const options = ['--nnodes', '012', '--node-rank', '010', '--nproc-per-node', '1', '--rdzv-id', 'a', '--'];
  const script = [...options, 'sh', '-c', 'echo rank $RANK of $WORLD_SIZE'];
  const { code, output } = await start(join(repository, 'deploy/torchrun.sh'), script, { cwd: jobDirectory('zeros'), environment }).ended;
  expect([code, output]).toEqual([0, 'rank 10 of 12\n']);
});

test('hosts without a scheduler: the program that has the port is not taken for the aggregator', async () => {
  const server = createServer().listen(0, '0.0.0.0');
  await once(server, 'listening');
  try {
    const environment = { PORT: `${(server.address() as AddressInfo).port}`, RANKTRACE_TOKEN: 'secret' };
    const options = ['--rdzv-id', 'a', '--', 'echo', 'training'];
    const { code, output } = await start(join(repository, 'deploy/torchrun.sh'), options, { cwd: jobDirectory('port'), environment }).ended;
    expect([code, output]).toEqual([1, expect.stringMatching(/the aggregator did not start, see above; PORT names another port\n$/)]);
    expect(output).not.toContain('training');
  } finally {
    server.close();
  }
});

/** The Dockerfile's instructions, one for each, by stage. */
function instructionsOf(): readonly (readonly (readonly [string, string])[])[] {
  const lines = readFileSync(join(repository, 'deploy/Dockerfile'), 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, ' ');
  const all = [...lines.matchAll(/^([A-Z]+) +(.*)$/gm)].map(([, name = '', text = '']) => [name, text] as const);
  const second = all.findLastIndex(([name]) => name === 'FROM');
  return [all.slice(0, second), all.slice(second)];
}

test('the image holds what the service needs and nothing else, and the service is healthy as a user without rights', async () => {
  const [build = [], final = []] = instructionsOf();
  const runs = build.filter(([name]) => name === 'RUN').map(([, text]) => text);
  // The clone's own test runs these for real: here the sources and their built files stand in.
  expect(runs.slice(0, 2)).toEqual(['npm ci --no-audit --no-fund', 'npm run build']);
  const [stage, image, data] = [join(directory, 'build'), join(directory, 'app'), join(directory, 'data')];
  for (const path of execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: repository, encoding: 'utf8' })
    .trim()
    .split('\n')) {
    if (existsSync(join(repository, path))) cpSync(join(repository, path), join(stage, path));
  }
  for (const name of readdirSync(join(repository, 'packages'))) {
    const dist = join(repository, 'packages', name, 'dist');
    if (existsSync(dist)) cpSync(dist, join(stage, 'packages', name, 'dist'), { recursive: true });
  }
  for (const text of runs.slice(2)) execFileSync('sh', ['-c', text], { cwd: stage, stdio: 'pipe' });
  for (const [name, text] of final) {
    const [, from, to] = /^--from=build \/build\/(\S+) \.\/(\S*)$/.exec(text) ?? [];
    if (name !== 'COPY') continue;
    expect([text, from]).not.toEqual([text, undefined]);
    const target = join(image, to === '' ? (from as string) : (to as string));
    mkdirSync(dirname(target), { recursive: true });
    cpSync(join(stage, from as string), target, { recursive: true, verbatimSymlinks: true });
  }
  expect(
    ['typescript', 'vitest', 'playwright-core', '@tensorflow/tfjs'].filter((name) => existsSync(join(image, 'node_modules', name))),
  ).toEqual([]);
  expect(existsSync(join(image, 'packages/cli/src'))).toBe(false);
  console.log(`the image is node and ${execFileSync('du', ['-sh', image], { encoding: 'utf8' }).split('\t')[0]}`);

  const instruction = (name: string): string => final.find(([one]) => one === name)?.[1] ?? '';
  expect([instruction('USER'), instruction('WORKDIR'), instruction('VOLUME'), instruction('EXPOSE')]).toEqual([
    'node',
    '/app',
    '/data',
    '7400',
  ]);
  expect(instruction('RUN')).toBe('install -d -o node -g node /data');
  const port = `${await freePort()}`;
  const words = (text: string): string[] =>
    (JSON.parse(text) as string[]).map((word) => word.replace('/app/', `${image}/`).replace('/data', data).replace('7400', port));
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;
  mkdirSync(data);
  chmodSync(data, 0o777);
  execFileSync('chmod', ['-R', 'a+rX', directory]);
  const place = { cwd: image, ...(user && { user }) };
  const [node = '', ...entry] = words(instruction('ENTRYPOINT'));
  const command = words(instruction('CMD'));
  const refused = await start(node, [...entry, ...command], place).ended;
  expect([refused.code, refused.output]).toEqual([2, expect.stringMatching(/it needs a token/)]);

  const service = start(node, [...entry, ...command], { ...place, environment: { RANKTRACE_TOKEN: 'secret' } });
  const [, , check = ''] = /(--\S+ )*CMD (.*)$/.exec(instruction('HEALTHCHECK')) ?? [];
  const [program = '', ...args] = words(check);
  try {
    let healthy = await start(program, args, place).ended;
    while (healthy.code !== 0 && service.child.exitCode === null) healthy = await start(program, args, place).ended;
    expect(service.child.exitCode).toBe(null);
    const page = await fetch(`http://127.0.0.1:${port}/`, { headers: { authorization: 'Bearer secret' } });
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<script')]);
  } finally {
    service.child.kill('SIGTERM');
    const { code, output } = await service.ended;
    expect(code, output).toBe(0);
  }
  expect((await start(program, args, place).ended).code).toBe(1);
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { limits as protocolLimits } from '@ranktrace/protocol';
import { afterAll, expect, test } from 'vitest';
import { detail } from './detail.ts';
import { SdkError } from './errors.ts';
import { limits } from './limits.ts';
import { optionVariables, type ProfileOptions, resolveOptions } from './options.ts';
import { supportedActivities } from './schedule.ts';

type Environment = Record<string, string>;
const now = new Date('2026-11-21T07:49:43.123Z');
const seed = `SU${'A'.repeat(56)}`;
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-options-'));
const file = join(directory, 'file');
afterAll(() => rmSync(directory, { recursive: true, force: true }));
writeFileSync(file, '');

function check(options: ProfileOptions, environment: Environment, expected: object): void {
  expect(resolveOptions(options, environment, now)).toMatchObject(expected);
}

function refuse(options: object, environment: Environment, code: string, message: RegExp): void {
  let error: unknown;
  try {
    resolveOptions(options as ProfileOptions, environment, now);
  } catch (caught) {
    error = caught;
  }
  expect(error).toBeInstanceOf(SdkError);
  expect((error as SdkError).code).toBe(code);
  expect((error as SdkError).message).toMatch(message);
}

test('nothing given: rank 0 of 1, files, documented defaults', () => {
  check(
    {},
    {},
    {
      run: `run-20261121-074943-${process.pid}`,
      isRunNamed: false,
      rank: 0,
      worldSize: 1,
      localRank: 0,
      transport: 'file',
      url: undefined,
      directory: resolve('ranktrace-out'),
      spoolDirectory: resolve('ranktrace-out'),
      flushIntervalMs: 200,
      ringBytes: 4_194_304,
      exitDeadlineMs: 2000,
      spoolBytesMax: 268_435_456,
      token: undefined,
      notices: [],
    },
  );
});

test.each([
  [1, 200],
  [64, 200],
  [128, 400],
  [1024, 1000],
])('%i ranks send a batch every %i ms', (worldSize, ms) => {
  expect(resolveOptions({ rank: 0, worldSize }, {}).flushIntervalMs).toBe(ms);
  expect(resolveOptions({ rank: 0, worldSize, flushIntervalMs: 50 }, {}).flushIntervalMs).toBe(50);
});

test.each<[string, ProfileOptions, Environment, [number, number, number]]>([
  ['torchrun', {}, { RANK: '3', WORLD_SIZE: '8', LOCAL_RANK: '1', SLURM_PROCID: '0', SLURM_NTASKS: '1' }, [3, 8, 1]],
  ['Slurm', {}, { SLURM_PROCID: '5', SLURM_NTASKS: '6', SLURM_LOCALID: '2' }, [5, 6, 2]],
  ['Open MPI', {}, { OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '2', OMPI_COMM_WORLD_LOCAL_RANK: '1' }, [1, 2, 1]],
  [
    "Open MPI in Slurm's batch script",
    {},
    {
      ...{ OMPI_COMM_WORLD_RANK: '5', OMPI_COMM_WORLD_SIZE: '8', OMPI_COMM_WORLD_LOCAL_RANK: '1' },
      ...{ SLURM_JOB_ID: '42', SLURM_PROCID: '0', SLURM_NTASKS: '8', SLURM_LOCALID: '0' },
    },
    [5, 8, 1],
  ],
  ['own variables before the launcher', {}, { RANKTRACE_RANK: '2', RANKTRACE_WORLD_SIZE: '4', RANK: '0', WORLD_SIZE: '1' }, [2, 4, 0]],
  ['options before all', { rank: 7, worldSize: 9 }, { RANKTRACE_RANK: '2', RANK: '0', WORLD_SIZE: '1' }, [7, 9, 0]],
  ['an empty variable is not set', {}, { RANK: '', SLURM_PROCID: '1', SLURM_NTASKS: '2' }, [1, 2, 0]],
])('rank and world size: %s', (_name, options, environment, [rank, worldSize, localRank]) => {
  check({ run: 'r', ...options }, environment, { rank, worldSize, localRank });
});

test.each<[string, ProfileOptions, Environment, string]>([
  ['option', { run: 'mine' }, { RANKTRACE_RUN: 'theirs' }, 'mine'],
  ['variable', {}, { RANKTRACE_RUN: 'theirs', SLURM_JOB_ID: '7' }, 'theirs'],
  ['Slurm job', {}, { SLURM_JOB_ID: '4711', TORCHELASTIC_RUN_ID: 'x' }, '4711'],
  ['torchrun id, made fit', {}, { TORCHELASTIC_RUN_ID: 'my job/№ 1' }, 'my-job-1'],
  ['torchrun without an id says none', {}, { TORCHELASTIC_RUN_ID: 'none', WORLD_SIZE: '2', RANK: '0' }, 'run-20261121-074943'],
  ['Open MPI job', {}, { PMIX_NAMESPACE: 'prterun-h-12@1' }, 'prterun-h-12-1'],
])('run name: %s', (_name, options, environment, run) => check(options, environment, { run }));

test('ranks that each make up a run name get a warning', () => {
  expect(resolveOptions({ rank: 1, worldSize: 2 }, {}, now).notices).toEqual([expect.stringContaining('RANKTRACE_RUN')]);
  expect(resolveOptions({ rank: 1, worldSize: 2 }, { SLURM_JOB_ID: '1' }, now).notices).toEqual([]);
});

test.each<[string, string]>([
  ['ws://head:7400', 'web-socket'],
  ['wss://head/prefix', 'web-socket'],
  ['nats://head:4222', 'nats'],
  ['tls://head:4222', 'nats'],
])('the scheme of %s chooses %s', (url, transport) => {
  check({ url }, {}, { url, transport });
  check({}, { RANKTRACE_URL: url }, { url, transport });
});

test('a rank that can record nothing but its steps says so', () => {
  const notices = (activities: string[]) => resolveOptions({ activities }, {}, now).notices;
  expect(notices(['cpu', 'cuda'])).toEqual([]);
  const line = 'option activities leaves out cpu, and this host shows no NVIDIA GPU: only steps are recorded';
  expect(notices(['cuda'])).toEqual(supportedActivities().has('cuda') ? [] : [line]);
});

test('activities without the ops that other options are about are noticed', () => {
  const notices = (options: ProfileOptions) => resolveOptions(options, {}, now).notices;
  const memory = 'option activities asks for cpu_instant_event, memory of ops, which is recorded with option profileMemory only';
  expect(notices({ activities: { cpu: ['cpu_op', 'cpu_instant_event'] }, profileMemory: true })).toEqual([]);
  expect(notices({ activities: { cpu: ['cpu_op', 'cpu_instant_event'] } })).toEqual([memory]);
  expect(notices({ activities: { cpu: ['cpu_instant_event'] } })).toEqual([memory]);
  expect(notices({ activities: { cpu: ['user_annotation'] }, withStack: 'walk', withFlops: true })).toEqual([
    'option activities leaves out ops (cpu_op), so there is no effect of withStack, withFlops',
  ]);
  expect(notices({ profileMemory: true, withStack: true })).toEqual([]);
});

test('a NATS URL gives its credentials away and is clean afterwards', () => {
  check(
    { url: 'nats://ann:p%40ss@head:4222' },
    {},
    { url: 'nats://head:4222', nats: { servers: ['nats://head:4222'], user: 'ann', pass: 'p@ss' } },
  );
  check({ nats: { servers: ['nats://a:1', 'nats://b:2'] } }, {}, { transport: 'nats', url: 'nats://a:1' });
  const servers = ['nats://a:1', 'nats://b:2', 'nats://c:3'];
  check(
    { nats: { servers: ['nats://a:1', 'nats://ann:geheim@b:2', 'nats://bob:x@c:3'] } },
    {},
    { url: 'nats://a:1', nats: { servers, user: 'ann', pass: 'geheim' } },
  );
  check(
    {},
    { RANKTRACE_NATS_SERVERS: 'nats://ann:geheim@a:1' },
    { url: 'nats://a:1', nats: { servers: ['nats://a:1'], user: 'ann', pass: 'geheim' } },
  );
  check(
    { nats: { servers: ['nats://ann:geheim@a:1'], user: 'bob', pass: 'x' } },
    {},
    { url: 'nats://a:1', nats: { user: 'bob', pass: 'x' } },
  );
});

test('stacks are off, taken from steps before, or each looked at', () => {
  for (const [given, withStack] of [
    [undefined, false],
    [true, true],
    ['walk', 'walk'],
  ] as const)
    check({ withStack: given }, {}, { withStack });
  for (const [text, withStack] of [
    ['1', true],
    ['walk', 'walk'],
    ['false', false],
  ] as const)
    check({}, { RANKTRACE_WITH_STACK: text }, { withStack });
  expect(() => resolveOptions({ withStack: 'run' as 'walk' }, {}, now)).toThrow(
    /option withStack: it must be true, false or "walk", got "run"/,
  );
});

test('every option has a variable, and every variable sets its option', () => {
  const samples: Record<keyof typeof optionVariables, string> = {
    run: 'r',
    rank: '1',
    worldSize: '2',
    url: 'nats://h:1',
    directory: '/d',
    flushIntervalMs: '50',
    ringBytes: '65536',
    exitDeadlineMs: '10',
    spoolBytesMax: '4194304',
    spoolDirectory: '/s',
    token: 't',
    'nats.servers': 'nats://a:1, nats://b:2',
    'nats.user': 'u',
    'nats.pass': 'p',
    'nats.token': 'nt',
    'nats.creds': file,
    'nats.nkey': seed,
    'nats.inboxPrefix': '_INBOX_r',
    'nats.tls.ca': file,
    'nats.tls.cert': file,
    'nats.tls.key': file,
    activities: 'cpu,cuda',
    schedule: 'wait=1,warmup=1,active=3',
    recordShapes: '1',
    profileMemory: 'true',
    withStack: '0',
    withFlops: '1',
    withModules: '1',
    accEvents: '1',
    tensorboardDirectory: '/t',
    postProcessingTimeoutS: '2.5',
    'experimentalConfig.traceOnly': '1',
    'experimentalConfig.fence': '1',
    firstStep: '40',
    flightRecorderSteps: '7',
    flightRecorderBytes: '2097152',
    overheadBudget: '0.02',
    phaseRoles: 'rollouts=data, sync_weights=wait',
    sampleIntervalMs: '250',
  };
  const environment = Object.fromEntries(
    Object.entries(optionVariables).map(([name, variable]) => [variable, samples[name as keyof typeof samples]]),
  );
  const resolved = resolveOptions({}, environment, now);
  expect(resolved).toEqual({
    run: 'r',
    isRunNamed: true,
    rank: 1,
    worldSize: 2,
    localRank: 0,
    transport: 'nats',
    url: 'nats://h:1',
    directory: '/d',
    flushIntervalMs: 50,
    ringBytes: 65536,
    exitDeadlineMs: 10,
    spoolBytesMax: 4194304,
    spoolDirectory: '/s',
    token: 't',
    notices: [],
    schedule: { wait: 1, warmup: 1, active: 3 },
    detail: detail.ops | detail.shapes | detail.memory | detail.flops | detail.modules | detail.spans | detail.nestedSpans,
    devices: true,
    kernels: true,
    recordShapes: true,
    profileMemory: true,
    withStack: false,
    withFlops: true,
    withModules: true,
    accEvents: true,
    tensorboardDirectory: '/t',
    postProcessingTimeoutS: 2.5,
    traceOnly: true,
    fence: true,
    firstStep: 40,
    flightRecorderSteps: 7,
    flightRecorderBytes: 2_097_152,
    overheadBudget: 0.02,
    phaseRoles: { rollouts: 'data', sync_weights: 'wait' },
    sampleIntervalMs: 250,
    cudaVisibleDevices: undefined,
    launchDirectory: undefined,
    hasLocalRank: false,
    nats: {
      servers: ['nats://a:1', 'nats://b:2'],
      user: 'u',
      pass: 'p',
      token: 'nt',
      creds: file,
      nkey: seed,
      inboxPrefix: '_INBOX_r',
      tls: { ca: file, cert: file, key: file },
    },
  });
  expect(structuredClone(resolved)).toEqual(resolved);
});

const circular: Record<string, unknown> = {};
circular.self = circular;

test.each<[string, object, Environment, string, RegExp]>([
  ['option', { flushIntervalMs: 5 }, {}, 'bad_option', /^Bad option flushIntervalMs: it must be an integer from 10 to 60000, got 5$/],
  ['variable', {}, { RANKTRACE_FLUSH_INTERVAL_MS: 'fast' }, 'bad_option', /^Bad variable RANKTRACE_FLUSH_INTERVAL_MS: .*, got "fast"$/],
  ['launcher variable', {}, { RANK: '-1' }, 'bad_option', /^Bad variable RANK: .*got "-1"$/],
  [
    'rank beyond the world',
    { rank: 4 },
    { RANK: '0', WORLD_SIZE: '4' },
    'bad_option',
    /^Bad option rank 4: it must be below the world size, 4 \(variable WORLD_SIZE\)$/,
  ],
  ['rank without a world', {}, { RANK: '1' }, 'bad_option', /variable WORLD_SIZE is not set/],
  ['run name', { run: 'a b' }, {}, 'bad_option', /^Bad option run: it must be 1 to 64 letters, digits, "_" or "-", got "a b"$/],
  [
    'scheme',
    {},
    { RANKTRACE_URL: 'http://u:geheim@head' },
    'bad_option',
    /^Bad variable RANKTRACE_URL: it must be ws:.*, got "http:\/\/…@head"$/,
  ],
  ['password in a ws URL', { url: 'ws://u:geheim@head' }, {}, 'bad_option', /^Bad option url: .*option token/],
  ['a bare % in a password', { url: 'nats://u:100%@head' }, {}, 'bad_option', /^Bad option url: .* percent-encoded; write % as %25$/],
  ['the same in a list', {}, { RANKTRACE_NATS_SERVERS: 'nats://a%r@b' }, 'bad_option', /^Bad variable RANKTRACE_NATS_SERVERS: .* %25$/],
  [
    'a first step behind which no step can be asked for',
    { firstStep: 2 ** 31 },
    {},
    'bad_option',
    /^Bad option firstStep: it must be an integer from 0 to 1073741823, got 2147483648$/,
  ],
  ['unknown option', { flushInterval: 5 }, {}, 'bad_option', /^Unknown option flushInterval: it must be one of run, /],
  ['unknown option beside those for the program', { x: 1 }, {}, 'bad_option', /, phaseRoles, onTraceReady, customTraceIdCallback, tf$/],
  ['a number for a group', { nats: 5 }, {}, 'bad_option', /^Bad option nats: it must be an object with any of servers, user, .*, got 5$/],
  ['null for a group', { nats: { tls: null } }, {}, 'bad_option', /^Bad option nats.tls: it must be an object .*ca, cert, key, got null$/],
  [
    'a switch for a group',
    { experimentalConfig: true },
    {},
    'bad_option',
    /^Bad option experimentalConfig: it must be an object with any of traceOnly, fence, got true$/,
  ],
  ['no number', { ringBytes: Number.NaN }, {}, 'bad_option', /got NaN$/],
  ['infinity', { ringBytes: Number.NEGATIVE_INFINITY }, {}, 'bad_option', /got -Infinity$/],
  ['a BigInt', { ringBytes: 5n }, {}, 'bad_option', /^Bad option ringBytes: .*, got 5n$/],
  ['a BigInt in a list', { activities: [5n] }, {}, 'bad_option', /^Bad option activities: .*, got 5n$/],
  ['a value that refers to itself', { directory: circular }, {}, 'bad_option', /^Bad option directory: .*, got an object$/],
  ['a group that refers to itself', { nats: circular }, {}, 'bad_option', /^Unknown option nats.self: /],
  ['unknown nested option', { nats: { password: 'x' } }, {}, 'bad_option', /^Unknown option nats\.password/],
  ['seed', { nats: { nkey: 'geheim' } }, {}, 'bad_option', /got text of 6 characters$/],
  [
    'missing file',
    {},
    { RANKTRACE_NATS_CREDS: '/nowhere/x.creds' },
    'file_unreadable',
    /^Bad variable RANKTRACE_NATS_CREDS: .*"\/nowhere\/x\.creds" \(ENOENT\)$/,
  ],
])('an error names what was wrong: %s', (_name, options, environment, code, message) => refuse(options, environment, code, message));

test('steps behind the largest first step can be asked for by number', () => {
  expect(2 * limits.firstStepMax).toBeLessThanOrEqual(protocolLimits.capturedStepMax);
});

test.each([
  ['.01', 0.01],
  ['1e-2', 0.01],
  ['1.', 1],
  ['2.5E-1', 0.25],
])('a number may be written as in code: %s', (text, overheadBudget) => check({}, { RANKTRACE_OVERHEAD_BUDGET: text }, { overheadBudget }));

test.each(['.', 'e1', '0x1', '1e', '1e-', '-0.1', '1 2', 'Infinity', '1e999'])('%s is no number from 0 to 1', (text) =>
  refuse(
    {},
    { RANKTRACE_OVERHEAD_BUDGET: text },
    'bad_option',
    /^Bad variable RANKTRACE_OVERHEAD_BUDGET: it must be a number from 0 to 1, /,
  ),
);

test('a password with a / is told to be encoded', () =>
  refuse(
    {},
    { RANKTRACE_NATS_SERVERS: 'nats://a:b@h1,nats://a:geh/eim@h2:4222' },
    'bad_option',
    /got "nats:\/\/…@h1,nats:\/\/…@h2:4222"; its user and password must be percent-encoded, as \/ by %2F$/,
  ));

test('no error shows a secret', () => {
  const bad: [object, Environment][] = [
    [{ token: 'geheim\n' }, {}],
    [{}, { RANKTRACE_NATS_PASS: 'geheim\u0007' }],
    [{}, { RANKTRACE_NATS_PASS: 'x://geheim\u0007' }],
    [{ nats: { servers: ['http://a:geheim@h'] } }, {}],
    [{ nats: ['nats://a:geheim@h'] }, {}],
    [{ nats: 'geheim' }, {}],
    [{ url: 'nats://a:geheim/x@h:4222' }, {}],
    [{ url: 'nats://a:x/geheim@h:4222' }, {}],
    [{ url: 'nats://a:12/geheim@h:4222' }, {}],
    [{ url: 'nats://a:12?geheim@h:4222' }, {}],
    [{ url: 'nats://a:12#geheim@h:4222' }, {}],
    [{}, { RANKTRACE_URL: 'nats://a:ge@geheim@h:x' }],
    [{}, { RANKTRACE_NATS_SERVERS: 'nats://h1,nats://a:x,geheim@h:4222' }],
    [{}, { RANKTRACE_NATS_SERVERS: 'nats://a:geheim/x@h1, nats://a:geheim,x@h2' }],
  ];
  for (const [options, environment] of bad) {
    expect(() => resolveOptions(options as ProfileOptions, environment, now)).toThrow(SdkError);
    expect(() => resolveOptions(options as ProfileOptions, environment, now)).not.toThrow(/geheim/);
  }
});

// The user's choices and their sources: the only file of this package that knows environment variables. Types, rules and defaults of all
// options stay together in it.
//
//   option in code  >  RANKTRACE_* variable  >  the launcher's variables (torchrun, Open MPI, Slurm)  >  default
//
// Invariants: the result is plain data (it crosses to the worker by structured clone); every error names the wrong option or variable,
// shows its value (but never a secret's) and gives a correct one.

import { resolve } from 'node:path';
import { type PhaseRole, phaseRoles, limits as protocolLimits } from '@ranktrace/protocol';
import { z } from 'zod';
import { type Activities, activityNames, detailOf } from './activities.ts';
import { detail } from './detail.ts';
import { SdkError } from './errors.ts';
import { parseTestClock, type TestClock, testClockSyntax } from './host-clock.ts';
import { limits } from './limits.ts';
import { recordingLimits } from './recording-limits.ts';
import { ProfilerActivity, parseSchedule, type Schedule, type ScheduleArguments, supportedActivities } from './schedule.ts';
import { shownValue } from './shown-value.ts';
import { defaultSpool, natsSchemes, readable, splitUrl, splitUrls, transportOf, webSocketSchemes } from './transport-options.ts';

/** How to reach a NATS server. Files are paths; every part has a `RANKTRACE_NATS_*` variable. */
export interface NatsOptions {
  /** Server URLs; the client tries them in turn. Default: `url`. */
  readonly servers?: readonly string[] | undefined;
  readonly user?: string | undefined;
  readonly pass?: string | undefined;
  readonly token?: string | undefined;
  /** Path of a `.creds` file (JWT and seed). Read again at every connect, so it may be rotated. */
  readonly creds?: string | undefined;
  /** NKey seed, `SU…`. */
  readonly nkey?: string | undefined;
  /** Subject below which the server's answers come; the credentials must permit to subscribe to it. Default `ranktrace.v1.<run>.inbox.<rank>`. */
  readonly inboxPrefix?: string | undefined;
  /** Paths of PEM files. */
  readonly tls?: { readonly ca?: string | undefined; readonly cert?: string | undefined; readonly key?: string | undefined } | undefined;
}

/** All optional: a job started by torchrun, srun or mpirun needs none. */
export interface ProfileOptions {
  /** Name of the run, the same on every rank: letters, digits, `_`, `-`. */
  readonly run?: string | undefined;
  /** 0 … worldSize − 1. */
  readonly rank?: number | undefined;
  readonly worldSize?: number | undefined;
  /** Destination of batches: `ws://` or `wss://` an aggregator, `nats://` or `tls://` a NATS server with JetStream; none: files in `directory`. */
  readonly url?: string | undefined;
  /** Output directory when there is no `url`. Default `ranktrace-out`. */
  readonly directory?: string | undefined;
  /** Longest time that events wait for their batch, ms; a rank sends one, with its place alone, at least each second. Default 200; with more than 64 ranks, `worldSize` / 64 times that, up to 1000. */
  readonly flushIntervalMs?: number | undefined;
  /** Shared memory between a training thread and the shipper, bytes. Default 4 MiB. */
  readonly ringBytes?: number | undefined;
  /** Longest time that the end of the process waits for the last batches, ms. Default 2000. */
  readonly exitDeadlineMs?: number | undefined;
  /** Bound of the spool on disk, bytes, per rank. A full spool drops new batches and counts them. Default 256 MiB. */
  readonly spoolBytesMax?: number | undefined;
  /** Directory for batches that await acknowledgement. Default: `ranktrace-spool-<uid>` in the system's temporary directory. */
  readonly spoolDirectory?: string | undefined;
  /** Bearer token for the aggregator's WebSocket. */
  readonly token?: string | undefined;
  readonly nats?: NatsOptions | undefined;

  /**
   * The activities to record: `ProfilerActivity` values, or a map from one to the wanted kinds of its events, such as
   * `{ cpu: ['user_annotation'] }`. Default: the host's (ops, spans), and counters of the devices where there are any.
   */
  readonly activities?: Iterable<string> | Readonly<Record<string, readonly string[]>> | undefined;
  /** The action per step: `schedule({ wait: 1, warmup: 1, active: 3 })`, its arguments, or a function of your own. Default: record always. */
  readonly schedule?: Schedule | ScheduleArguments | undefined;
  /** Shapes and types of the inputs and outputs of ops. Default false, as for all of these. */
  readonly recordShapes?: boolean | undefined;
  /** Allocations and frees. */
  readonly profileMemory?: boolean | undefined;
  /**
   * The place in the user's code that called an op. With `true`, an op of a step that repeats earlier ones gets the stack found there
   * before, checked now and then; with `'walk'` each op's stack is read, some 10 to 20 µs an op.
   */
  readonly withStack?: boolean | 'walk' | undefined;
  /** Floating point operations; records shapes too. */
  readonly withFlops?: boolean | undefined;
  /** The layers of tf.layers around each op. */
  readonly withModules?: boolean | undefined;
  /** Results of all cycles of the schedule instead of the last one's. */
  readonly accEvents?: boolean | undefined;
  /** Writes each cycle's trace into this directory, as `onTraceReady: tensorboardTraceHandler(directory)` does, before `onTraceReady` is called. */
  readonly tensorboardDirectory?: string | undefined;
  /** Seconds after which post-processing stops, with the results so far. */
  readonly postProcessingTimeoutS?: number | undefined;
  readonly experimentalConfig?: ExperimentalConfig | undefined;

  /** Number of the first step, of a training that goes on from a checkpoint. Default 0. A schedule counts from this step. */
  readonly firstStep?: number | undefined;
  /** Steps kept in memory at full detail whatever the schedule says, to be pulled after a failure. Default 128; 0: none. */
  readonly flightRecorderSteps?: number | undefined;
  /** Bound of these steps and of results, bytes. Default 64 MiB. */
  readonly flightRecorderBytes?: number | undefined;
  /** Share of a step that unrequested detail may cost; over it, the recorder sheds detail. Default 0.005; 1: never. */
  readonly overheadBudget?: number | undefined;
  /** Time between two samples of host and device counters, ms. Default 1000; 0: never. */
  readonly sampleIntervalMs?: number | undefined;
  /** Roles of phases whose names do not show them, for reports and alerts: `{ fetch_rollouts: 'data', sync_weights: 'wait' }`. */
  readonly phaseRoles?: Readonly<Record<string, PhaseRole>> | undefined;
}

/** Options that may change or go in any version. */
export interface ExperimentalConfig {
  /** No results in the process: `events()` and `keyAverages()` throw; ranktrace only ships the trace. */
  readonly traceOnly?: boolean | undefined;
  /** Waits after each op until the device has finished it, so that its span measures the device; slows training down. */
  readonly fence?: boolean | undefined;
}

/** Every option with its value. Plain data: survives a structured clone. */
export interface ResolvedOptions {
  readonly run: string;
  /** Whether somebody chose that name; a second start makes up another. */
  readonly isRunNamed: boolean;
  readonly rank: number;
  readonly worldSize: number;
  /** Rank among the processes of this host, from the launcher; 0 without one. */
  readonly localRank: number;
  readonly transport: 'web-socket' | 'nats' | 'file';
  /** Without user information, safe to show. `undefined` for files. */
  readonly url: string | undefined;
  readonly directory: string;
  readonly flushIntervalMs: number;
  readonly ringBytes: number;
  readonly exitDeadlineMs: number;
  readonly spoolBytesMax: number;
  readonly spoolDirectory: string;
  readonly token: string | undefined;
  readonly nats: {
    readonly servers: readonly string[];
    readonly user: string | undefined;
    readonly pass: string | undefined;
    readonly token: string | undefined;
    readonly creds: string | undefined;
    readonly nkey: string | undefined;
    readonly inboxPrefix: string | undefined;
    readonly tls: { readonly ca: string | undefined; readonly cert: string | undefined; readonly key: string | undefined };
  };
  /** The schedule's arguments, if given as such. */
  readonly schedule: ScheduleArguments | undefined;
  /** Bits of `detail` wanted while recording. */
  readonly detail: number;
  /** Whether device counters are wanted. */
  readonly devices: boolean;
  /** Whether this process's own kernels are recorded. */
  readonly kernels: boolean;
  readonly recordShapes: boolean;
  readonly profileMemory: boolean;
  readonly withStack: boolean | 'walk';
  readonly withFlops: boolean;
  readonly withModules: boolean;
  readonly accEvents: boolean;
  readonly tensorboardDirectory: string | undefined;
  readonly postProcessingTimeoutS: number | undefined;
  readonly traceOnly: boolean;
  readonly fence: boolean;
  readonly firstStep: number;
  readonly flightRecorderSteps: number;
  readonly flightRecorderBytes: number;
  readonly overheadBudget: number;
  readonly phaseRoles: Readonly<Record<string, PhaseRole>>;
  readonly sampleIntervalMs: number;
  /** `CUDA_VISIBLE_DEVICES`, and whether a launcher set a local rank: they determine this rank's devices. */
  readonly cudaVisibleDevices: string | undefined;
  readonly hasLocalRank: boolean;
  /** Directory for this rank's note to its launcher (rank-note.ts). */
  readonly launchDirectory: string | undefined;
  /** For tests: the clock of another host. */
  readonly testClock: TestClock | undefined;
  /** Notes for the user about these choices, one line each. */
  readonly notices: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A value, and its name in an error: `option rank`, `variable RANK`. */
interface Choice {
  readonly value: unknown;
  readonly source: string;
}

interface Rule {
  readonly variable: string;
  readonly schema: z.ZodType;
  readonly wanted: string;
  readonly secret?: boolean;
}

const integer = (from: number, to: number): Pick<Rule, 'schema' | 'wanted'> => ({
  schema: z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\s*\d+\s*$/)
        .transform(Number),
    ])
    .pipe(z.number().int().min(from).max(to)),
  wanted: `an integer from ${from} to ${to}`,
});
const flag = {
  schema: z.union([z.boolean(), z.enum(['0', '1', 'false', 'true']).transform((text) => text === '1' || text === 'true')]),
  wanted: 'true or false',
} satisfies Pick<Rule, 'schema' | 'wanted'>;
/** A flag, or the word that asks for more than `true`. */
const flagOr = (word: string) =>
  ({ schema: z.union([flag.schema, z.literal(word)]), wanted: `true, false or "${word}"` }) satisfies Pick<Rule, 'schema' | 'wanted'>;
const number = (from: number, to: number): Pick<Rule, 'schema' | 'wanted'> => ({
  schema: z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\s*(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i)
        .transform(Number),
    ])
    .pipe(z.number().min(from).max(to)),
  wanted: `a number from ${from} to ${to}`,
});
const path = { schema: z.string().min(1).max(4096), wanted: 'a path' };
// A value that cannot stand in an HTTP header or a NATS CONNECT line would fail far from here.
const secret = {
  schema: z
    .string()
    .min(1)
    .max(4096)
    .regex(/^[\x20-\x7e]+$/),
  wanted: 'printable ASCII text',
  secret: true,
};
const runName = `1 to ${protocolLimits.runNameCharsMax} letters, digits, "_" or "-"`;
const urlOf = (schemes: readonly string[]) =>
  z
    .string()
    .max(2048)
    .refine((text) => URL.canParse(text) && isUrlOf(schemes, new URL(text)));
/** A NATS URL ends with its port: an @ behind that belongs to a password that is not encoded. */
const isUrlOf = (schemes: readonly string[], { protocol, hostname, pathname, search, hash }: URL): boolean =>
  schemes.includes(protocol) && hostname !== '' && !(natsSchemes.includes(protocol) && `${pathname}${search}${hash}`.includes('@'));

/** Every option but the nested ones, by its name in `ProfileOptions`; nested ones by their path. */
const rules = {
  run: {
    variable: 'RANKTRACE_RUN',
    schema: z
      .string()
      .regex(/^[A-Za-z0-9_-]+$/)
      .max(protocolLimits.runNameCharsMax),
    wanted: runName,
  },
  rank: { variable: 'RANKTRACE_RANK', ...integer(0, protocolLimits.rankMax) },
  worldSize: { variable: 'RANKTRACE_WORLD_SIZE', ...integer(1, protocolLimits.rankMax + 1) },
  url: {
    variable: 'RANKTRACE_URL',
    schema: urlOf([...webSocketSchemes, ...natsSchemes]),
    wanted: 'ws://HOST:PORT or wss://… (aggregator), nats://HOST:PORT or tls://… (NATS), or nothing (files)',
  },
  directory: { variable: 'RANKTRACE_DIRECTORY', ...path },
  flushIntervalMs: { variable: 'RANKTRACE_FLUSH_INTERVAL_MS', ...integer(limits.flushIntervalMsMin, limits.flushIntervalMsMax) },
  ringBytes: { variable: 'RANKTRACE_RING_BYTES', ...integer(limits.ringBytesMin, limits.ringBytesMax) },
  exitDeadlineMs: { variable: 'RANKTRACE_EXIT_DEADLINE_MS', ...integer(0, limits.exitDeadlineMsMax) },
  spoolBytesMax: { variable: 'RANKTRACE_SPOOL_BYTES_MAX', ...integer(limits.spoolBytesMin, limits.spoolBytesMax) },
  spoolDirectory: { variable: 'RANKTRACE_SPOOL_DIRECTORY', ...path },
  token: { variable: 'RANKTRACE_TOKEN', ...secret },
  'nats.servers': {
    variable: 'RANKTRACE_NATS_SERVERS',
    schema: z
      .union([z.array(z.string()), z.string().transform((text) => text.split(',').map((server) => server.trim()))])
      .pipe(z.array(urlOf(natsSchemes)).min(1).max(64)),
    wanted: 'one or more nats://HOST:PORT or tls://HOST:PORT (a list, or text with commas)',
  },
  'nats.user': { variable: 'RANKTRACE_NATS_USER', ...secret },
  'nats.pass': { variable: 'RANKTRACE_NATS_PASS', ...secret },
  'nats.token': { variable: 'RANKTRACE_NATS_TOKEN', ...secret },
  'nats.creds': { variable: 'RANKTRACE_NATS_CREDS', ...path },
  'nats.nkey': {
    variable: 'RANKTRACE_NATS_NKEY',
    schema: z.string().regex(/^SU[A-Z2-7]{56}$/),
    wanted: 'a user seed: "SU" and 56 more characters',
    secret: true,
  },
  'nats.inboxPrefix': {
    variable: 'RANKTRACE_NATS_INBOX_PREFIX',
    schema: z.string().regex(/^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$/),
    wanted: 'a subject of at most 8 words without wildcards, such as _INBOX_night',
  },
  'nats.tls.ca': { variable: 'RANKTRACE_NATS_TLS_CA', ...path },
  'nats.tls.cert': { variable: 'RANKTRACE_NATS_TLS_CERT', ...path },
  'nats.tls.key': { variable: 'RANKTRACE_NATS_TLS_KEY', ...path },
  activities: {
    variable: 'RANKTRACE_ACTIVITIES',
    schema: z.union([
      z.string().transform((text) => text.split(',').map((name) => name.trim())),
      z.custom<Activities>((value) => typeof value === 'object' && value !== null),
    ]),
    wanted: `one or more of ${activityNames.join(', ')}`,
  },
  schedule: {
    variable: 'RANKTRACE_SCHEDULE',
    schema: z.union([z.string(), z.custom<ScheduleArguments>((value) => typeof value === 'object' && value !== null)]),
    wanted: 'a function of the step, or the arguments of schedule(), such as wait=1,warmup=1,active=3,repeat=2',
  },
  recordShapes: { variable: 'RANKTRACE_RECORD_SHAPES', ...flag },
  profileMemory: { variable: 'RANKTRACE_PROFILE_MEMORY', ...flag },
  withStack: { variable: 'RANKTRACE_WITH_STACK', ...flagOr('walk') },
  withFlops: { variable: 'RANKTRACE_WITH_FLOPS', ...flag },
  withModules: { variable: 'RANKTRACE_WITH_MODULES', ...flag },
  accEvents: { variable: 'RANKTRACE_ACC_EVENTS', ...flag },
  tensorboardDirectory: { variable: 'RANKTRACE_TENSORBOARD_DIRECTORY', ...path },
  postProcessingTimeoutS: { variable: 'RANKTRACE_POST_PROCESSING_TIMEOUT_S', ...number(0, limits.postProcessingSMax) },
  'experimentalConfig.traceOnly': { variable: 'RANKTRACE_TRACE_ONLY', ...flag },
  'experimentalConfig.fence': { variable: 'RANKTRACE_FENCE', ...flag },
  firstStep: { variable: 'RANKTRACE_FIRST_STEP', ...integer(0, limits.firstStepMax) },
  flightRecorderSteps: { variable: 'RANKTRACE_FLIGHT_RECORDER_STEPS', ...integer(0, limits.flightRecorderStepsMax) },
  flightRecorderBytes: {
    variable: 'RANKTRACE_FLIGHT_RECORDER_BYTES',
    ...integer(limits.flightRecorderBytesMin, limits.flightRecorderBytesMax),
  },
  overheadBudget: { variable: 'RANKTRACE_OVERHEAD_BUDGET', ...number(0, 1) },
  sampleIntervalMs: { variable: 'RANKTRACE_SAMPLE_INTERVAL_MS', ...integer(0, limits.sampleIntervalMsMax) },
  phaseRoles: {
    variable: 'RANKTRACE_PHASE_ROLES',
    schema: z
      .union([
        z.string().transform((text) => Object.fromEntries(text.split(',').map((entry) => entry.split('=').map((part) => part.trim())))),
        z.custom<object>((value) => typeof value === 'object' && value !== null),
      ])
      .pipe(z.record(z.string().min(1).max(recordingLimits.phaseRoleNameCharsMax), z.enum(phaseRoles)))
      .refine((roles) => Object.keys(roles).length <= recordingLimits.phaseRolesMax),
    wanted: `names of phases with one of ${phaseRoles.join(', ')} each, such as fetch_rollouts=data,sync_weights=wait`,
  },
} satisfies Record<string, Rule>;

type OptionName = keyof typeof rules;

/** Options without a variable, which stay in the training thread (`ProfileCallbacks`). */
const programOptions = ['onTraceReady', 'customTraceIdCallback', 'tf'] as const;

/** Each option with the variable that sets it, as README and docs list them. */
export const optionVariables: Readonly<Record<OptionName, string>> = Object.fromEntries(
  Object.entries(rules).map(([name, rule]) => [name, rule.variable]),
) as Record<OptionName, string>;

/** Launchers, the most specific first: the variables come from one launcher, never mixed. */
const launchers = [
  { rank: 'RANK', worldSize: 'WORLD_SIZE', localRank: 'LOCAL_RANK' },
  // In a batch script of Slurm, which is its task 0, and on further hosts, where Slurm starts one daemon of Open MPI each, all ranks inherit Slurm's.
  { rank: 'OMPI_COMM_WORLD_RANK', worldSize: 'OMPI_COMM_WORLD_SIZE', localRank: 'OMPI_COMM_WORLD_LOCAL_RANK' },
  { rank: 'SLURM_PROCID', worldSize: 'SLURM_NTASKS', localRank: 'SLURM_LOCALID' },
] as const;

/** Variables with a job name that all ranks of a job share. */
const jobVariables = ['SLURM_JOB_ID', 'TORCHELASTIC_RUN_ID', 'PMIX_NAMESPACE'];

/**
 * The options with defaults and environment filled in. Throws SdkError `bad_option` or `file_unreadable`.
 *
 * @example resolveOptions({ run: 'night-42' }, { RANK: '3', WORLD_SIZE: '8', RANKTRACE_URL: 'ws://head:7400' })
 */
export function resolveOptions(
  options: ProfileOptions = {},
  environment: Environment = process.env,
  now: Date = new Date(),
): ResolvedOptions {
  refuseUnknown(options);
  const launcher = launchers.find(({ rank }) => isSet(environment[rank]));
  const notices: string[] = [];

  const choose = (name: OptionName, ...variables: (string | undefined)[]): Choice | undefined => {
    const given = at(options, name);
    if (given !== undefined) return { value: given, source: `option ${name}` };
    const variable = [rules[name].variable, ...variables].find((name) => name !== undefined && isSet(environment[name]));
    return variable === undefined ? undefined : { value: environment[variable], source: `variable ${variable}` };
  };
  const read = <T>(name: OptionName, fallback: T, ...variables: (string | undefined)[]): T => {
    const choice = choose(name, ...variables);
    return choice === undefined ? fallback : (check(rules[name], choice) as T);
  };
  const file = (name: OptionName): string | undefined => {
    const choice = choose(name);
    return choice === undefined ? undefined : readable(check(rules[name], choice) as string, choice.source);
  };

  const rank = read('rank', 0, launcher?.rank);
  const worldSize = read('worldSize', 1, launcher?.worldSize);
  if (rank >= worldSize) {
    const [ranked, sized] = [choose('rank', launcher?.rank), choose('worldSize', launcher?.worldSize)];
    throw new SdkError(
      'bad_option',
      `Bad ${ranked?.source ?? 'rank'} ${rank}: it must be below the world size, ${worldSize} (${sized?.source ?? 'option worldSize or variable WORLD_SIZE is not set'})`,
    );
  }
  const localChoice = launcher !== undefined && isSet(environment[launcher.localRank]);
  const localRank = localChoice
    ? (check({ ...rules.rank }, { value: environment[launcher.localRank], source: `variable ${launcher.localRank}` }) as number)
    : 0;

  const named = read<string | undefined>('run', undefined) ?? jobName(environment);
  const run = named ?? madeUpName(now, worldSize);
  if (worldSize > 1 && named === undefined) {
    notices.push(`no run name: this rank made up "${run}" and other ranks may choose another; set option run or variable RANKTRACE_RUN`);
  }

  const { url, ...ofUrl } = splitUrl(read<string | undefined>('url', undefined), choose('url')?.source ?? '');
  const { servers, ...ofServers } = splitUrls(
    read<readonly string[] | undefined>('nats.servers', undefined),
    choose('nats.servers')?.source ?? '',
  );
  const { user, pass } = ofUrl.user === undefined ? ofServers : ofUrl;
  const transport = transportOf(url, servers);
  const directory = resolve(read('directory', 'ranktrace-out'));

  const flags = {
    recordShapes: read('recordShapes', false),
    profileMemory: read('profileMemory', false),
    withStack: read<boolean | 'walk'>('withStack', false),
    withFlops: read('withFlops', false),
    withModules: read('withModules', false),
  };
  const traceOnly = read('experimentalConfig.traceOnly', false);
  if (traceOnly && flags.withStack !== false) notices.push('experimentalConfig.traceOnly is off: withStack needs results in the process');

  const wanted = detailOf(read<Activities | undefined>('activities', undefined), flags, choose('activities')?.source ?? '');
  if (wanted.detail === 0 && !supportedActivities().has(ProfilerActivity.CUDA))
    notices.push(`${choose('activities')?.source} leaves out cpu, and this host shows no NVIDIA GPU: only steps are recorded`);
  const aboutOps = Object.entries(flags).flatMap(([name, value]) => (value === false ? [] : [name]));
  if ((wanted.detail & detail.ops) === 0 && aboutOps.length > 0)
    notices.push(`${choose('activities')?.source} leaves out ops (cpu_op), so there is no effect of ${aboutOps.join(', ')}`);
  else if ((wanted.detail & detail.memory) !== 0 && !flags.profileMemory)
    notices.push(
      `${choose('activities')?.source} asks for cpu_instant_event, memory of ops, which is recorded with option profileMemory only`,
    );

  return {
    ...{ run, isRunNamed: named !== undefined, rank, worldSize, localRank },
    transport,
    url: url ?? servers?.[0],
    directory,
    flushIntervalMs: read('flushIntervalMs', flushIntervalOf(worldSize)),
    ringBytes: read('ringBytes', 4 * 1024 * 1024),
    exitDeadlineMs: read('exitDeadlineMs', 2000),
    spoolBytesMax: read('spoolBytesMax', 256 * 1024 * 1024),
    spoolDirectory: transport === 'file' ? directory : resolve(read('spoolDirectory', defaultSpool())),
    token: read<string | undefined>('token', undefined, 'RANKTRACE_RANK_TOKEN'),
    nats: {
      servers: servers ?? (transport === 'nats' && url !== undefined ? [url] : []),
      user: read<string | undefined>('nats.user', user),
      pass: read<string | undefined>('nats.pass', pass),
      token: read<string | undefined>('nats.token', undefined),
      creds: file('nats.creds'),
      nkey: read<string | undefined>('nats.nkey', undefined),
      inboxPrefix: read<string | undefined>('nats.inboxPrefix', undefined),
      tls: { ca: file('nats.tls.ca'), cert: file('nats.tls.cert'), key: file('nats.tls.key') },
    },
    schedule: scheduleOf(choose('schedule')),
    ...wanted,
    ...flags,
    accEvents: read('accEvents', false),
    tensorboardDirectory: read<string | undefined>('tensorboardDirectory', undefined),
    postProcessingTimeoutS: read<number | undefined>('postProcessingTimeoutS', undefined),
    traceOnly: traceOnly && flags.withStack === false,
    fence: read('experimentalConfig.fence', false),
    flightRecorderSteps: read('flightRecorderSteps', 128),
    flightRecorderBytes: read('flightRecorderBytes', 64 * 1024 * 1024),
    overheadBudget: read('overheadBudget', 0.005),
    phaseRoles: read<Readonly<Record<string, PhaseRole>>>('phaseRoles', {}),
    sampleIntervalMs: read('sampleIntervalMs', 1000),
    firstStep: read('firstStep', 0),
    cudaVisibleDevices: environment.CUDA_VISIBLE_DEVICES,
    hasLocalRank: localChoice,
    launchDirectory: isSet(environment.RANKTRACE_LAUNCH_DIRECTORY) ? environment.RANKTRACE_LAUNCH_DIRECTORY : undefined,
    testClock: testClockOf(environment.RANKTRACE_TEST_CLOCK),
    notices,
  };
}

/** Not an option: only a test that plays several hosts on one machine wants another clock. */
function testClockOf(value: string | undefined): TestClock | undefined {
  if (!isSet(value)) return undefined;
  const schema = z
    .string()
    .transform(parseTestClock)
    .refine((clock) => clock !== undefined);
  const rule = { variable: 'RANKTRACE_TEST_CLOCK', schema, wanted: testClockSyntax };
  return check(rule, { value, source: `variable ${rule.variable}` }) as TestClock;
}

/** Small where possible, so that viewers see fresh data. */
function flushIntervalOf(worldSize: number): number {
  const { flushIntervalMsDefault, flushIntervalMsLargeMax, flushesPerSecondMax } = limits;
  return Math.min(flushIntervalMsLargeMax, Math.max(flushIntervalMsDefault, Math.round((1000 * worldSize) / flushesPerSecondMax)));
}

/** The schedule's arguments; undefined without a schedule, and for a function, which stays in this thread. */
function scheduleOf(choice: Choice | undefined): ScheduleArguments | undefined {
  if (choice === undefined || typeof choice.value === 'function') return undefined;
  const given = check(rules.schedule, choice) as string | ScheduleArguments;
  if (typeof given !== 'string') return given;
  try {
    return parseSchedule(given);
  } catch (cause) {
    throw new SdkError('bad_option', `Bad ${choice.source}: ${(cause as Error).message}`, { cause });
  }
}

function check(rule: Rule, { value, source }: Choice): unknown {
  const parsed = rule.schema.safeParse(value);
  if (parsed.success) return parsed.data;
  // A URL may carry a password, too.
  const isUrl = rule === rules.url || rule === rules['nats.servers'];
  const shown = rule.secret === true ? lengthOf(value) : isUrl ? hidden(value) : shownValue(value);
  throw new SdkError('bad_option', `Bad ${source}: it must be ${rule.wanted}, got ${shown}`);
}

const lengthOf = (value: unknown): string => (typeof value === 'string' ? `text of ${value.length} characters` : `a ${typeof value}`);

/** Hides all before the last @ of a URL: a password may hold anything, also characters that would have to be encoded there. */
function hidden(value: unknown): string {
  const text = Array.isArray(value) ? value.join(',') : value;
  if (typeof text !== 'string' || !text.includes('://')) return lengthOf(text);
  const urls = text.split(/,(?=\s*[a-z]+:\/\/)/i);
  const shown = JSON.stringify(urls.map((url) => url.replace(/\/\/.*@/s, '//…@')).join(','));
  // Nothing that is shown tells what is wrong then.
  return urls.some((url) => /\/\/.*[/?#,].*@/s.test(url)) ? `${shown}; its user and password must be percent-encoded, as / by %2F` : shown;
}

/** A value where a group of options was wanted: text may be a URL with a password. */
const plain = (value: unknown): string => (typeof value === 'string' || Array.isArray(value) ? hidden(value) : shownValue(value));

/** Members of a group of options, such as `nats`; empty for any other name. */
const membersOf = (name: string): readonly string[] =>
  Object.keys(rules).flatMap((rule) => (rule.startsWith(`${name}.`) ? rule.slice(name.length + 1) : []));

/** JavaScript callers may pass anything. Throws SdkError `bad_option` for what is no object of options. */
export function checkOptions(options: unknown): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return;
  throw new SdkError('bad_option', `Bad options of a profile: they must be an object such as { run: "night-42" }, got ${plain(options)}`);
}

/** Throws SdkError `bad_option` for a callback that is none. `name`: the option. */
export function checkCallback(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function')
    throw new SdkError('bad_option', `Bad option ${name}: it must be a function, got ${shownValue(value)}`);
}

function refuseUnknown(options: object, prefix = ''): void {
  for (const [key, value] of Object.entries(options)) {
    const name = `${prefix}${key}`;
    if (value === undefined || name in rules) continue;
    const members = membersOf(name);
    if (members.length === 0) {
      const known = [...Object.keys(rules), ...programOptions].join(', ');
      throw new SdkError('bad_option', `Unknown option ${name}: it must be one of ${known}`);
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      const wanted = `an object with any of ${members.join(', ')}`;
      throw new SdkError('bad_option', `Bad option ${name}: it must be ${wanted}, got ${plain(value)}`);
    }
    refuseUnknown(value, `${name}.`);
  }
}

function at(options: object, name: string): unknown {
  let value: unknown = options;
  for (const key of name.split('.')) value = (value as Record<string, unknown> | undefined)?.[key];
  return value;
}

const isSet = (text: string | undefined): text is string => text !== undefined && text !== '';

function jobName(environment: Environment): string | undefined {
  // torchrun without a rendezvous id says "none".
  const job = jobVariables.map((variable) => environment[variable]).find((text) => isSet(text) && text !== 'none');
  return job?.replaceAll(/[^A-Za-z0-9_-]+/g, '-').slice(0, protocolLimits.runNameCharsMax);
}

/** `run-20261121-074943`, UTC; for a single rank with its process, `run-20261121-074943-4711`: another may start in the same second. */
function madeUpName(now: Date, worldSize: number): string {
  const second = now.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
  return worldSize > 1 ? `run-${second}` : `run-${second}-${process.pid}`;
}

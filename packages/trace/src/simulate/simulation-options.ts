// Settings of a simulated cluster: options, defaults, and checks.

import { checkRunName } from '@ranktrace/protocol';
import { TraceError } from '../model/errors.ts';
import { simulationLimits as limits } from './simulation-limits.ts';

/** Phases of a step in which a rank may straggle: those in which it works alone. */
export const stragglingPhases = ['data', 'forward', 'backward', 'optimizer'] as const;
export type StragglingPhase = (typeof stragglingPhases)[number];

/** Rank `rank` takes `ms` longer in `phase`, in step `step` (or in those from it to `lastStep`) or in all. */
export interface Straggler {
  readonly rank: number;
  readonly phase: StragglingPhase;
  readonly ms: number;
  readonly step?: number | undefined;
  readonly lastStep?: number | undefined;
}

/** The clock of host `host` jumps ahead by `micros` µs (or back) at `seconds` s of true time. */
export interface HostClockStep {
  readonly host: number;
  readonly seconds: number;
  readonly micros: number;
}

export interface ClusterOptions {
  /** Name of the run; default `simulated`. */
  readonly run?: string | undefined;
  /** 1 to 1024; default 16. */
  readonly ranks?: number | undefined;
  /** Number of hosts, over which the ranks are spread evenly and in order; default: enough for 8 ranks a host. */
  readonly hosts?: number | undefined;
  /** Most ranks on a host; default 8. Not with `hosts`. */
  readonly ranksPerHost?: number | undefined;
  /** s of true time, rounded up to a whole step; default 30. */
  readonly seconds?: number | undefined;
  /** Number of steps, instead of seconds. */
  readonly steps?: number | undefined;
  /** Length of a step without waits, ms; default 200. */
  readonly stepMs?: number | undefined;
  /** Whole number ≥ 0; default 0. */
  readonly seed?: number | undefined;
  /** Deviation of the clocks' rates among hosts, ppm; default 10. */
  readonly driftPpm?: number | undefined;
  /** A host's route to the aggregator is up to this longer and its route back as much shorter, or the reverse; µs, default 30. */
  readonly asymmetryUs?: number | undefined;
  /** A host leaves collectives late by a constant from 0 to twice this; µs, default 10. */
  readonly exitBiasUs?: number | undefined;
  readonly clockSteps?: readonly HostClockStep[] | undefined;
  readonly stragglers?: readonly Straggler[] | undefined;
  /** Share, 0 to 0.9, of the collective parts and rpc halves that are not recorded, and of the batches that do not arrive; default 0. */
  readonly lost?: number | undefined;
  /** Hosts with ranks that send no clock pings. */
  readonly noPings?: readonly number[] | undefined;
  /** Remote calls between ranks per second, in the whole cluster; default 60. */
  readonly rpcsPerSecond?: number | undefined;
  /** Ranks that share one layer's work: all-gather and reduce-scatter within forward and backward; default 1. */
  readonly tensorParallel?: number | undefined;
  /** Stages that hand each other activations and gradients, by send and recv; default 1. */
  readonly pipeline?: number | undefined;
  /** Factor on the time of collectives and sends once all ranks are there; default 1. */
  readonly transferScale?: number | undefined;
  /** ms between two batches of a rank; default 1000. */
  readonly flushMs?: number | undefined;
}

/** Options with their defaults, checked. */
export interface ResolvedCluster {
  readonly run: string;
  readonly ranks: number;
  readonly hosts: number;
  /** Undefined if `steps` sets the length. */
  readonly seconds: number | undefined;
  readonly steps: number | undefined;
  readonly stepMs: number;
  readonly seed: number;
  readonly driftPpm: number;
  readonly asymmetryUs: number;
  readonly exitBiasUs: number;
  readonly clockSteps: readonly HostClockStep[];
  readonly stragglers: readonly Straggler[];
  readonly lost: number;
  readonly noPings: readonly number[];
  readonly rpcsPerSecond: number;
  readonly tensorParallel: number;
  readonly pipeline: number;
  readonly transferScale: number;
  readonly flushMs: number;
}

type Option = keyof ClusterOptions;

/**
 * Fills in the defaults; throws TraceError `bad_option` for the first invalid option. `nameOf`: the caller's name of an option, for
 * the error's text.
 */
export function resolveCluster(options: ClusterOptions, nameOf: (option: Option) => string = (option) => option): ResolvedCluster {
  const check = new Checks(nameOf);
  check.notBoth(options, 'hosts', 'ranksPerHost');
  check.notBoth(options, 'seconds', 'steps');
  const ranks = check.whole('ranks', options.ranks ?? 16, 1, limits.simulatedRanksMax);
  const ranksPerHost = check.whole('ranksPerHost', options.ranksPerHost ?? 8, 1, limits.simulatedRanksMax);
  const hosts = check.whole('hosts', options.hosts ?? Math.ceil(ranks / ranksPerHost), 1, ranks);
  const stepMs = check.within('stepMs', options.stepMs ?? 200, limits.simulatedStepMsMin, limits.simulatedStepMsMax);
  const tensorParallel = check.whole('tensorParallel', options.tensorParallel ?? 1, 1, ranks);
  const pipeline = check.whole('pipeline', options.pipeline ?? 1, 1, ranks);
  if (ranks % (tensorParallel * pipeline) !== 0) {
    const sizes = `${nameOf('tensorParallel')} ${tensorParallel} times ${nameOf('pipeline')} ${pipeline}`;
    check.fail('ranks', `a multiple of ${sizes}`, ranks);
  }
  for (const host of options.noPings ?? []) check.index('noPings', 'a host', host, hosts);
  return {
    run: checkRunName(options.run ?? 'simulated'),
    ranks,
    hosts,
    ...resolveLength(options, stepMs, check),
    stepMs,
    seed: check.whole('seed', options.seed ?? 0, 0, Number.MAX_SAFE_INTEGER),
    driftPpm: check.within('driftPpm', options.driftPpm ?? 10, 0, limits.simulatedDriftPpmMax),
    asymmetryUs: check.within('asymmetryUs', options.asymmetryUs ?? 30, 0, limits.simulatedAsymmetryUsMax),
    exitBiasUs: check.within('exitBiasUs', options.exitBiasUs ?? 10, 0, limits.simulatedExitBiasUsMax),
    clockSteps: checkedClockSteps(options.clockSteps ?? [], hosts, check),
    stragglers: checkedStragglers(options.stragglers ?? [], ranks, check),
    lost: check.within('lost', options.lost ?? 0, 0, limits.simulatedLostShareMax),
    noPings: options.noPings ?? [],
    rpcsPerSecond: check.within('rpcsPerSecond', options.rpcsPerSecond ?? 60, 0, limits.simulatedRpcsPerSecondMax),
    tensorParallel,
    pipeline,
    transferScale: check.within('transferScale', options.transferScale ?? 1, 0, limits.simulatedTransferScaleMax),
    flushMs: check.within('flushMs', options.flushMs ?? 1000, limits.simulatedFlushMsMin, limits.simulatedFlushMsMax),
  };
}

function resolveLength({ seconds = 30, steps }: ClusterOptions, stepMs: number, check: Checks): Pick<ResolvedCluster, 'seconds' | 'steps'> {
  if (steps === undefined) return { seconds: check.within('seconds', seconds, 0.001, limits.simulatedSecondsMax), steps };
  const stepsMax = Math.floor((limits.simulatedSecondsMax * 1000) / stepMs);
  if (steps > stepsMax && steps <= limits.simulatedStepsMax) check.fail('steps', `at most ${stepsMax} of ${stepMs} ms`, steps);
  return { seconds: undefined, steps: check.whole('steps', steps, 1, limits.simulatedStepsMax) };
}

function checkedClockSteps(steps: readonly HostClockStep[], hosts: number, check: Checks): readonly HostClockStep[] {
  for (const { host, seconds, micros } of check.most('clockSteps', steps, limits.simulatedClockStepsMax)) {
    check.index('clockSteps', 'of a host', host, hosts);
    const { simulatedSecondsMax: secondsMax, simulatedClockStepUsMax: microsMax } = limits;
    if (!(seconds >= 0 && seconds <= secondsMax)) check.fail('clockSteps', `at 0 to ${secondsMax} s`, seconds);
    if (!(Math.abs(micros) <= microsMax)) check.fail('clockSteps', `within ±${microsMax} µs`, micros);
  }
  return steps;
}

function checkedStragglers(stragglers: readonly Straggler[], ranks: number, check: Checks): readonly Straggler[] {
  for (const { rank, phase, ms, step, lastStep } of check.most('stragglers', stragglers, limits.simulatedStragglersMax)) {
    check.index('stragglers', 'of a rank', rank, ranks);
    if (!stragglingPhases.includes(phase)) check.fail('stragglers', `in ${stragglingPhases.join(', ')}`, `"${phase}"`);
    const msMax = limits.simulatedStragglerMsMax;
    if (!(ms > 0 && ms <= msMax)) check.fail('stragglers', `above 0 and up to ${msMax} ms`, ms);
    if (step !== undefined && !(Number.isInteger(step) && step >= 0)) check.fail('stragglers', 'at a step from 0', step);
    if (lastStep !== undefined && !(Number.isInteger(lastStep) && step !== undefined && lastStep >= step)) {
      check.fail('stragglers', `up to a step from ${step ?? 'its first'}`, lastStep);
    }
  }
  return stragglers;
}

/** Throws TraceError `bad_option` in one form: the option, the requirement and the given value. NaN passes no check. */
class Checks {
  readonly #nameOf: (option: Option) => string;

  constructor(nameOf: (option: Option) => string) {
    this.#nameOf = nameOf;
  }

  fail(option: Option, wanted: string, got: string | number): never {
    throw new TraceError('bad_option', `Cannot simulate: ${this.#nameOf(option)} must be ${wanted}, got ${got}`);
  }

  within(option: Option, value: number, min: number, max: number): number {
    return value >= min && value <= max ? value : this.fail(option, `${min} to ${max}`, value);
  }

  whole(option: Option, value: number, min: number, max: number): number {
    return Number.isInteger(value) && value >= min && value <= max
      ? value
      : this.fail(option, `a whole number from ${min} to ${max}`, value);
  }

  /** Checks that `value` is an index, 0 or more and below `count`. */
  index(option: Option, what: string, value: number, count: number): void {
    if (!Number.isInteger(value) || value < 0 || value >= count) this.fail(option, `${what} from 0 to ${count - 1}`, value);
  }

  most<T>(option: Option, list: readonly T[], max: number): readonly T[] {
    return list.length <= max ? list : this.fail(option, `given at most ${max} times`, list.length);
  }

  notBoth(options: ClusterOptions, one: Option, other: Option): void {
    if (options[one] === undefined || options[other] === undefined) return;
    throw new TraceError('bad_option', `Cannot simulate: give ${this.#nameOf(one)} or ${this.#nameOf(other)}, not both`);
  }
}

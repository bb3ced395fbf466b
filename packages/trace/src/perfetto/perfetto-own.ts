// Facts that our own writer (perfetto/perfetto-writer.ts) adds to a Perfetto trace: the identity of each process, the kind of event behind each
// slice, losses. This is the writer's inverse; facts that it does not write are lost: which spans were asynchronous, the recorder's counts.
// Clock bounds by time come back rounded up (bounds-text.ts).

import { nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import { ownKeys } from '../model/event-arguments.ts';
import type {
  Alignment,
  ClockConflictAt,
  EventCounts,
  ProcessPlace,
  ProcessTotals,
  PrunedPart,
  TraceEvent,
  TraceLane,
  TraceProcess,
} from '../model/trace-sink.ts';
import { laneOfName, laneOfRank } from '../write/process-names.ts';
import { alignmentOfBounds } from './bounds-text.ts';
import { conflictPrefix, conflictsMax } from './perfetto-facts.ts';
import type { Arguments } from './perfetto-track-event.ts';
import type { TrackAbout } from './perfetto-tracks.ts';

/** Category of the two instants per process that hold facts, and their names. */
export const factsCategory = 'ranktrace';
export const runFacts = 'run';
export const totalsFacts = 'totals';

export type WritableEvent = { -readonly [K in keyof TraceEvent]: TraceEvent[K] };

/** A number among facts; `otherwise` where there is none. */
function numberOf(facts: Arguments, key: string, otherwise: number): number {
  const value = facts.get(key);
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

const textOf = (facts: Arguments, key: string): string => String(facts.get(key) ?? '');

/** The facts with this prefix: `dropped.events` … */
function prefixed<K extends string>(facts: Arguments, prefix: string, keys: readonly K[]): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, numberOf(facts, `${prefix}.${key}`, 0)])) as Record<K, number>;
}

/** The process described by `run` facts; `totals`: those at the end of the trace, empty where it was cut. */
export function processOfFacts(index: number, facts: Arguments, totals: Arguments): TraceProcess {
  const metadata = new Map<string, string>();
  for (const [key, value] of facts) if (key.startsWith('metadata.')) metadata.set(key.slice('metadata.'.length), String(value));
  return {
    index,
    rank: numberOf(facts, 'rank', 0),
    incarnation: textOf(facts, 'incarnation'),
    host: textOf(facts, 'host'),
    ...(facts.get('hostUnknown') === 'true' && { hostUnknown: true }),
    hostName: textOf(facts, 'hostName'),
    pid: numberOf(facts, 'pid', 0),
    alignment: alignmentOf(facts, totals),
    metadata,
  };
}

/** The run's conflicts, in order of time. */
export function conflictsOfFacts(facts: Arguments): ClockConflictAt[] {
  const conflicts: ClockConflictAt[] = [];
  for (let at = 0; at < conflictsMax; at++) {
    const conflict = conflictOf(textOf(facts, `${conflictPrefix}.${at}`));
    if (conflict === undefined) break;
    conflicts.push(conflict);
  }
  return conflicts.sort((a, b) => a.time - b.time);
}

function conflictOf(text: string): ClockConflictAt | undefined {
  try {
    const [time, slack, isAtStep, ...hosts] = JSON.parse(text) as unknown[];
    const isWhole =
      Number.isFinite(time) && Number.isFinite(slack) && typeof isAtStep === 'boolean' && hosts.every((host) => typeof host === 'string');
    return isWhole ? { time: time as number, slack: slack as number, isAtStep, hosts: hosts as string[] } : undefined;
  } catch {
    return undefined;
  }
}

const methods: readonly Alignment['method'][] = ['exact', 'sampled', 'messages', 'shared', 'unaligned'];

/** Most steps and shifted stretches of one clock that are read: a merge writes 64 of each at most. */
const clockMarksMax = 1024;

function alignmentOf(facts: Arguments, totals: Arguments): Alignment {
  const bound = facts.get('boundNs');
  const numbersOf = (key: string): number[] =>
    textOf(facts, key).split(' ', clockMarksMax).filter(Boolean).map(Number).filter(Number.isFinite);
  const [steps, jumps, driftPpm] = [numbersOf('clockStepsNs'), numbersOf('clockJumpsNs'), numberOf(facts, 'driftPpm', 0)];
  const shifted = textOf(facts, 'shiftedNs')
    .split(' +')
    .join('+')
    .split(' ')
    .map((text) => /^(.+)–(.+)\+(.+)$/.exec(text))
    .filter((parts) => parts !== null)
    .map(([, from, until, most]) => ({ from: traceTime(Number(from)), until: traceTime(Number(until)), most: nanos(Number(most)) }))
    .filter(({ from, until, most }) => Number.isFinite(from) && Number.isFinite(until) && Number.isFinite(most))
    .slice(0, clockMarksMax);
  return {
    method: methods.find((method) => method === facts.get('alignment')) ?? 'unaligned',
    bound: typeof bound === 'number' ? nanos(bound) : undefined,
    ...(typeof bound === 'number' && alignmentOfBounds(textOf(totals, 'boundsNs'), textOf(totals, 'apartNs'), bound)),
    ...(steps.length === 0 ? {} : { clockSteps: steps.map((time): TraceTime => traceTime(time)) }),
    ...(jumps.length === 0 ? {} : { clockJumps: jumps.map((jump) => nanos(jump)) }),
    ...(driftPpm > 0 ? { driftPpm } : {}),
    ...(shifted.length === 0 ? {} : { shifted }),
  };
}

const kinds: readonly (keyof EventCounts)[] = ['span', 'instant', 'counter', 'step', 'collective', 'rpc'];

/** The totals held by `totals` facts. */
export function totalsOfFacts(process: TraceProcess, facts: Arguments): ProcessTotals {
  return {
    process,
    batches: numberOf(facts, 'batches', 0),
    missing: numberOf(facts, 'missing', 0),
    dropped: prefixed(facts, 'dropped', ['events', 'arguments', 'names', 'batches']),
    late: numberOf(facts, 'late', 0),
    crowded: numberOf(facts, 'crowded', 0),
    counts: prefixed(facts, 'count', kinds),
    recorded: undefined,
    ...prunedOfFacts(facts),
    ...(facts.has('place.step') ? { place: placeOfFacts(facts) } : {}),
    ended: facts.get('ended') === 'true',
    ...(facts.get('goesOn') === 'true' && { goesOn: true }),
    ...(facts.has('from') && { from: traceTime(numberOf(facts, 'from', 0)) }),
    ...(facts.has('until') && { until: traceTime(numberOf(facts, 'until', 0)) }),
  };
}

function prunedOfFacts(facts: Arguments): Pick<ProcessTotals, 'pruned'> {
  const parts = (['detail', 'steps'] as const).flatMap((what): PrunedPart[] => {
    const key = `pruned.${what}`;
    if (!facts.has(`${key}.on`)) return [];
    const steps = facts.has(`${key}.from`) ? ([numberOf(facts, `${key}.from`, 0), numberOf(facts, `${key}.to`, 0)] as const) : undefined;
    return [{ what, steps, on: textOf(facts, `${key}.on`) }];
  });
  return parts.length === 0 ? {} : { pruned: { parts, events: prefixed(facts, 'pruned.events', kinds) } };
}

function placeOfFacts(facts: Arguments): ProcessPlace {
  const enteredPrefix = 'place.entered.';
  const entered = new Map<string, number>();
  for (const [key, value] of facts) if (key.startsWith(enteredPrefix)) entered.set(key.slice(enteredPrefix.length), Number(value));
  const time = (key: string): TraceTime => traceTime(numberOf(facts, key, 0));
  return {
    step: numberOf(facts, 'place.step', 0),
    phase: facts.has('place.phase') ? { name: textOf(facts, 'place.phase'), since: time('place.phaseSince') } : undefined,
    ...(facts.has('place.after') && { after: textOf(facts, 'place.after') }),
    collective: facts.has('place.op')
      ? {
          op: textOf(facts, 'place.op'),
          group: textOf(facts, 'place.group'),
          sequence: numberOf(facts, 'place.sequence', 0),
          since: time('place.opSince'),
        }
      : undefined,
    entered,
  };
}

/** The lane of a track of ours. */
export function laneOfTrack(index: number, process: TraceProcess, about: TrackAbout): TraceLane {
  const { overflow = 0 } = laneOfRank(about.orderRank ?? 0) ?? {};
  const { isThread, name = '', threadName = '', counter } = about;
  const kind = laneKindOf(about);
  if (counter !== undefined) return { index, process, kind, name, tid: 0, overflow, unit: counter.unit };
  return { index, process, kind, ...laneOfName(isThread ? threadName : name), overflow, unit: '' };
}

/** The kind of the lane of a track of ours. */
export function laneKindOf({ isThread, counter, orderRank = 0 }: TrackAbout): TraceLane['kind'] {
  if (counter !== undefined) return 'counter';
  return isThread ? 'thread' : (laneOfRank(orderRank)?.kind ?? 'thread');
}

const phasePrefix = 'phaseNs.';

/** Whether a value of a trace, which may hold anything, is a length of time. */
const isLength = (value: string | number | undefined): boolean =>
  typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY;

/**
 * Restores the kind of `event`, a span with `given` arguments on a lane of ours: the arguments of its kind become its fields. A span
 * with own first arguments that read exactly like a collective's or a call's becomes one.
 */
export function recogniseKind(event: WritableEvent, given: Arguments): void {
  const keys = [...given.keys()];
  let used = 0;
  const isNext = (key: string, type: 'string' | 'number'): boolean => keys[used] === key && typeof given.get(key) === type;
  const take = (): string | number => given.get(keys[used++] as string) as string | number;
  const begins = (wanted: readonly (readonly [string, 'string' | 'number'])[]): boolean =>
    wanted.every(([key, type], place) => keys[place] === key && typeof given.get(key) === type);
  if (event.lane.kind === 'steps' && isNext('step', 'number')) {
    event.kind = 'step';
    event.step = take() as number;
    if (keys[used] === 'overheadNs' && isLength(given.get('overheadNs'))) event.overhead = nanos(take() as number);
    const phases = new Map<string, ReturnType<typeof nanos>>();
    while (keys[used]?.startsWith(phasePrefix) === true && isLength(given.get(keys[used] as string))) {
      phases.set((keys[used] as string).slice(phasePrefix.length), nanos(take() as number));
    }
    if (phases.size > 0) event.phases = phases;
  } else if (begins(collectiveKeys) && given.get('op') === event.name) {
    event.kind = 'collective';
    take();
    event.group = take() as string;
    event.sequence = take() as number;
    event.bytes = take() as number;
    if (isNext('peer', 'number')) event.peerRank = take() as number;
  } else if (begins(rpcKeys)) {
    event.kind = 'rpc';
    event.side = take() as string;
    event.peer = take() as string;
    event.status = take() as string;
    event.traceId = take() as string;
    event.spanId = take() as string;
    if (isNext('parentSpanId', 'string')) event.parentSpanId = take() as string;
  }
  event.arguments = restOf(given, keys.slice(used), ownKeys[event.kind]);
}

const collectiveKeys = [
  ['op', 'string'],
  ['group', 'string'],
  ['sequence', 'number'],
  ['bytes', 'number'],
] as const;
const rpcKeys = [
  ['side', 'string'],
  ['peer', 'string'],
  ['status', 'string'],
  ['traceId', 'string'],
  ['spanId', 'string'],
] as const;

/** Arguments that the program itself gave, under the keys that it gave. */
function restOf(given: Arguments, keys: readonly string[], own: readonly string[]): Arguments | undefined {
  if (keys.length === 0) return undefined;
  if (own.length === 0) return given;
  return new Map(
    keys.map((key) => {
      const theirs = key.startsWith('argument.') ? key.slice('argument.'.length) : '';
      return [own.includes(theirs) ? theirs : key, given.get(key) as string | number];
    }),
  );
}

// Hangs that a run shows at its end: ranks inside of a collective that others never entered, or a step that never ended.
//
//   rank 0   step 39 │ forward │ backward …………………………………… │ ended by a signal, or killed
//   rank 1   step 39 │ …………………………………………………………………………… │             did not come as far as the others
//
// A rank that waits inside a collective is missing in those after it, and not to blame for them: they come after the one that holds all up.

import { isOccasionalRole, nanosPerSecond, type TraceTime, type ViewFinding } from '@ranktrace/protocol';
import { collectiveText } from '../match/collective-number.ts';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { areElsewhere, inStep, placesTexts, ranksBehind, ranksWorking, type StepPlace } from '../steps/step-places.ts';
import type { RunSummary } from '../steps/step-summary.ts';
import type { OpenCollective, OpenRank, OpenWorkSummary } from './open-work.ts';

/** A collective open at least this long is a hang; in a live run it may still finish. */
const hangNsMin = { live: 10 * nanosPerSecond, ended: nanosPerSecond } as const;
/** It must also be open for this many long steps. */
const hangStepsMin = 5;

/** A step that ran for so long when all ranks ended is one … */
const stallNsMin = 10 * nanosPerSecond;
/** … if it ran for this many times as long as one usually takes, and as a long one does. */
const [stallStepsMin, stallLongStepsMin] = [20, 5];

/** A rank that a signal ended so long before the others is what they waited for. */
const goneNsMin = 10 * nanosPerSecond;

/** Ranks that live for so long after others have entered a collective were not what these waited for: they were killed because all hung. */
const hangNsToKill = 10 * nanosPerSecond;
/** Ranks that are killed together are heard last within this time of each other. */
const killedNsApart = 2 * nanosPerSecond;

export interface Hangs {
  /** Hangs in collectives; where none is known, that of a step that never ended. */
  readonly findings: readonly ViewFinding[];
  /** The ranks that ended without goodbye were killed at the end of a hang, so that it comes before them in what is said of the run. */
  readonly areEndedByKill: boolean;
}

export function hangsOf(openWork: OpenWorkSummary, steps: RunSummary, isLive: boolean): Hangs {
  const { until, collectives, ranks } = openWork;
  const { p95 } = steps;
  if (until === undefined) return { findings: [], areEndedByKill: false };
  const least = Math.max(isLive ? hangNsMin.live : hangNsMin.ended, hangStepsMin * (p95 ?? 0));
  const hanging = collectives
    .map((collective) => ({ collective, since: collective.inside[0]?.since ?? until }))
    .filter(({ since }) => until - since >= least);
  const waiting = new Set(hanging.flatMap(({ collective }) => collective.inside.map(({ rank }) => rank)));
  const effects = hanging.filter(({ collective }) => isHeldUp(collective, waiting));
  const findings = [...hanging.filter((one) => !effects.includes(one)), ...effects].map(({ collective, since }): ViewFinding => {
    const { missing, unheard, differing, inside, left } = collective;
    const few = missing.length < inside.length ? missing : missing.length > inside.length ? inside.map(({ rank }) => rank) : [];
    if (missing.length > 0 && unheard.length + differing.length + left.length === 0 && isApart(openWork, collective)) {
      return { severity: 'alert', kind: 'hang', text: apartText(openWork, collective, until - since), ranks: few, from: since, until };
    }
    const others = differing.length > 0 ? differing.map(({ rank }) => rank) : unheard;
    const late = missing.filter((rank) => !waiting.has(rank));
    const of = late.length > 0 ? late : missing.length > 0 ? missing : others.length > 0 ? others : inside.map(({ rank }) => rank);
    return { severity: 'alert', kind: 'hang', text: hangText(collective, until - since), ranks: of, from: since, until };
  });
  // A signal takes its time in ranks that are inside of a library.
  const areTogether = ranks.every(
    ({ until: heard, endedBy, isStopped }) => endedBy !== undefined || isStopped || until - heard <= killedNsApart,
  );
  const isLong = hanging.some(({ since }) => until - since >= hangNsToKill);
  if (hanging.length > 0) return { findings, areEndedByKill: isLong && areTogether };
  const stall = isLive || !areTogether || openWork.ended?.hasFailed === true ? undefined : stallOf(openWork, until, steps);
  return { findings: stall === undefined ? [] : [stall], areEndedByKill: stall !== undefined };
}

/** Whether a collective waits for ranks alone that wait inside of another one: they are not to blame for it. */
const isHeldUp = ({ missing, unheard, differing }: OpenCollective, waiting: ReadonlySet<number>): boolean =>
  missing.length > 0 && unheard.length + differing.length === 0 && missing.every((rank) => waiting.has(rank));

/** The step in which all ranks were for much longer than one takes when they were ended. */
function stallOf({ ranks, roles, ended }: OpenWorkSummary, until: TraceTime, { median, p95 }: RunSummary): ViewFinding | undefined {
  const least = Math.max(stallNsMin, stallStepsMin * (median ?? 0), stallLongStepsMin * (p95 ?? 0));
  if (ended !== undefined && ended.ranks.length > ranks.length) return leftOver(ranks, ended, roles, until, least);
  const last = Math.max(...ranks.map(({ lastStep }) => lastStep?.end ?? Number.NEGATIVE_INFINITY));
  const length = until - last;
  if (!Number.isFinite(length) || length < least) return undefined;
  const places = placesOf(ranks);
  const phases = [...places.values()].map(({ phase }) => phase).filter((phase) => phase !== undefined);
  // After training no rank is in a phase of a step; and a long evaluation is none.
  if (phases.length === 0 || phases.some((phase) => isOccasionalRole(roles.of(phase)))) return undefined;
  const all = ranks.map(({ rank }) => rank);
  // Ranks that are inside of a library end last when they are asked to, and are killed.
  const gone = ranks.filter(({ until: heard, endedBy, isStopped }) => until - heard >= goneNsMin && !(isStopped && endedBy !== undefined));
  const order = ranks.reduce<readonly string[]>((most, { phases: of }) => (of.length > most.length ? of : most), []);
  const behind = gone.length > 0 ? gone.map(({ rank }) => rank) : ranksBehind(places, all, order, roles);
  const working = behind.length > 0 ? [] : ranksWorking(places, all, roles);
  const step = Math.max(...ranks.map(({ lastStep }) => lastStep?.step ?? -1));
  const who = [
    ...placesTexts(places, all, ['was', 'were']),
    ...gone.map(({ rank, endedBy, until: heard }) => {
      const before = lengthText(until - heard);
      return endedBy === undefined
        ? `nothing was heard of rank ${rank} for the last ${before}`
        : `${endedBy} had ended rank ${rank} ${before} before`;
    }),
    ...(behind.length > gone.length ? [`${ranksText(behind)} did not come as far as the others`] : []),
    ...(working.length > 0 ? [`all waited but ${ranksText(working)}`] : []),
  ];
  const text = `no rank ended a step for ${lengthText(length)} before the end, after step ${step}: ${who.join('; ')}`;
  return { severity: 'alert', kind: 'hang', text, ranks: behind.length > 0 ? behind : working, from: last, until };
}

/** Most ranks ended after the training, and these went on for so long that they were ended. */
function leftOver(
  ranks: readonly OpenRank[],
  ended: NonNullable<OpenWorkSummary['ended']>,
  roles: OpenWorkSummary['roles'],
  until: TraceTime,
  least: number,
): ViewFinding | undefined {
  const length = until - ended.until;
  if (ranks.length === 0 || length < least || ranks.some(({ place }) => isOccasionalRole(roles.of(place?.phase?.name ?? ''))))
    return undefined;
  const of = ranks.map(({ rank }) => rank);
  const [by] = ranks.map(({ endedBy }) => endedBy);
  const text = `${ranksText(ended.ranks)} ended, and ${ranksText(of)} still ran ${lengthText(length)} later, until ${by ?? 'the end came'}`;
  return { severity: 'alert', kind: 'hang', text, ranks: of, from: ended.until, until };
}

const placesOf = (ranks: readonly OpenRank[]): ReadonlyMap<number, StepPlace> =>
  new Map(ranks.flatMap(({ rank, place }) => (place === undefined ? [] : [[rank, inStep(place)] as const])));

/** Whether those inside and those that never entered wait in two places; see `areElsewhere`. */
function isApart({ ranks, roles }: OpenWorkSummary, { inside, missing }: OpenCollective): boolean {
  const order = ranks.reduce<readonly string[]>((most, { phases: of }) => (of.length > most.length ? of : most), []);
  return areElsewhere(
    placesOf(ranks),
    inside.map(({ rank }) => rank),
    missing,
    order,
    roles,
  );
}

function apartText({ ranks }: OpenWorkSummary, { group, op, sequence, inside, missing }: OpenCollective, length: number): string {
  const name = collectiveText(op, group, sequence);
  const of = inOrder(inside);
  const where = placesTexts(placesOf(ranks), missing, ['is', 'are']).join('; ');
  return `${ranksText(of)} ${of.length === 1 ? 'is' : 'are'} inside of ${name} for ${lengthText(length)}; the others wait in another place: ${where}`;
}

function hangText({ group, op, sequence, inside, left, missing, unheard, differing, bytes }: OpenCollective, length: number): string {
  const name = collectiveText(op, group, sequence);
  const called = new Set(differing.map(({ rank }) => rank));
  const all = inOrder(inside);
  const same = all.filter((rank) => !called.has(rank));
  const alike = same.length > 0 ? same : all;
  const others = [
    ...(missing.length > 0 ? [`${ranksText(missing)} never entered it`] : []),
    ...(unheard.length > 0 ? [`nothing was heard of ${ranksText(unheard)}`] : []),
    ...(left.length > 0 ? [`${ranksText(left)} left it`] : []),
    ...differingTexts(differing, op, bytes),
  ];
  return `${ranksText(alike)} ${alike.length === 1 ? 'is' : 'are'} inside of ${name} for ${lengthText(length)}${others.length > 0 ? `; ${others.join(', ')}` : ''}`;
}

/** `rank 3 called broadcast instead`, `rank 2 called it with 96 bytes instead of 48`: by call, those of fewest ranks first. */
function differingTexts(differing: OpenCollective['differing'], op: string, bytes: number): string[] {
  const calls = new Map<string, number[]>();
  for (const other of differing) {
    const call = other.op === op ? `called it with ${other.bytes} bytes instead of ${bytes}` : `called ${other.op} instead`;
    calls.set(call, [...(calls.get(call) ?? []), other.rank]);
  }
  return [...calls].sort(([, a], [, b]) => a.length - b.length).map(([call, ranks]) => `${ranksText(ranks)} ${call}`);
}

const inOrder = (of: OpenCollective['inside']): number[] => of.map(({ rank }) => rank).sort((a, b) => a - b);

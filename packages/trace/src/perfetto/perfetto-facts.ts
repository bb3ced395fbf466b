// Facts about a run and its processes as names and values, for the instants of our writer that hold them. perfetto-own.ts reads them.

import type { Alignment, ProcessPlace, ProcessTotals, TraceHeader } from '../model/trace-sink.ts';

export type Facts = Readonly<Record<string, string | number | boolean | undefined>>;

/** The last reported place of a process. */
export function placeFacts(place: ProcessPlace | undefined): Facts {
  if (place === undefined) return {};
  const { step, phase, after, collective, entered } = place;
  return {
    'place.step': step,
    ...(phase && { 'place.phase': phase.name, 'place.phaseSince': phase.since }),
    'place.after': after,
    ...(collective && {
      'place.op': collective.op,
      'place.group': collective.group,
      'place.sequence': collective.sequence,
      'place.opSince': collective.since,
    }),
    ...prefixed('place.entered', Object.fromEntries(entered)),
  };
}

/** Parts pruned from the store behind the trace. */
export function prunedFacts(pruned: ProcessTotals['pruned']): Facts {
  if (pruned === undefined) return {};
  const parts = pruned.parts.map(({ what, steps, on }) => prefixed(`pruned.${what}`, { on, from: steps?.[0], to: steps?.[1] }));
  return Object.assign({}, ...parts, prefixed('pruned.events', pruned.events)) as Facts;
}

export const prefixed = (prefix: string, facts: Facts): Facts =>
  Object.fromEntries(Object.entries(facts).map(([key, value]) => [`${prefix}.${key}`, value]));

/** Most stretches written one by one. */
const stretchesMax = 64;

/** Clock steps, and the stretches in which events are shown later than the clock says: as text, because facts have no lists. */
export function clockFacts({ clockSteps = [], clockJumps = [], driftPpm, shifted = [] }: Alignment): Facts {
  const stretches = shifted.slice(0, stretchesMax).map(({ from, until, most }) => `${from}–${until} +${Math.ceil(most)}`);
  return {
    ...(clockSteps.length === 0 ? {} : { clockStepsNs: clockSteps.join(' ') }),
    ...(clockJumps.length === 0 ? {} : { clockJumpsNs: clockJumps.join(' ') }),
    ...(driftPpm === undefined ? {} : { driftPpm }),
    ...(shifted.length === 0 ? {} : { shiftedNs: stretches.join(' '), shiftedStretches: shifted.length }),
  };
}

/** Conflicts between clocks among the facts: JSON texts of time, slack, `isAtStep` and hosts; the largest ones of a run. */
export const conflictPrefix = 'clockConflict';
export const conflictsMax = 256;

/** The largest conflicts between clocks: they are the run's, and stand with its first process. */
export function conflictFacts(conflicts: TraceHeader['clockConflicts'] = []): Facts {
  const largest = conflicts.toSorted((a, b) => b.slack - a.slack).slice(0, conflictsMax);
  const texts = largest.map(({ time, slack, isAtStep, hosts }, at) => [String(at), JSON.stringify([time, slack, isAtStep, ...hosts])]);
  return prefixed(conflictPrefix, Object.fromEntries(texts));
}

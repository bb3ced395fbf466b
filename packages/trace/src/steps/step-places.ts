// Where ranks are in their steps, as they report it: who has come less far than the others, and who works while they wait.
//
//   phases      data │ forward │ backward │ optimizer
//   rank 0                      ▲ in backward
//   rank 1           ▲ after data: between it and the next one
//   rank 2     ▲ neither: before the step's first phase

import { isOccasionalRole, isWaitingRole } from '@ranktrace/protocol';
import { ranksText } from '../model/ranks-text.ts';
import { displayText } from '../model/shown-name.ts';
import type { ProcessPlace } from '../model/trace-sink.ts';
import type { PhaseRoles } from './phase-role.ts';
import { stepLimits as limits } from './step-limits.ts';

/** `after`: between phases, the last one of the step; with neither, no phase has begun. */
export interface StepPlace {
  readonly step: number;
  readonly phase?: string | undefined;
  readonly after?: string | undefined;
}

/** The reported place of a process, as one in its step. */
export const inStep = ({ step, phase, after }: ProcessPlace): StepPlace => ({ step, phase: phase?.name, after });

type Places = ReadonlyMap<number, StepPlace>;

/** `rank 2 is in forward of step 300`: groups ranks at one place, the first step first, and of one step the fewest ranks. `verbs`: for one rank, for several. */
export function placesTexts(places: Places, ranks: Iterable<number>, verbs: readonly [string, string]): string[] {
  const groups = new Map<string, { readonly step: number; readonly ranks: number[] }>();
  for (const rank of ranks) {
    const place = places.get(rank);
    if (place === undefined) continue;
    const after = place.phase === undefined && place.after !== undefined ? `, after ${nameText(place.after)}` : '';
    const where = `in ${place.phase === undefined ? '' : `${nameText(place.phase)} of `}step ${place.step}${after}`;
    const group = groups.get(where);
    if (group === undefined) groups.set(where, { step: place.step, ranks: [rank] });
    else group.ranks.push(rank);
  }
  for (const group of groups.values()) group.ranks.sort((a, b) => a - b);
  const sorted = [...groups]
    .sort(([, a], [, b]) => a.step - b.step || a.ranks.length - b.ranks.length || (a.ranks[0] as number) - (b.ranks[0] as number))
    .slice(0, limits.stepPlacesNamedMax);
  return sorted.map(([where, group]) => `${ranksText(group.ranks)} ${verbs[group.ranks.length === 1 ? 0 : 1]} ${where}`);
}

/**
 * The ranks that did not come as far as the others within a step, by the order of its phases: they wait for nobody, are few (`isFew`), and all places
 * are known. `phases`: those of a step in order; stages of a pipeline have other ones each.
 */
export function ranksBehind(places: Places, ranks: readonly number[], phases: readonly string[], roles: Pick<PhaseRoles, 'of'>): number[] {
  const all = ranks.map((rank) => ({ rank, at: placeIn(places.get(rank), phases) }));
  const first = Math.min(...all.map(({ at }) => at));
  const behind = all.flatMap(({ rank, at }) => (at === first ? [rank] : []));
  const isKnown = Number.isFinite(first) && isFew(behind.length, ranks.length);
  return isKnown && !behind.some((rank) => waits(places.get(rank), roles)) ? behind : [];
}

/** The ranks that are in no phase of waiting, where all others are in one: they are few (`isFew`), and all places are known. */
export function ranksWorking(places: Places, ranks: readonly number[], roles: Pick<PhaseRoles, 'of'>): number[] {
  const working = ranks.filter((rank) => !waits(places.get(rank), roles));
  return ranks.every((rank) => places.has(rank)) && isFew(working.length, ranks.length) ? working : [];
}

/**
 * Whether ranks that never entered a collective are not to blame for that, since those inside of it left the usual order: these are in no phase that steps
 * have, or in an earlier one, while the others are all in one usual phase of work, of the same step or of a later one.
 */
export function areElsewhere(
  places: Places,
  inside: readonly number[],
  missing: readonly number[],
  phases: readonly string[],
  roles: Pick<PhaseRoles, 'of'>,
): boolean {
  const [first] = missing.map((rank) => places.get(rank));
  const { phase, step } = first ?? {};
  if (step === undefined || phase === undefined || !phases.includes(phase)) return false;
  const role = roles.of(phase);
  if (role === 'data' || isOccasionalRole(role)) return false;
  const at = placeIn(first, phases);
  return (
    missing.every((rank) => places.get(rank)?.step === step && places.get(rank)?.phase === phase) &&
    inside.every((rank) => {
      const place = places.get(rank);
      const isUsual = place?.phase === undefined || phases.includes(place.phase);
      return place !== undefined && (isUsual ? placeIn(place, phases) < at : place.step <= step);
    })
  );
}

/** Less than half, or one of two: most ranks of a job are not wrong at once. */
const isFew = (count: number, of: number): boolean => 2 * count < of || (count === 1 && of === 2);

const waits = (place: StepPlace | undefined, roles: Pick<PhaseRoles, 'of'>): boolean => isWaitingRole(roles.of(place?.phase ?? ''));

/** Orders places by step, then by phase: a place after a phase is between it and the next one. NaN: it is not known. */
function placeIn(place: StepPlace | undefined, phases: readonly string[]): number {
  if (place === undefined || phases.length === 0) return Number.NaN;
  const name = place.phase ?? place.after;
  if (name === undefined) return place.step;
  const phase = phases.indexOf(name);
  return phase < 0 ? Number.NaN : place.step + (phase + (place.phase === undefined ? 0.75 : 0.25)) / phases.length;
}

const nameText = (name: string): string => displayText(name, nameCharsMax);
const nameCharsMax = 64;

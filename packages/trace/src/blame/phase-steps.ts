// Steps with only phase lengths known: ranks send no more outside recorded windows.
//
// Waits are inferred. A phase in which ranks meet lets the late catch up: it is a collective, or ranks come out of it much closer
// together than they went in. In such a phase the shortest rank shows the time without waiting; the others' excess, up to their lead at
// the start, is waiting for the rank that came last. A phase of waiting in which they do not come closer waits for unknown ranks.

import { isWaitingRole, type PhaseRole } from '@ranktrace/protocol';
import { median } from '../model/robust.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import type { BlameStep, Meeting, Piece, RankStep } from './blame-window.ts';
import type { RawRanks, RawStep } from './raw-steps.ts';

/** Ranks met in a phase if their distance at its end is at most this share of that at its start … */
const closerMax = 0.5;
/** … and that at the start was above this share of the step. */
const apartShareMin = 0.01;

/** `phases`: names; the last is the time outside all phases. `roles`: by phase. */
export function phaseSteps(
  raw: readonly RawRanks[],
  processes: readonly TraceProcess[],
  phases: readonly string[],
  roles: readonly PhaseRole[],
): BlameStep[] {
  const steps = raw.map(({ step, ranks }) => {
    const ops = processes.map(({ index }) => ranks.get(index)?.ops);
    return { step, ops, ranks: processes.map(({ index }) => lengthsOf(ranks.get(index) as RawStep, phases)) };
  });
  const meets = roles.map(
    (role, phase) =>
      role === 'collective' ||
      catchesUp(
        steps.map(({ ranks }) => ranks),
        phase,
      ),
  );
  return steps.map(({ step, ops, ranks }, index) => {
    const follows = index > 0 && steps[index - 1]?.step === step - 1;
    return { step, follows, ranks: withWaits(ranks, phases, roles, meets, processes).map((rank, at) => ({ ...rank, ops: ops[at] })) };
  });
}

interface Lengths {
  readonly length: number;
  readonly gap: number;
  /** By phase; they add up to `length`. */
  readonly phases: readonly number[];
}

function lengthsOf({ length, gap, phases: named }: RawStep, phases: readonly string[]): Lengths {
  const whole = Math.round(length);
  let left = whole;
  const lengths = phases.slice(0, -1).map((name) => {
    const taken = Math.min(left, Math.round(named?.get(name) ?? 0));
    left -= taken;
    return taken;
  });
  return { length: whole, gap, phases: [...lengths, left] };
}

function catchesUp(steps: readonly (readonly Lengths[])[], phase: number): boolean {
  const apart = (ranks: readonly Lengths[], until: number): number => {
    const reached = ranks.map(({ phases }) => phases.slice(0, until).reduce((sum, length) => sum + length, 0));
    return Math.max(...reached) - Math.min(...reached);
  };
  const before = median(steps.map((ranks) => apart(ranks, phase)));
  const after = median(steps.map((ranks) => apart(ranks, phase + 1)));
  const step = median(steps.map((ranks) => Math.max(0, ...ranks.map(({ length }) => length))));
  return before > apartShareMin * step && after < closerMax * before;
}

function withWaits(
  ranks: readonly Lengths[],
  phases: readonly string[],
  roles: readonly PhaseRole[],
  meets: readonly boolean[],
  processes: readonly TraceProcess[],
): RankStep[] {
  const pieces: Piece[][] = ranks.map(() => []);
  const reached = new Float64Array(ranks.length);
  for (const phase of phases.keys()) {
    const taken = ranks.map(({ phases: lengths }) => lengths[phase] as number);
    const shortest = Math.min(...taken);
    const last = reached.indexOf(Math.max(...reached));
    // In a collective, or while waiting, the shortest time is transfer; in another phase it is own work, and the wait comes after it.
    const isWaiting = isWaitingRole(roles[phase]);
    const name = phases[phase] as string;
    const transfer = isWaiting ? shortest : 0;
    const meeting: Meeting = { name, lastRank: processes[last]?.rank ?? -1, transfer, epsilon: undefined };
    for (const [rank, length] of taken.entries()) {
      const line = pieces[rank] as Piece[];
      if (meets[phase] !== true || ranks.length < 2) {
        if (length > 0) line.push({ kind: isWaiting ? 'unmatched' : 'own', phase, length });
        continue;
      }
      const ahead = (reached[last] as number) - (reached[rank] as number);
      const wait = Math.round(isWaiting ? length - shortest : Math.min(length - shortest, ahead));
      const own = isWaiting ? 0 : length - wait;
      if (own > 0) line.push({ kind: 'own', phase, length: own });
      line.push({ kind: 'enter', meeting });
      if (wait > 0) line.push({ kind: 'wait', phase, length: wait, meeting });
      if (transfer > 0) line.push({ kind: 'transfer', phase, length: transfer, meeting });
      line.push({ kind: 'leave', meeting, lag: 0 });
    }
    for (const [rank, length] of taken.entries()) reached[rank] = (reached[rank] as number) + length;
  }
  return ranks.map(({ length, gap }, rank) => ({ length, gap, pieces: pieces[rank] as Piece[] }));
}

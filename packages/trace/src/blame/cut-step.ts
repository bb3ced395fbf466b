// Cuts one rank's step into pieces: its phases and collectives, on one line, become the pieces of a `BlameWindow`.
//
//   step        ├──────────────────────────────────────────────────────────────┤
//   phases         ├─ data ─┤├──── forward ────┤├──────── backward ────────┤
//   collectives                                       ├───────────────┤
//                                                          ^ last entry of any rank
//   pieces      other│ data  │ forward         │ backward │w│transfer  │ backw.│other
//
// Where two collectives run at once (a send with a receive), waiting for the late one counts. Where phases overlap, a synchronous one holds the
// thread until it ends; else the one that began last counts, as in the lengths that ranks send (the SDK's step-phases.ts).

import { isWaitingRole, type PhaseRole } from '@ranktrace/protocol';
import type { Meeting, Piece } from './blame-window.ts';

/** A phase and its place; times in ns on the axis of `start`. */
export interface PlacedPhase {
  readonly phase: number;
  readonly from: number;
  readonly until: number;
  /** Whether the thread may do other work in it. Default: it may not. */
  readonly isAsync?: boolean;
}

/** A rank's part of a collective. */
export interface StepCollective {
  readonly entry: number;
  /** Undefined: still inside. */
  readonly exit: number | undefined;
  /** Undefined: the other ranks are unknown. */
  readonly meeting: Meeting | undefined;
  /** When it stopped waiting for the last rank. */
  readonly waitedUntil: number;
  /** How much later than the first rank it left; undefined: it left without waiting for the last. */
  readonly lag: number | undefined;
  /** The stretches with no other work, ascending; undefined: all of it. */
  readonly exposed: readonly (readonly [from: number, until: number])[] | undefined;
}

/** The pieces of the step [start, start + length]; their whole-ns lengths add up to `length`. */
export function cutStep(
  start: number,
  length: number,
  placed: readonly PlacedPhase[],
  collectives: readonly StepCollective[],
  otherPhase: number,
): Piece[] {
  const end = Math.round(length);
  const at = (time: number): number => Math.min(end, Math.max(0, Math.round(time - start)));
  const cuts = [0, end];
  for (const { from, until } of placed) cuts.push(at(from), at(until));
  for (const { entry, exit = Number.POSITIVE_INFINITY, waitedUntil, exposed } of collectives) {
    cuts.push(at(entry), at(exit), at(waitedUntil));
    for (const [from, until] of exposed ?? []) cuts.push(at(from), at(until));
  }
  const times = distinct(cuts.sort((a, b) => a - b));
  const entering = inOrder(collectives, (a, b) => a.entry - b.entry);
  const phases = inFront(inOrder(placed, (a, b) => a.from - b.from || b.until - a.until));
  const pieces: Piece[] = [];
  let active: StepCollective[] = [];
  let [nextEntry, nextPhase] = [0, 0];
  for (let index = 0; index < times.length; index++) {
    const from = times[index] as number;
    active = leaveAt(active, from, at, end, pieces, length + start);
    for (let next = entering[nextEntry]; next !== undefined && at(next.entry) <= from; next = entering[++nextEntry]) {
      if (next.entry >= start && next.meeting !== undefined && next.entry <= start + length)
        pieces.push({ kind: 'enter', meeting: next.meeting });
      active.push(next);
    }
    active = leaveAt(active, from, at, end, pieces, length + start);
    const until = times[index + 1];
    if (until === undefined) break;
    while (nextPhase < phases.length && at((phases[nextPhase] as PlacedPhase).until) <= from) nextPhase++;
    const candidate = phases[nextPhase];
    const phase = candidate !== undefined && at(candidate.from) <= from ? candidate.phase : otherPhase;
    addPiece(pieces, pieceOf(active, from, until - from, phase, at));
  }
  return pieces;
}

/** Leaves each value of a sorted array once. */
function distinct(sorted: number[]): readonly number[] {
  let count = 0;
  for (let at = 0; at < sorted.length; at++) if (at === 0 || sorted[at] !== sorted[count - 1]) sorted[count++] = sorted[at] as number;
  sorted.length = count;
  return sorted;
}

/** The items sorted: as they are, if they are in order, as recorded ones mostly are. */
function inOrder<Item>(items: readonly Item[], compare: (a: Item, b: Item) => number): readonly Item[] {
  for (let at = 1; at < items.length; at++) if (compare(items[at - 1] as Item, items[at] as Item) > 0) return items.toSorted(compare);
  return items;
}

/** The stretches of phases that count where some are asynchronous, one after the other. `phases`: sorted by start. */
function inFront(phases: readonly PlacedPhase[]): readonly PlacedPhase[] {
  if (!phases.some(({ isAsync }) => isAsync === true)) return phases;
  const times = distinct(phases.flatMap(({ from, until }) => [from, until]).sort((a, b) => a - b));
  const stretches: PlacedPhase[] = [];
  let running: PlacedPhase[] = [];
  let next = 0;
  for (const [index, from] of times.entries()) {
    running = running.filter(({ until }) => until > from);
    for (let phase = phases[next]; phase !== undefined && phase.from <= from; phase = phases[++next]) running.push(phase);
    const front = running.find(({ isAsync }) => isAsync !== true) ?? running.at(-1);
    if (front !== undefined) stretches.push({ phase: front.phase, from, until: times[index + 1] ?? from });
  }
  return stretches;
}

/** In a phase of waiting a rank does no work of its own, whether a collective was recorded there or not. `roles`: by phase. */
export const withoutWaiting = (pieces: readonly Piece[], roles: readonly PhaseRole[]): Piece[] =>
  pieces.map((piece) => (piece.kind === 'own' && isWaitingRole(roles[piece.phase]) ? { ...piece, kind: 'unmatched' } : piece));

/** The members of `active` still running at `time`. */
function leaveAt(
  active: StepCollective[],
  time: number,
  at: (time: number) => number,
  end: number,
  pieces: Piece[],
  stepEnd: number,
): StepCollective[] {
  if (active.length === 0) return active;
  return active.filter(({ exit, meeting, lag }) => {
    if (exit === undefined || at(exit) > time || (exit > stepEnd && time === end)) return true;
    if (meeting !== undefined && lag !== undefined) pieces.push({ kind: 'leave', meeting, lag });
    return false;
  });
}

function pieceOf(active: readonly StepCollective[], from: number, length: number, phase: number, at: (time: number) => number): Piece {
  let late: StepCollective | undefined;
  let inside: StepCollective | undefined;
  for (const collective of active) {
    if (!isExposed(collective, from, at)) continue;
    if (collective.meeting !== undefined && at(collective.waitedUntil) > from) {
      if (late === undefined || collective.waitedUntil > late.waitedUntil) late = collective;
    }
    if (inside === undefined || (inside.meeting === undefined && collective.meeting !== undefined)) inside = collective;
  }
  if (late?.meeting !== undefined) return { kind: 'wait', phase, length, meeting: late.meeting };
  if (inside === undefined) return { kind: 'own', phase, length };
  return inside.meeting === undefined ? { kind: 'unmatched', phase, length } : { kind: 'transfer', phase, length, meeting: inside.meeting };
}

const isExposed = ({ exposed }: StepCollective, time: number, at: (time: number) => number): boolean =>
  exposed === undefined || exposed.some(([from, until]) => at(from) <= time && time < at(until));

/** Adds a piece; merges adjacent pieces of one kind. */
function addPiece(pieces: Piece[], piece: Piece): void {
  const last = pieces.at(-1);
  if (last !== undefined && last.kind === 'own' && piece.kind === 'own' && last.phase === piece.phase) {
    pieces[pieces.length - 1] = { ...last, length: last.length + piece.length };
  } else pieces.push(piece);
}

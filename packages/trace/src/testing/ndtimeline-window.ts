// An NDTimeline recording as a window for blame, without batches and merge.

import { nanos, otherPhase, type PhaseRole } from '@ranktrace/protocol';
import type { BlameStep, BlameWindow } from '../blame/blame-window.ts';
import { cutStep, type PlacedPhase, type StepCollective, withoutWaiting } from '../blame/cut-step.ts';
import { meetingOf } from '../blame/meeting-of.ts';
import type { NdtimelineStep, NdtimelineWorker } from '../ndtimeline/ndtimeline-recording.ts';
import { phaseRoleOf } from '../steps/phase-role.ts';
import { readNdtimeline } from './ndtimeline-recording.ts';

/** The window of all steps in the text of a `trace-*.csv`. */
export function ndtimelineWindow(csv: string): BlameWindow {
  const { workers, types, steps } = readNdtimeline(csv);
  const phases = [...types, otherPhase];
  const numbers = new Map(phases.map((name, index) => [name, index]));
  const ranks = workers.map(({ rank, stage }) => ({ rank, host: `host ${rank}`, hostName: `host ${rank}`, peers: `stage ${stage}` }));
  const roles = phases.map(phaseRoleOf);
  const cut = steps.map((step) => stepOf(step, workers, numbers, roles));
  return { ranks, phases, roles, steps: cut, leftOut: 0, basis: 'pieces', alignment: { bound: 0, unaligned: [] } };
}

function stepOf(
  { step, ops, meetings }: NdtimelineStep,
  workers: readonly NdtimelineWorker[],
  phases: ReadonlyMap<string, number>,
  roles: readonly PhaseRole[],
): BlameStep {
  const collectives = workers.map((): StepCollective[] => []);
  for (const matched of meetings) {
    const met = meetingOf(matched, { epsilon: nanos(0) });
    for (const { part, waitedUntil, lag } of met?.parts ?? []) {
      const { entry, exit } = part;
      collectives[part.member]?.push({ entry, exit, meeting: met?.meeting, waitedUntil, lag, exposed: undefined });
    }
  }
  const other = phases.get(otherPhase) as number;
  const ranks = workers.map((_, worker) => {
    const own = ops.filter((op) => op.worker === worker);
    const length = Math.max(...own.map(({ until }) => until));
    const placed = own.map(({ type, from, until }): PlacedPhase => ({ phase: phases.get(type) as number, from, until }));
    const pieces = cutStep(0, length, placed, collectives[worker] ?? [], other);
    return { length: nanos(length), gap: 0, pieces: withoutWaiting(pieces, roles) };
  });
  return { step, follows: false, ranks };
}

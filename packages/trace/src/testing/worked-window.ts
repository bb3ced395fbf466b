// Windows for tests of blame, written as each rank's work in a step, in ms:
//
//   'data 4, forward 5, all_reduce 1, optimizer 2'      a collective's name is a meeting of all ranks, with the time of its transfer
//
// Waits follow from that: a meeting's transfer begins when the last rank has come.

import { collectiveKind, otherPhase } from '@ranktrace/protocol';
import type { BlameRank, BlameWindow, Meeting, Piece } from '../blame/blame-window.ts';
import { phaseRoleOf } from '../steps/phase-role.ts';

const nanosPerMs = 1e6;

export interface WorkedOptions {
  readonly steps?: number;
  /** Fields of every rank; default one host, all peers. */
  readonly about?: (rank: number) => Partial<BlameRank>;
  /** Length of `phase` of `rank` in `step`, ms; the line gives `ms`. */
  readonly length?: (ms: number, rank: number, phase: string, step: number) => number;
  /** ± ns of the meetings. */
  readonly epsilon?: number | undefined;
}

/** `lines`: one per rank, with the same meetings in the same order. */
export function workedWindow(lines: readonly string[], options: WorkedOptions = {}): BlameWindow {
  const { steps = 10, about = () => ({}), length = (ms: number) => ms } = options;
  const epsilon = 'epsilon' in options ? options.epsilon : 0;
  const work = lines.map((line) =>
    line.split(', ').map((part) => ({ name: part.split(' ')[0] as string, ms: Number(part.split(' ')[1]) })),
  );
  const phases = [...new Set(work.flatMap((parts) => parts.map(({ name }) => name)))].filter((name) => name !== otherPhase);
  const names = [...phases, otherPhase];
  const made = Array.from({ length: steps }, (_, step) => {
    const pieces = work.map((): Piece[] => []);
    const clocks = work.map(() => 0);
    const places = work.map(() => 0);
    for (;;) {
      for (const [rank, parts] of work.entries()) {
        for (let part = parts[places[rank] as number]; part !== undefined && collectiveKind(part.name) === undefined; ) {
          const spent = Math.round(length(part.ms, rank, part.name, step) * nanosPerMs);
          pieces[rank]?.push({ kind: 'own', phase: names.indexOf(part.name), length: spent });
          clocks[rank] = (clocks[rank] as number) + spent;
          places[rank] = (places[rank] as number) + 1;
          part = parts[places[rank] as number];
        }
      }
      const next = work[0]?.[places[0] as number];
      if (next === undefined) break;
      const last = Math.max(...clocks);
      const transfer = next.ms * nanosPerMs;
      const meeting: Meeting = { name: `${next.name} world`, lastRank: clocks.indexOf(last), transfer, epsilon };
      const phase = names.indexOf(next.name);
      for (const [rank, line] of pieces.entries()) {
        line.push({ kind: 'enter', meeting });
        const wait = last - (clocks[rank] as number);
        if (wait > 0) line.push({ kind: 'wait', phase, length: wait, meeting });
        line.push({ kind: 'transfer', phase, length: transfer, meeting }, { kind: 'leave', meeting, lag: 0 });
        clocks[rank] = last + transfer;
        places[rank] = (places[rank] as number) + 1;
      }
    }
    return { step, follows: false, ranks: pieces.map((line, rank) => ({ length: clocks[rank] as number, gap: 0, pieces: line })) };
  });
  const ranks = work.map((_, rank): BlameRank => ({ rank, host: 'host', hostName: 'host', peers: '', ...about(rank) }));
  return {
    ranks,
    phases: names,
    roles: names.map(phaseRoleOf),
    steps: made,
    leftOut: 0,
    basis: 'pieces',
    alignment: { bound: 0, unaligned: [] },
  };
}

import { expect } from 'vitest';
import type { Blame } from '../blame/blame.ts';
import type { BlameWindow, RankStep } from '../blame/blame-window.ts';
import { StepBlameSink } from '../blame/step-blame-sink.ts';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { ndtimelineBatches } from './ndtimeline-batches.ts';
import { ndtimelineWindow } from './ndtimeline-window.ts';

/** The parts of a rank's step add up to it, exactly. */
export function expectExactParts({ breakdown }: Blame): void {
  for (const { step, own, waits, transfer, unmatched, other } of breakdown) {
    const parts = [...own.values(), ...waits.map(({ length }) => length), transfer, unmatched, other];
    expect(parts.reduce((sum, length) => sum + length, 0)).toBe(step);
  }
}

const piecesOf = ({ phases }: BlameWindow, { pieces }: RankStep): string[] =>
  pieces.map((piece) => ('length' in piece ? `${piece.kind} ${phases[piece.phase]} ${piece.length}` : piece.kind));

/** Expects that `csv`'s batches, as NDTimeline's workers would have sent them, merge into the same pieces as the recording itself. */
export function expectSamePieces(csv: string): void {
  const all = ndtimelineBatches(csv, 'job');
  const sources = Array.from({ length: all[0]?.header.worldSize ?? 0 }, (_, rank): BatchSource => {
    const batches = all.filter(({ header }) => header.rank === rank);
    return { rank, incarnation: '0001', count: batches.length, missing: 0, batch: (index) => batches[index] };
  });
  const sink = new StepBlameSink();
  for (const _ of mergeRun(sources, sink));
  const direct = ndtimelineWindow(csv);
  const { window } = sink;
  expect(window.steps.map(({ step }) => step)).toEqual(direct.steps.map(({ step }) => step));
  for (const [index, { ranks }] of window.steps.entries()) {
    const expected = direct.steps[index]?.ranks.map((rank) => piecesOf(direct, rank));
    expect(ranks.map((rank) => piecesOf(window, rank))).toEqual(expected);
  }
}

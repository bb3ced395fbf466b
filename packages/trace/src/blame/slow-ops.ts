// The ops that make a rank work longer in a phase than its peers: a finding's second line, and the only detail for `other`.

import { evidenceLength as ms } from '../model/quantity-text.ts';
import { deviation, mean, median } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';
import type { OpTimes } from './op-times.ts';
import { OwnWork } from './own-work.ts';

/** Ops named in one sentence. */
const opsNamed = 3;
/** An op is named if it has this share of the rank's excess, … */
const shareMin = 0.15;
/** … and exceeds this many errors of its mean. */
const errorsMin = 4;
/** Fewest steps with ops of the rank and of its peers. */
const stepsMin = 3;
const nameCharsMax = 80;

/** A sentence on the ops in which the first of `named` (rank numbers) takes longer in `phase` than its peers; none without ops. */
export function slowOps(window: BlameWindow, named: readonly number[], phase: string | undefined, own = new OwnWork(window)): string[] {
  const { ranks, phases, steps, opAt } = window;
  const rank = ranks.findIndex((one) => one.rank === named[0]);
  const place = phases.indexOf(phase ?? '');
  const peers = [...ranks.keys()].filter((at) => ranks[at]?.peers === ranks[rank]?.peers && !named.includes(ranks[at]?.rank ?? -1));
  if (opAt === undefined || rank < 0 || place < 0 || peers.length === 0) return [];
  const withOps = steps.filter((step) => [rank, ...peers].every((at) => step.ranks[at]?.ops !== undefined));
  if (withOps.length < stepsMin) return [];
  const [more = new Float64Array()] = own.moreThanPeers([rank, ...peers], place);
  const excess = mean(withOps.map((step) => more[steps.indexOf(step)] as number));
  const opsOf = (step: BlameWindow['steps'][number], at: number): OpTimes => step.ranks[at]?.ops as OpTimes;
  const ops = new Set(withOps.flatMap((step) => [...opsOf(step, rank).ops]).filter((op) => opAt(op)?.phase === phase));
  const found = [...ops].flatMap((op) => {
    const usual = withOps.map((step) => median(peers.map((peer) => lengthOf(opsOf(step, peer), op))));
    const lengths = withOps.map((step) => lengthOf(opsOf(step, rank), op));
    const more = Float64Array.from(lengths, (length, at) => length - (usual[at] as number));
    const [longer, error] = [mean(more), deviation(more) / Math.sqrt(more.length)];
    return longer >= shareMin * excess && longer > errorsMin * error ? [{ op, longer, length: mean(lengths), usual: mean(usual) }] : [];
  });
  if (excess <= 0 || found.length === 0) return [];
  const text = found
    .sort((a, b) => b.longer - a.longer)
    .slice(0, opsNamed)
    .map(({ op, longer, length, usual }) => `${cut(opAt(op)?.name ?? '')} ${ms(longer)} (${ms(length)} against ${ms(usual)})`);
  return [`ops in ${phase} in which rank ${named[0]} takes longer than its peers, per step: ${text.join(', ')}`];
}

function lengthOf({ ops, lengths }: OpTimes, op: number): number {
  const at = ops.indexOf(op);
  return at < 0 ? 0 : (lengths[at] as number);
}

const cut = (name: string): string => (name.length <= nameCharsMax ? name : `${name.slice(0, nameCharsMax - 1)}…`);

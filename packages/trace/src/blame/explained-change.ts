// How much of the steps' change is explained, in sentences with figures that add up: each is rounded once, to hundredths of a ms, and the
// rest is the difference of rounded figures.
//
//   rank 1 works 52.60 ms more per step: 62.55 ms more in forward, 9.95 ms less in other phases
//   steps are 49.00 ms longer: 52.60 ms by that, 0.40 ms by transfers, −4.00 ms not explained

/** A cause of longer steps (below 0: shorter), and by how many ns. */
export type ChangePart = readonly [by: string, length: number];

/** `length` and `inPhase`: ns per step that `who` works more than before in total, and in `phase`. */
export function workText(who: string, length: number, phase: string, inPhase: number): string {
  const [all, part] = [hundredths(length), hundredths(inPhase)];
  const total = `${who} ${moreText(all)} per step`;
  // A part larger than the whole has no share of it.
  if (part * Math.sign(all) >= 0 && Math.abs(part) <= Math.abs(all)) return `${total}, ${text(Math.abs(part))} of it in ${phase}`;
  return `${total}: ${moreText(part)} in ${phase}, ${moreText(all - part)} in other phases`;
}

/** The parts of `change`, ns, and the rest. Parts that round to nothing are left out. `subject`: whose change it is. */
export function explainedText(change: number, parts: readonly ChangePart[], subject = 'steps are'): string {
  const all = hundredths(change);
  const sign = all < 0 ? -1 : 1;
  const known = parts.map(([by, length]) => [by, sign * hundredths(length)] as const).filter(([, length]) => length !== 0);
  const left = known.reduce((rest, [, length]) => rest - length, sign * all);
  const said = known.map(([by, length]) => `${text(length)} by ${by}`);
  const what = `${subject} ${text(Math.abs(all))} ${all < 0 ? 'shorter' : 'longer'}`;
  if (said.length === 0) return `${what}: none of it is explained`;
  return `${what}: ${[...said, ...(left === 0 ? [] : [`${text(left)} not explained`])].join(', ')}`;
}

const hundredths = (ns: number): number => Math.round(ns / 1e4);
const text = (length: number): string => `${length < 0 ? '−' : ''}${(Math.abs(length) / 100).toFixed(2)} ms`;
const moreText = (length: number): string => `${text(Math.abs(length))} ${length < 0 ? 'less' : 'more'}`;

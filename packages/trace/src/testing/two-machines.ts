// Messages between two machines with known clocks.
//
//   other's clock
//     │            ╱ · out: received later than the line says      The line is the truth. At both ends lies a message of either direction that
//     │     ·    ╱                                                 took exactly `delayNs`, and none took less: of all lines between the two
//     │ ·      ╱   ·                                               clouds, the flattest and the steepest pass through these four, so their
//     │      ╱  ·                                                  mean is the truth itself, to the last digit.
//     │ ·  ╱        · back: sent earlier than the line says
//     └───────────────────────── reference's clock

import { Random } from '../simulate/random.ts';

/** ns of each side's clock since 1970. */
export interface MachineMessage {
  readonly sender: 'reference' | 'other';
  readonly sent: bigint;
  readonly received: bigint;
}

export interface TwoMachines {
  /** In the order in which they were sent, by the reference's clock. */
  readonly messages: readonly MachineMessage[];
  /** The other's clock shows `epochs.other` when the reference's shows `epochs.reference`, and runs `ppm` fast. */
  readonly epochs: { readonly reference: bigint; readonly other: bigint };
  readonly ppm: number;
  /** The other's clock, ns after its epoch, by the reference's, ns after its own. */
  otherAt(reference: number): number;
}

export interface TwoMachinesOptions {
  readonly seed: number;
  readonly ppm: number;
  /** Even, at least 4; default 46. */
  readonly count?: number;
  /** Default 20. */
  readonly seconds?: number;
  /** The shortest message time; default 60 µs. */
  readonly delayNs?: number;
}

/** Makes the messages. Whole seconds are whole ns on either clock. */
export function twoMachines({ seed, ppm, count = 46, seconds = 20, delayNs = 60_000 }: TwoMachinesOptions): TwoMachines {
  const random = new Random(seed, 'messages');
  const epochs = { reference: 1_700_000_000_000_000_000n, other: 1_700_000_004_321_098_765n };
  const otherAt = (reference: number): number => reference + Math.round((reference * ppm) / 1e6);
  // The first two and the last two meet at the same moment of the reference's clock.
  const ends = [0, 0, seconds * 1e9, seconds * 1e9];
  const times = [...ends, ...Array.from({ length: count - ends.length }, () => random.whole(seconds * 1e9))];
  const messages = times.map((reference, index): MachineMessage & { readonly at: number } => {
    const took = delayNs + (index < ends.length ? 0 : 1 + Math.round(random.exponential(2 * delayNs)));
    const here = epochs.reference + BigInt(reference);
    const there = epochs.other + BigInt(otherAt(reference));
    const isOut = index % 2 === 0;
    return isOut
      ? { sender: 'reference', sent: here, received: there + BigInt(took), at: reference }
      : { sender: 'other', sent: there - BigInt(took), received: here, at: reference - took };
  });
  const inOrder = messages.sort((a, b) => a.at - b.at).map(({ sender, sent, received }) => ({ sender, sent, received }));
  return { messages: inOrder, epochs, ppm, otherAt };
}

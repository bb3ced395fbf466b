// Ways to do the same thing, measured in turns: a slow moment of the machine falls on all of them, so that their ratio holds on a busy one.
//
//   round 1: baseline, subject │ round 2: baseline, subject │ …      each way's result is its median over the rounds

import { median } from './figure.ts';

/** One turn of each way a round; each gives its own measure of the turn (ms, events/s). The order of the ways is the order of the turns. */
export async function inTurns<Way extends string>(
  rounds: number,
  ways: Readonly<Record<Way, (round: number) => number | Promise<number>>>,
): Promise<Record<Way, number>> {
  const names = Object.keys(ways) as Way[];
  const measured = new Map<Way, number[]>(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const name of names) measured.get(name)?.push(await ways[name](round));
  }
  return Object.fromEntries([...measured].map(([name, values]) => [name, median(values)])) as Record<Way, number>;
}

/** Reports the progress of a benchmark on stderr. */
export function progress(text: string): void {
  process.stderr.write(`bench: ${text}\n`);
}

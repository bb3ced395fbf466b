// The agreement of change points with those that people marked: F1 and cover as the Turing change-point benchmark defines them (van den Burg and
// Williams 2020, §3): https://arxiv.org/abs/2003.06222.

/** Change points of each person who marked the series: the first index of each new piece. */
export type Annotations = Readonly<Record<string, readonly number[]>>;

/** Indices that near count as the same. */
const margin = 5;

/** Precision over the marks of all people, recall averaged over people; the beginning counts as a change point. */
export function changeF1(found: readonly number[], annotations: Annotations): number {
  const said = withStart(found);
  const people = Object.values(annotations).map(withStart);
  const anybody = [...new Set(people.flat())];
  const precision = matches(anybody, said) / said.length;
  const recall = people.reduce((sum, marked) => sum + matches(marked, said) / marked.length, 0) / people.length;
  return precision + recall === 0 ? 0 : (2 * precision * recall) / (precision + recall);
}

/** How well the pieces cover those of each person (Jaccard, weighted by length), averaged over people. */
export function changeCover(found: readonly number[], annotations: Annotations, length: number): number {
  const pieces = piecesOf(found, length);
  const people = Object.values(annotations);
  const coverOf = (marked: readonly number[]): number => {
    let covered = 0;
    for (const [from, to] of piecesOf(marked, length)) {
      const best = Math.max(
        ...pieces.map(([otherFrom, otherTo]) => {
          const common = Math.max(0, Math.min(to, otherTo) - Math.max(from, otherFrom));
          return common / (to - from + otherTo - otherFrom - common);
        }),
      );
      covered += (to - from) * best;
    }
    return covered / length;
  };
  return people.reduce((sum, marked) => sum + coverOf(marked), 0) / people.length;
}

const withStart = (changes: readonly number[]): number[] => [...new Set([0, ...changes])].sort((a, b) => a - b);

/** The number of `marked` that have one of `said` of their own near. */
function matches(marked: readonly number[], said: readonly number[]): number {
  const free = new Set(said);
  let count = 0;
  for (const point of [...marked].sort((a, b) => a - b)) {
    const near = [...free].filter((one) => Math.abs(one - point) <= margin).sort((a, b) => Math.abs(a - point) - Math.abs(b - point))[0];
    if (near === undefined) continue;
    free.delete(near);
    count++;
  }
  return count;
}

function piecesOf(changes: readonly number[], length: number): [from: number, to: number][] {
  const starts = withStart(changes).filter((start) => start < length);
  return starts.map((start, at) => [start, starts[at + 1] ?? length]);
}

// The attempts of a job: which lives of different ranks ran together.
//
//   rank 0   ├ life 1 ┤     ├ life 2 ┤
//   rank 1    ├ life 1 ┤     ├ life 2 ┤       attempts 0 and 1
//   rank 2   ├ life 1 ┤                       only in attempt 0
//
// Hosts' clocks may be further apart than two attempts: where all ranks have as many lives, these are paired in order, whatever their times. Where a job
// went on with more or fewer ranks, a life is of an attempt of its size.

/** One life of a rank; times in ns, on clocks that agree to about a minute. */
export interface RankLife {
  readonly rank: number;
  readonly from: number;
  readonly until: number;
  /** Ranks of its job; undefined where it is not stated. */
  readonly size?: number | undefined;
}

/** The attempt of each life, in their order: 0 for the first. Of two lives of a rank, the later has the greater. */
export function attemptsOf(lives: readonly RankLife[]): readonly number[] {
  const byRank = new Map<number, RankLife[]>();
  for (const life of lives) {
    const ofRank = byRank.get(life.rank);
    if (ofRank === undefined) byRank.set(life.rank, [life]);
    else ofRank.push(life);
  }
  let most: readonly RankLife[] = [];
  for (const ofRank of byRank.values()) {
    ofRank.sort((a, b) => a.from - b.from || a.until - b.until);
    if (ofRank.length > most.length) most = ofRank;
  }
  const attempts = new Map<RankLife, number>();
  for (const ofRank of byRank.values()) {
    for (const [at, life] of ofRank.entries()) {
      const left = ofRank.length - at;
      const [least, last] = [at === 0 ? 0 : (attempts.get(ofRank[at - 1] as RankLife) as number) + 1, most.length - left];
      attempts.set(life, nearest(most, life, least, last));
    }
  }
  return lives.map((life) => attempts.get(life) as number);
}

/** The place from `least` to `last` of the life that `life` overlaps most, or is least apart from: of one of its size, where there is one. */
function nearest(lives: readonly RankLife[], { from, until, size }: RankLife, least: number, last: number): number {
  let best = least;
  let most = { isOfSize: false, overlap: Number.NEGATIVE_INFINITY };
  for (let at = least; at <= last; at++) {
    const other = lives[at] as RankLife;
    const isOfSize = size !== undefined && size === other.size;
    const overlap = Math.min(until, other.until) - Math.max(from, other.from);
    if (isOfSize === most.isOfSize ? overlap > most.overlap : isOfSize) [best, most] = [at, { isOfSize, overlap }];
  }
  return best;
}

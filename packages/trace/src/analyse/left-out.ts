// The data of a file that no source took over, in words: for a notice, and for the finding `left_out`.

export interface LeftOutCounts {
  readonly malformed: number;
  readonly otherKinds: number;
  readonly arguments: number;
  readonly metadata: number;
  /** Since they are counted. */
  readonly values?: number;
  readonly broken?: number;
  readonly flows?: number;
  readonly rest?: number;
  /** Of NCCL Inspector. */
  readonly untimed?: number;
  readonly lost?: number;
}

/** '' if nothing was left out. */
export function leftOutText({
  malformed,
  otherKinds,
  arguments: args,
  metadata,
  values = 0,
  broken = 0,
  flows = 0,
  rest = 0,
  untimed = 0,
  lost = 0,
}: LeftOutCounts): string {
  const parts = [
    [malformed, 'events without a usable name, process, time or length (one without its begin or its end has none)'],
    [otherKinds, 'events of a kind that torch does not write'],
    [args, 'events that lost their arguments, for there are too many different ones'],
    [metadata, 'entries beside the events, for they are too large or no JSON'],
    [values, 'arguments that are no JSON (such as NaN) or nest too deep'],
    [broken, 'places that are no JSON, each with the event around it'],
    [flows, 'ends of arrows at which no event begins'],
    [rest, 'ends of files, which are cut off or broken'],
    [untimed, 'operations without times (NCCL_INSPECTOR_DUMP_VERBOSE=1 records them)'],
    [lost, 'operations that NCCL Inspector lost: other ranks have them, or it counts them'],
  ] as const;
  return parts
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${count} ${what}`)
    .join(', ');
}

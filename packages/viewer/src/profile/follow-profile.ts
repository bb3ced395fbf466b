// The tables of a run or of one rank, asked for again until the analysis has covered everything, now and then while the run goes on, and when it has
// grown after that.
//
//   null for a rank ──► the tables of all are asked for, too: if they are there, the rank has none; else the run is not analysed yet

import { computed, effect } from '@preact/signals';
import type { RunModel, RunProfile } from '@ranktrace/protocol';
import type { RunClient } from '../client/run-client.ts';
import { isReading } from '../overview/reading.ts';

export interface ProfileAnswer {
  /** Undefined until there are tables; after a change of the rank, those before until the new ones arrive. */
  readonly profile: RunProfile | undefined;
  /** A rank that has no tables, and those that have. */
  readonly absent: { readonly rank: number; readonly others: readonly number[] } | undefined;
  readonly problem: string | undefined;
}

const unanalysedMs = 2000;
const liveMs = 10_000;

const isGrowing = (model: RunModel | undefined): boolean => model !== undefined && (model.live || isReading(model));

/** Reports changes of the answer until the returned function is called. */
export function followProfile(
  client: Pick<RunClient, 'model' | 'profile'>,
  rank: number | undefined,
  report: (change: Partial<ProfileAnswer>) => void,
): () => void {
  let own = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const ask = async (signal: AbortSignal): Promise<void> => {
    let isWhole = false;
    try {
      const profile = await client.profile(rank, { signal });
      const ofAll = profile === null && rank !== undefined ? await client.profile(undefined, { signal }) : null;
      if (signal.aborted) return;
      if (profile !== null) report({ profile, absent: undefined, problem: undefined });
      else if (ofAll !== null && rank !== undefined)
        report({ profile: undefined, absent: { rank, others: ofAll.ranks }, problem: undefined });
      isWhole = (profile ?? ofAll)?.analysed === true;
    } catch (error) {
      if (signal.aborted) return;
      report({ problem: (error as Error).message });
    }
    const goesOn = isGrowing(client.model.peek());
    if (!isWhole || goesOn) timer = setTimeout(() => void ask(signal), goesOn && isWhole ? liveMs : unanalysedMs);
  };
  // The page may be opened at its address, before the run is. While a run grows, asking again and again is enough.
  const state = computed(() => {
    const model = client.model.value;
    return model && `${model.epoch} ${isGrowing(model) ? 'grows' : model.total}`;
  });
  const giveUp = (): void => {
    own.abort();
    clearTimeout(timer);
  };
  const stop = effect(() => {
    giveUp();
    if (state.value === undefined) return;
    own = new AbortController();
    void ask(own.signal);
  });
  return () => {
    stop();
    giveUp();
  };
}

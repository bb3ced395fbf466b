// The tables of a run or of one rank, asked for again until the analysis has covered everything, and now and then while the run goes on.

import type { RunProfile } from '@ranktrace/protocol';
import { useEffect, useState } from 'preact/hooks';
import type { RunClient } from '../client/run-client.ts';

export interface ProfileAnswer {
  /** Undefined until there are tables; after a change of the rank, those before until the new ones arrive. */
  readonly profile: RunProfile | undefined;
  readonly problem: string | undefined;
}

const unanalysedMs = 2000;
const liveMs = 10_000;

export function useProfile(client: RunClient, rank: number | undefined): ProfileAnswer {
  const [answer, setAnswer] = useState<ProfileAnswer>({ profile: undefined, problem: undefined });
  // The page may be opened at its address, before the run is.
  const isOpen = client.model.value !== undefined;
  useEffect(() => {
    if (!isOpen) return;
    const own = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      let isWhole = false;
      try {
        const profile = await client.profile(rank, { signal: own.signal });
        if (own.signal.aborted) return;
        if (profile !== null) setAnswer({ profile, problem: undefined });
        isWhole = profile?.analysed === true;
      } catch (error) {
        if (own.signal.aborted) return;
        setAnswer((before) => ({ ...before, problem: (error as Error).message }));
      }
      const isLive = client.model.peek()?.live === true;
      if (!isWhole || isLive) timer = setTimeout(() => void ask(), isLive && isWhole ? liveMs : unanalysedMs);
    };
    void ask();
    return () => {
      own.abort();
      clearTimeout(timer);
    };
  }, [client, rank, isOpen]);
  return answer;
}

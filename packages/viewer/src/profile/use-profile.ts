// followProfile for a component.

import { useEffect, useState } from 'preact/hooks';
import type { RunClient } from '../client/run-client.ts';
import { followProfile, type ProfileAnswer } from './follow-profile.ts';

export function useProfile(client: RunClient, rank: number | undefined): ProfileAnswer {
  const [answer, setAnswer] = useState<ProfileAnswer>({ profile: undefined, absent: undefined, problem: undefined });
  useEffect(() => followProfile(client, rank, (change) => setAnswer((before) => ({ ...before, ...change }))), [client, rank]);
  return answer;
}

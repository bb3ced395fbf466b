// Two machines' messages as their ranks' shared events, and clocks fitted to them.

import { ClockCoupling } from '../align/clock-coupling.ts';
import type { ClockEvidence, SharedEvents } from '../align/clock-evidence.ts';
import { ClusterClocks } from '../align/fit-clocks.ts';

const noEvents: SharedEvents = {
  collectives: new Map(),
  clients: new Map(),
  servers: new Map(),
  sends: new Map(),
  receives: new Map(),
  steps: new Map(),
};

/** A rank on a host of its own, without pings; times are ns after `epoch`, until `until`. */
export const rankWithout = (rank: number, shared: Partial<SharedEvents>, epoch = 0n, until = 10e9): ClockEvidence => ({
  ...{ rank, host: `host ${rank}`, epoch, samples: [], wallClock: undefined, until },
  shared: { ...noEvents, ...shared },
});

/** Ranks 0 and 1; ns after the epoch of each side's clock. */
export interface SharedMessage {
  readonly from: number;
  readonly sent: number;
  readonly to: number;
  readonly received: number;
}

/** The clocks of two ranks that share only `messages`: fitted independently, and coupled by them. */
export function messageClocks(messages: readonly SharedMessage[], epochs: readonly bigint[]) {
  const keyed = messages.map((message, index) => ({ key: `${index}`, ...message }));
  const ranks = epochs.map((epoch, rank) =>
    rankWithout(
      rank,
      {
        sends: new Map(keyed.filter(({ from }) => from === rank).map(({ key, sent }) => [key, sent])),
        receives: new Map(keyed.filter(({ to }) => to === rank).map(({ key, received }) => [key, received])),
      },
      epoch,
      Math.max(...messages.flatMap(({ sent, received }) => [sent, received])),
    ),
  );
  const clocks = new ClusterClocks(ranks);
  const coupling = new ClockCoupling(clocks.coupled);
  const alone = clocks.fitted().clocks;
  const placed = messages
    .map(({ from, to, sent, received }) => ({
      ...{ from, to },
      ...{ sent: alone[from]?.clock.toTrace(sent) ?? 0, received: alone[to]?.clock.toTrace(received) ?? 0 },
    }))
    .sort((a, b) => a.sent - b.sent);
  for (const { from, sent, to, received } of placed) coupling.message(from, sent, to, received);
  coupling.end();
  const { clocks: fitted } = clocks.fitted(coupling);
  const toTrace = (rank: number, time: number): number => fitted[rank]?.clock.toTrace(time) ?? 0;
  return {
    methods: alone.map(({ model }) => model.alignment.method),
    conflicts: coupling.conflicts,
    refuted: coupling.refuted,
    toTrace,
    bound: fitted[1]?.model.alignment.bound,
    /** Number of messages received after they were sent. */
    inOrder: messages.filter(({ from, sent, to, received }) => toTrace(from, sent) <= toTrace(to, received)).length,
  };
}

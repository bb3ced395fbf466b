import {
  type ControlMessage,
  controlMessageSchema,
  createEventTables,
  decodeBatch,
  decodeMessage,
  encodeBatch,
  encodeMessage,
  limits as protocolLimits,
  recorderKey,
  type WindowAnswer,
  windowKey,
} from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { LiveState } from '../live/live-state.ts';
import { inflate } from '../model/inflate.ts';
import { makeHeader } from '../testing/make-batch.ts';
import { recordWindow } from './record-window.ts';

/** Ranks that answer each request at once: with the ends of their groups until each of these has a cut, then as shipped. */
function ranksWith(groupsOf: (rank: number) => readonly string[], rankCount: number) {
  const live = new LiveState();
  const sequences = new Map<number, number>();
  const says = (rank: number, key: string, value: string): void => {
    const sequence = sequences.get(rank) ?? 0;
    sequences.set(rank, sequence + 1);
    const tables = createEventTables();
    tables.metadata.append({ key: 1, value: 2 });
    const bytes = encodeBatch({ header: makeHeader({ rank, sequence }), strings: ['', key, value], tables }, (body) => body);
    live.update(decodeBatch(bytes, inflate), { batches: sequence + 1, missing: 0, isLatest: true });
  };
  const ranks = Array.from({ length: rankCount }, (_, rank) => ({ rank, cuts: new Map<string, number>() }));
  for (const { rank } of ranks) says(rank, recorderKey, 'kineto');
  const broadcast = (sent: ControlMessage): void => {
    const message = decodeMessage(controlMessageSchema, encodeMessage(sent));
    if (message.type !== 'record_window') throw new Error(`Not a window: ${message.type}`);
    for (const { rank, cuts } of ranks) {
      for (const [group, cut] of message.cuts ?? []) cuts.set(group, cut);
      const groups = groupsOf(rank);
      const isAgreed = groups.every((group) => cuts.has(group));
      const ends = groups.map((group): [string, number[]] => [group, [1e9, 2e9, 5e9]]);
      const answer: WindowAnswer = isAgreed ? { id: message.id, state: 'shipped' } : { id: message.id, state: 'read', ends };
      says(rank, windowKey, JSON.stringify(answer));
    }
  };
  return { ranks, parts: { live, broadcast, silenceMsMax: 60_000 } };
}

test.each([
  ['many groups, each in two ranks', 16, (rank: number) => Array.from({ length: 16 }, (_, at) => `pair ${rank >> 1} of axis ${at}`)],
  ['a group whose name is as long as a fact lets it', 40, (rank: number) => [`${'"'.repeat(1900)}${rank}`]],
])('ranks get the cuts of all their groups, in messages that agents can read: %s', async (_, rankCount, groupsOf) => {
  const { ranks, parts } = ranksWith(groupsOf, rankCount);
  const { answers } = await recordWindow(parts, 'demo', 1000, AbortSignal.timeout(60_000));
  expect([...answers.values()].map(({ state }) => state)).toEqual(ranks.map(() => 'shipped'));
  const groups = new Set(ranks.flatMap(({ rank }) => groupsOf(rank)));
  expect(groups.size).toBeGreaterThan(protocolLimits.windowGroupsMax);
  for (const { cuts } of ranks) expect([...cuts]).toEqual([...groups].map((group) => [group, 3.5e9]));
});

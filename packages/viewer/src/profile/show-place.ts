// From a line of a table to its event on the timeline: the window around it, and the event selected where it is found.

import type { ProfilePlace } from '@ranktrace/protocol';
import type { RunClient } from '../client/run-client.ts';
import { jump, type Selection, select, type ViewState } from '../client/view-state.ts';

/** Times of the analysis and of the timeline may differ by the fits of clocks, ns. */
const slackNs = 2000;

/** Shows `place`; `name` is that of its event, or '' where the line has another one. */
export async function showPlace(client: RunClient, state: ViewState, name: string, place: ProfilePlace): Promise<void> {
  const { rank, from, until } = place;
  jump(state, { ranks: [rank], from, until });
  const event = await eventAt(client, name, place).catch(() => undefined);
  // Another jump may have come meanwhile.
  if (event !== undefined && state.page.peek() === 'timeline') select(state, event);
}

async function eventAt(client: RunClient, name: string, { rank, from, until }: ProfilePlace): Promise<Selection | undefined> {
  const model = client.model.peek();
  if (model === undefined) return undefined;
  const processes = new Set(model.processes.filter((process) => process.rank === rank).map(({ index }) => index));
  const tracks = model.tracks.filter(({ process, kind }) => processes.has(process) && kind !== 'counter').map(({ track }) => track);
  if (tracks.length === 0) return undefined;
  const named = name === '' ? -1 : model.names.indexOf(name);
  // A collective's kernel is shown by the name of its operation: the time alone finds it.
  for (const names of named < 0 ? [[]] : [[named], []]) {
    const found = await client.find(names, tracks, from - slackNs, 'next');
    if (found !== null && Math.abs(found.start - from) <= slackNs && Math.abs(found.length - (until - from)) <= slackNs) {
      return { track: found.track, event: found.event };
    }
  }
  return undefined;
}

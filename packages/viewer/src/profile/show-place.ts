// From a line of a table to its event on the timeline: the window around it, and the event selected where it is found.

import type { ProfilePlace } from '@ranktrace/protocol';
import type { RunClient } from '../client/run-client.ts';
import { jump, type Selection, select, type ViewState } from '../client/view-state.ts';

/** Times of the analysis and of the timeline may differ by the fits of clocks, ns. */
const slackNs = 2000;
/** Events that begin within `slackNs` and are looked at, one request each. */
const candidatesMax = 32;
/** Longest text of a search. */
const searchCharsMax = 256;

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
  for (const names of await namesOf(client, model.names, name)) {
    const found = await nearest(client, names, tracks, { from, until });
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Names that the event may have on the timeline, the likely ones first: a collective's kernel has that of its operation; none: any name. */
async function namesOf(client: RunClient, known: readonly string[], name: string): Promise<readonly (readonly number[])[]> {
  if (name === '') return [[]];
  const named = known.indexOf(name);
  const own = named < 0 ? [] : [named];
  const { names } = await client.search(name.slice(0, searchCharsMax));
  const aliased = names.filter(({ alias }) => alias === name).map((one) => one.name);
  return [own, aliased, []].filter((one, at, all) => one.length > 0 || at === all.length - 1);
}

/** The event that begins and ends there, of all that begin nearly then. */
async function nearest(
  client: RunClient,
  names: readonly number[],
  tracks: readonly number[],
  { from, until }: Pick<ProfilePlace, 'from' | 'until'>,
): Promise<Selection | undefined> {
  let best: { readonly off: number; readonly event: Selection } | undefined;
  let found = await client.find(names, tracks, from - slackNs, 'next');
  for (let left = candidatesMax; left > 0 && found !== null && found.start <= from + slackNs; left--) {
    const [begin, size] = [Math.abs(found.start - from), Math.abs(found.length - (until - from))];
    if (begin <= slackNs && size <= slackNs && !(begin + size >= (best?.off ?? Number.POSITIVE_INFINITY))) {
      best = { off: begin + size, event: { track: found.track, event: found.event } };
    }
    found = await client.find(names, tracks, found.start, 'next', undefined, found);
  }
  return best?.event;
}

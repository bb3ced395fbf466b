// An event as text, for a message or a ticket: its name, its facts line by line, its collective or call on other ranks, its stack.
//
//   all_gather
//   Start       1.204 s
//   Where       rank 3 on node-b · main
//
//   On every rank
//   rank 0      Start 1.201 s, first, waited 3 ms, Length 4.2 ms
//   rank 3      Start 1.204 s, + 3 ms, last in, Length 1.2 ms
//
//   Launched by
//     cudaLaunchKernel  4 µs
//     12 µs after the call began
//
//   Stack
//     train.py(31): step

import { type EventDetails, printable } from '@ranktrace/protocol';
import { linkText } from '../client/track-keys.ts';
import type { EventLink } from '../client/view-state.ts';
import { formatCount, formatDuration, formatRanks, formatTime } from '../controls/format.ts';
import { arrivalsOf, arrivalsTitle } from './arrivals.ts';

/** Facts of an event in order, as its panel shows them. */
export type EventFacts = readonly (readonly [name: string, value: string])[];

/** `zero`: the trace time that the page shows as 0; `rank`: that of the event, -1 if unknown. */
export function eventText(
  details: EventDetails,
  facts: EventFacts,
  { zero, rank }: { readonly zero: number; readonly rank: number },
): string {
  const { partnersMissing, stack } = details;
  const hasPartners = details.partners.length > 0 || partnersMissing.length > 0;
  const arrivals = hasPartners ? arrivalsOf(details, rank) : [];
  const partners = arrivals.map(({ rank: of, place, cameIn, waited }): readonly [string, string] => {
    const wait = waited === undefined ? '' : waited.startsWith('last') ? `, ${waited}` : `, waited ${waited}`;
    return [`rank ${of}`, `Start ${formatTime(place.start - zero, 1)}, ${cameIn}${wait}, Length ${formatDuration(place.length)}`];
  });
  if (partnersMissing.length > 0) partners.push(['Not found on', `rank ${formatRanks(partnersMissing)}`]);
  const parts = [
    [details.name, ...lines(facts.filter(([name]) => name !== 'Name'))],
    hasPartners ? [arrivalsTitle(details), ...lines(partners)] : [],
    ...launchParts(details),
    stack.length === 0 ? [] : ['Stack', ...stack.map((line) => `  ${line}`)],
  ];
  return parts
    .filter((part) => part.length > 0)
    .map((part) => part.map(plain).join('\n'))
    .join('\n\n');
}

/** The call that launched it, and what it launched. */
function launchParts({ start, launchedBy, launched, launchedLeftOut }: EventDetails): string[][] {
  const [call] = launchedBy;
  const calls = launchedBy.map(({ name, length }) => `  ${name}  ${formatDuration(length)}`);
  const works = launched.map(({ name, length, start: of }) => `  ${name}  ${formatDuration(length)}, ${formatDuration(of - start)} later`);
  return [
    call === undefined ? [] : ['Launched by', ...calls, `  ${formatDuration(start - call.start)} after the call began`],
    works.length === 0 ? [] : ['Launched', ...works, ...(launchedLeftOut > 0 ? [`  and ${formatCount(launchedLeftOut)} more`] : [])],
  ];
}

/** The address that opens this event on its line, in this window of trace time, without the folds and marks of this page. */
export function eventLink(
  page: Pick<Location, 'origin' | 'pathname'>,
  run: string,
  link: EventLink | undefined,
  window: { readonly from: number; readonly until: number },
): string {
  const [from, until] = [Math.floor(window.from), Math.ceil(window.until)];
  const query = new URLSearchParams({ run, from: `${from}`, until: `${until}`, ...(link !== undefined && { sel: linkText(link) }) });
  return `${page.origin}${page.pathname}#/timeline?${query}`;
}

/** Names in one column, values in the next. */
function lines(facts: EventFacts): string[] {
  const width = Math.max(0, ...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}

/** Thin and unbreakable spaces are for the page. */
const plain = (line: string): string => printable(line.replaceAll(/[\u00a0\u2009\u202f]/g, ' '));

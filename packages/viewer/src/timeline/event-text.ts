// An event as text, for a message or a ticket: its name, its facts line by line, its collective or call on other ranks, its stack.
//
//   all_gather
//   Start       1.204 s
//   Where       rank 3 on node-b · main
//
//   On other ranks
//   rank 0      Start 1.201 s, Length 4.2 ms
//
//   Stack
//     train.py(31): step

import { type EventDetails, printable } from '@ranktrace/protocol';
import { formatDuration, formatTime } from '../controls/format.ts';

/** Facts of an event in order, as its panel shows them. */
export type EventFacts = readonly (readonly [name: string, value: string])[];

/** `zero`: the trace time that the page shows as 0. */
export function eventText(details: EventDetails, facts: EventFacts, zero: number): string {
  const partners = details.partners.map(({ rank, start, length }): readonly [string, string] => [
    `rank ${rank}`,
    `Start ${formatTime(start - zero, 1)}, Length ${formatDuration(length)}`,
  ]);
  const parts = [
    [details.name, ...lines(facts.filter(([name]) => name !== 'Name'))],
    partners.length === 0 ? [] : ['On other ranks', ...lines(partners)],
    details.stack.length === 0 ? [] : ['Stack', ...details.stack.map((line) => `  ${line}`)],
  ];
  return parts
    .filter((part) => part.length > 0)
    .map((part) => part.map(plain).join('\n'))
    .join('\n\n');
}

/** The address that opens this event on its line, in this window of trace time, without the folds and marks of this page. */
export function eventLink(
  page: Pick<Location, 'origin' | 'pathname'>,
  run: string,
  { track, event }: Pick<EventDetails, 'track' | 'event'>,
  window: { readonly from: number; readonly until: number },
): string {
  const [from, until] = [Math.floor(window.from), Math.ceil(window.until)];
  return `${page.origin}${page.pathname}#/timeline?${new URLSearchParams({ run, from: `${from}`, until: `${until}`, sel: `${track}.${event}` })}`;
}

/** Names in one column, values in the next. */
function lines(facts: EventFacts): string[] {
  const width = Math.max(0, ...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}

/** Thin and unbreakable spaces are for the page. */
const plain = (line: string): string => printable(line.replaceAll(/[\u00a0\u2009\u202f]/g, ' '));

// The arguments shown with an event, the same in every format: first those of its kind, then those that the program gave it.

import type { TraceEvent } from './trace-sink.ts';

/** Takes arguments one by one; a method for each type, so that nothing is boxed. */
export interface ArgumentVisitor {
  number(key: string, value: number): void;
  text(key: string, value: string): void;
}

/** One argument that the program gave: the quick way, where an event has many and a sink wants few. */
export const argumentOf = (event: TraceEvent, key: string): string | number | undefined =>
  event.argument === undefined ? event.arguments?.get(key) : event.argument(key);

/** Keys of the arguments that each kind of event adds. */
export const ownKeys: Readonly<Record<TraceEvent['kind'], readonly string[]>> = {
  span: [],
  instant: [],
  counter: [],
  step: ['step', 'overheadNs'],
  collective: ['op', 'group', 'sequence', 'bytes', 'peer'],
  rpc: ['side', 'peer', 'status', 'traceId', 'spanId', 'parentSpanId'],
};

/** Whether `visitArguments` visits anything; called on the hot path. */
export function hasArguments(event: TraceEvent): boolean {
  if (event.arguments !== undefined && event.arguments.size > 0) return true;
  return event.kind === 'step' || event.kind === 'collective' || event.kind === 'rpc';
}

/**
 * Shows every argument of `event` to `visitor`. If the program gave one with a key that the event's kind uses itself, it is shown as
 * `argument.KEY`: neither hides the other.
 */
export function visitArguments(event: TraceEvent, visitor: ArgumentVisitor): void {
  if (event.kind === 'step') {
    visitor.number('step', event.step);
    if (event.overhead > 0) visitor.number('overheadNs', event.overhead);
    for (const [phase, length] of event.phases ?? []) visitor.number(`phaseNs.${phase}`, length);
  } else if (event.kind === 'collective') {
    visitor.text('op', event.name);
    visitor.text('group', event.group);
    visitor.number('sequence', event.sequence);
    visitor.number('bytes', event.bytes);
    if (event.peerRank >= 0) visitor.number('peer', event.peerRank);
  } else if (event.kind === 'rpc') {
    visitor.text('side', event.side);
    visitor.text('peer', event.peer);
    visitor.text('status', event.status);
    visitor.text('traceId', event.traceId);
    visitor.text('spanId', event.spanId);
    if (event.parentSpanId !== '') visitor.text('parentSpanId', event.parentSpanId);
  }
  if (event.arguments === undefined) return;
  const own = ownKeys[event.kind];
  for (const [given, value] of event.arguments) {
    const key = own.includes(given) ? `argument.${given}` : given;
    if (typeof value === 'number') visitor.number(key, value);
    else visitor.text(key, value);
  }
}

// The arguments of one event that have columns of their own. A span in two events, "B" and "E", has those of both; where they differ, the end's.
//
// The fields are named as in `eventColumns`. Each is written out, not looped over: the reader clears and appends them for every event.

import { CommunicationFields } from './kineto-communication.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Fields that are 0 where an event has no such argument. */
const fieldNames = [
  ...(['externalId', 'correlation', 'forwardThread', 'flops', 'shapes', 'types'] as const),
  ...(['concrete', 'stack', 'outputs', 'modules', 'isAsync'] as const),
];

export class EventArguments {
  externalId = 0;
  correlation = 0;
  sequence = -1;
  forwardThread = 0;
  flops = 0;
  shapes = 0;
  types = 0;
  concrete = 0;
  stack = 0;
  outputs = 0;
  modules = 0;
  isAsync = 0;
  readonly communication = new CommunicationFields();

  clear(): void {
    this.externalId = 0;
    this.correlation = 0;
    this.sequence = -1;
    this.forwardThread = 0;
    this.flops = 0;
    this.shapes = 0;
    this.types = 0;
    this.concrete = 0;
    this.stack = 0;
    this.outputs = 0;
    this.modules = 0;
    this.isAsync = 0;
    this.communication.clear();
  }

  /** Takes over each value of `begun` that this has not. */
  addFrom(begun: EventArguments): void {
    for (const name of fieldNames) if (this[name] === 0) this[name] = begun[name];
    if (this.sequence === -1) this.sequence = begun.sequence;
    this.communication.addFrom(begun.communication);
  }

  /** Writes the columns of the new row `event`. */
  append(table: KinetoTable, event: number): void {
    const { columns } = table.events;
    columns.sequence[event] = this.sequence;
    // Most events lack most of these: a column without values takes no memory.
    if (this.externalId !== 0) columns.externalId[event] = this.externalId;
    if (this.correlation !== 0) columns.correlation[event] = this.correlation;
    if (this.forwardThread !== 0) columns.forwardThread[event] = this.forwardThread;
    if (this.flops !== 0) columns.flops[event] = this.flops;
    if (this.shapes !== 0) columns.shapes[event] = this.shapes;
    if (this.types !== 0) columns.types[event] = this.types;
    if (this.concrete !== 0) columns.concrete[event] = this.concrete;
    if (this.stack !== 0) columns.stack[event] = this.stack;
    if (this.outputs !== 0) columns.outputs[event] = this.outputs;
    if (this.modules !== 0) columns.modules[event] = this.modules;
    if (this.isAsync !== 0) columns.isAsync[event] = this.isAsync;
    this.communication.append(table, event);
  }
}

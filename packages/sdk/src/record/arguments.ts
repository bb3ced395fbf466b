// Arguments of events, prepared before the event is written: their keys are names, and a name's definition must not come between an event
// and its arguments.

import { recordingLimits } from '../model/recording-limits.ts';
import type { NameTable } from './name-table.ts';
import type { RingWriter } from './ring.ts';

/** Facts about one event. Booleans are recorded as the text `true` or `false`. */
export type Args = Readonly<Record<string, string | number | boolean>>;

export interface Argument {
  /** Id of the name. */
  readonly key: number;
  readonly value: string | number;
}

/** Prepares the recordable part of `args`; counts the rest as dropped. */
export function prepareArguments(args: Args, names: NameTable, ring: RingWriter): Argument[] {
  const prepared: Argument[] = [];
  try {
    for (const name in args) {
      const value: unknown = args[name];
      const key = prepared.length < recordingLimits.argumentsPerEventMax && isValue(value) ? names.id(name) : -1;
      if (key < 0) ring.dropArgument();
      else prepared.push({ key, value: typeof value === 'boolean' ? String(value) : (value as string | number) });
    }
  } catch {
    ring.dropArgument(); // A getter of the caller's object threw: training goes on.
  }
  return prepared;
}

/** Whether `value` is valid as an argument; JavaScript callers may pass anything. */
export const isValue = (value: unknown) => typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';

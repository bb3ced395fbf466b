// The members of a Kineto event that are read, and their names.

import { type CommunicationNumber, type CommunicationText, communicationNumbers, communicationTexts } from './kineto-communication.ts';

/** Character codes of `ph`. */
export const phase = {
  complete: 0x58,
  begin: 0x42,
  end: 0x45,
  instant: 0x69,
  oldInstant: 0x49,
  flowStart: 0x73,
  flowEnd: 0x66,
  metadata: 0x4d,
  counter: 0x43,
} as const;

/** Fields taken over from an event and, with a blank, from its `args`. */
export type Field =
  | 'ph'
  | 'cat'
  | 'name'
  | 'pid'
  | 'tid'
  | 'ts'
  | 'dur'
  | 'id'
  | 'args'
  | 'External id'
  | 'correlation'
  | 'Sequence number'
  | 'Fwd thread id'
  | 'flops'
  | 'Input Dims'
  | 'Input type'
  | 'Concrete Inputs'
  | 'Call stack'
  | 'Output Dims'
  | 'Module Hierarchy'
  | 'Async'
  | 'category'
  | 'Bytes'
  | 'Total Allocated'
  | 'Total Reserved'
  | 'Addr'
  | 'Device Type'
  | 'Device Id'
  | 'given name'
  | CommunicationText
  | CommunicationNumber
  | 'Ev Idx';

/**
 * Arguments excluded from an event's other arguments, where their values are of this type: they have columns of their own, or no use. Other
 * programs give other values under the same names.
 */
const ownColumns: ReadonlyMap<Field, KnownMember['column']> = new Map([
  ['External id', 'number'],
  ['correlation', 'number'],
  ['Sequence number', 'number'],
  ['Fwd thread id', 'number'],
  ['Call stack', 'text'],
  ['Module Hierarchy', 'text'],
  ['Async', 'number'],
  ['Ev Idx', 'any'],
] as const);

/** A member that is read. */
export interface KnownMember {
  readonly field: Field;
  /** The type of values by which it is no other argument; undefined if none makes it that. */
  readonly column: 'number' | 'text' | 'any' | undefined;
}

const known = (field: Field): KnownMember => ({ field, column: ownColumns.get(field) });

export const eventFields: ReadonlyMap<string, KnownMember> = new Map(
  (['ph', 'cat', 'name', 'pid', 'tid', 'ts', 'dur', 'id', 'args'] as const).map((name) => [name, known(name)]),
);

export const argumentFields: ReadonlyMap<string, KnownMember> = new Map(
  (
    [
      ['External id', 'External id'],
      // 2021's spelling, on work done for an op.
      ['external id', 'External id'],
      ['correlation', 'correlation'],
      ['Sequence number', 'Sequence number'],
      ['Fwd thread id', 'Fwd thread id'],
      ['flops', 'flops'],
      ['Flops', 'flops'],
      ['Input Dims', 'Input Dims'],
      ['Input type', 'Input type'],
      ['Concrete Inputs', 'Concrete Inputs'],
      ['Call stack', 'Call stack'],
      ['Stack', 'Call stack'],
      ['Output Dims', 'Output Dims'],
      ['Module Hierarchy', 'Module Hierarchy'],
      ['Async', 'Async'],
      ['category', 'category'],
      ['Bytes', 'Bytes'],
      ['Total Allocated', 'Total Allocated'],
      ['Total Reserved', 'Total Reserved'],
      ['Addr', 'Addr'],
      ['Device Type', 'Device Type'],
      ['Device Id', 'Device Id'],
      ['name', 'given name'],
      ...[...communicationTexts, ...communicationNumbers].map((name): [string, Field] => [name, name]),
      // Counts every event; useful only inside torch: the nesting carries the same information.
      ['Ev Idx', 'Ev Idx'],
      ['Python id', 'Ev Idx'],
      ['Python parent id', 'Ev Idx'],
    ] as readonly (readonly [string, Field])[]
  ).map(([name, field]) => [name, known(field)]),
);

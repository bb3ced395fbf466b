// Fields of an event that describe a collective: few events have them, so they are kept apart from the fields read for every event.

import { limits } from '../model/limits.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Arguments with text as their value. */
export type CommunicationText = 'Collective name' | 'Process Group Name' | 'dtype';
/** Arguments with a whole number from 0 as their value. */
export type CommunicationNumber = 'Seq' | 'In msg nelems' | 'Out msg nelems' | 'In msg bytes' | 'Src Rank' | 'Dst Rank';

export const communicationTexts: readonly CommunicationText[] = ['Collective name', 'Process Group Name', 'dtype'];
export const communicationNumbers: readonly CommunicationNumber[] = [
  ...(['Seq', 'In msg nelems', 'Out msg nelems', 'In msg bytes'] as const),
  ...(['Src Rank', 'Dst Rank'] as const),
];

const textColumns = { 'Collective name': 'name', 'Process Group Name': 'group', dtype: 'type' } as const;
const numberColumns = {
  Seq: 'sequence',
  'In msg nelems': 'elementsIn',
  'Out msg nelems': 'elementsOut',
  'In msg bytes': 'bytesIn',
  'Src Rank': 'source',
  'Dst Rank': 'destination',
} as const;

const nothing = { name: 0, group: 0, type: 0, sequence: -1, elementsIn: -1, elementsOut: -1, bytesIn: -1, source: -1, destination: -1 };
const fieldNames = Object.keys(nothing) as readonly (keyof typeof nothing)[];

export class CommunicationFields {
  /** Whether the event being read has any. */
  isSet = false;
  #said = { ...nothing };

  clear(): void {
    if (!this.isSet) return;
    this.isSet = false;
    this.#said = { ...nothing };
  }

  /** `index`: of the string. */
  text(field: CommunicationText, index: number): void {
    this.isSet = true;
    this.#said[textColumns[field]] = index;
  }

  number(field: CommunicationNumber, value: number): void {
    this.isSet = true;
    this.#said[numberColumns[field]] = Number.isSafeInteger(value) && value >= 0 ? value : -1;
  }

  /** Takes over each field of `begun` that this has not. */
  addFrom(begun: CommunicationFields): void {
    if (!begun.isSet) return;
    this.isSet = true;
    for (const name of fieldNames) if (this.#said[name] === nothing[name]) this.#said[name] = begun.#said[name];
  }

  /** Appends the fields read so far for the event in row `event`. */
  append({ communications }: KinetoTable, event: number): void {
    if (!this.isSet || communications.length >= limits.collectivesPerFileMax) return;
    const row = communications.add();
    const { columns } = communications;
    columns.event[row] = event;
    for (const name of fieldNames) columns[name][row] = this.#said[name];
  }
}

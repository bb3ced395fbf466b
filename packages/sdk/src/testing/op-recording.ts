// Stores the records of tfjs hooks unchanged: an `OpRecorder` whose wanted detail and room the test sets. Unbalanced calls throw.

import { allDetail } from '../model/detail.ts';
import { memoryCategories } from '../model/memory-category.ts';
import type { OpRecorder } from '../tfjs/op-recorder.ts';

export interface RecordedOp {
  readonly name: string;
  /** Name of the enclosing op. */
  readonly parent: string;
  readonly depth: number;
  readonly signature: Readonly<Record<string, unknown>>;
  readonly stack: string;
  readonly module: string;
  readonly sequence: number;
  readonly allocated: number;
  readonly freed: number;
}

export interface RecordedMemory {
  readonly bytes: number;
  readonly total: number;
  readonly address: number;
  readonly deviceType: number;
}

export class OpRecording implements OpRecorder {
  detail = allDetail;
  /** While true there is no room: the recorder accepts no name and no begin. */
  isFull = false;
  /** In the order of their ends. */
  readonly ops: RecordedOp[] = [];
  readonly memoryRecords: RecordedMemory[] = [];
  /** `tensor.data 16 resolved`: name, bytes, and outcome. */
  readonly copies: string[] = [];
  readonly counters: string[] = [];
  readonly metadata: string[] = [];
  /** `7 PARAMETER 32`: address, category, bytes. */
  readonly categories: string[] = [];
  readonly texts: string[] = [''];
  overheadMs = 0;
  droppedArguments = 0;
  readonly #open: string[] = [];

  get openDepth(): number {
    return this.#open.length;
  }

  /** Ops and copies that have begun, outermost first. */
  get openNames(): readonly string[] {
    return this.#open;
  }

  /** Sum of all memory records, bytes. */
  get recordedBytes(): number {
    return this.memoryRecords.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Names of the ops, indented by depth. */
  get outline(): string[] {
    return this.ops.map(({ name, depth }) => '  '.repeat(depth) + name);
  }

  clear(): void {
    for (const list of [this.ops, this.memoryRecords, this.copies, this.counters]) list.length = 0;
  }

  memoryCategory(address: number, category: number, bytes: number): void {
    this.categories.push(`${address} ${memoryCategories[category - 1]} ${bytes}`);
  }

  name(text: string): number {
    const known = this.texts.indexOf(text);
    if (known >= 0) return known;
    return this.isFull ? -1 : this.texts.push(text) - 1;
  }

  beginOp(name: number): boolean {
    return this.#begin(name);
  }

  endOp(signature: number, stack: number, module: number, sequence: number, allocated: number, freed: number): void {
    const name = this.#end();
    this.ops.push({
      name,
      parent: this.#open.at(-1) ?? '',
      depth: this.#open.length,
      signature: signature === 0 ? {} : JSON.parse(this.#text(signature)),
      stack: this.#text(stack),
      module: this.#text(module),
      sequence,
      allocated,
      freed,
    });
  }

  memory(bytes: number, total: number, address: number, deviceType: 0 | 1): void {
    this.memoryRecords.push({ bytes, total, address, deviceType });
  }

  beginCopy(name: number): boolean {
    return this.#begin(name);
  }

  endCopy(bytes: number, _stack?: number): void {
    this.copies.push(`${this.#end()} ${bytes}`);
  }

  copied<T>(name: number, bytes: number, promise: Promise<T>, _stack?: string): Promise<T> {
    const copy = `${this.#text(name)} ${bytes}`;
    return promise.then(
      (value) => {
        this.copies.push(`${copy} resolved`);
        return value;
      },
      (error: unknown) => {
        this.copies.push(`${copy} rejected`);
        throw error;
      },
    );
  }

  addMetadata(key: string, value: string): void {
    this.metadata.push(`${key} ${value}`);
  }

  engineMemory(tensors: number, buffers: number, bytes: number): void {
    this.counters.push(`tf tensors ${tensors}`, `tf data buffers ${buffers}`, `tf bytes ${bytes} bytes`);
  }

  addOverhead(ms: number): void {
    this.overheadMs += ms;
  }

  dropArgument(): void {
    this.droppedArguments++;
  }

  #begin(name: number): boolean {
    if (this.isFull || name < 0) return false;
    this.#open.push(this.#text(name));
    return true;
  }

  #end(): string {
    const name = this.#open.pop();
    if (name === undefined) throw new Error('An end without its begin');
    return name;
  }

  #text(id: number): string {
    const text = this.texts[id];
    if (text === undefined) throw new Error(`No text has the id ${id}`);
    return text;
  }
}

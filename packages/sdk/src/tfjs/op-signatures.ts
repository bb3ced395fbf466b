// The signature of an op's call, as the id of a text: interned, because training repeats the same few hundred signatures.
//
//   kernel, inputs, outputs, attributes ──encode──► key: a few int32 ──compare──► the last successor of the last two signatures: its id
//                                                                      └─ else hash ──► slot ──compare──► id
//                                                                                       └─ free ──► text (signature-text.ts), named once
//
// Training repeats itself, so the first guess nearly always holds, given two predecessors (an optimizer's update of one weight repeats an op and
// then goes on), and its key lies in memory in the order of the ops: kernels have driven all tables out of the caches meanwhile, and a look into
// the hash table would cost more than all the rest.
//
// The key holds everything that the text holds, in a form that parses in one direction only (each part states its length), so equal keys mean
// equal texts. Keys are compared in full; the hash alone decides nothing. A hit allocates nothing: the key is built in a scratch array.
//
// Both omit attributes that vary from call to call without changing the work (seeds, fill values, begins of slices).
//
// Invariants: at most `signaturesMax` signatures of at most `keyLengthMax` words; ops beyond that get no signature and are counted.

import { detail } from '../model/detail.ts';
import type { KernelCall } from './engine.ts';
import type { OpName } from './op-names.ts';
import { idOrNone, type OpRecorder } from './op-recorder.ts';
import { describedAttributes, type KernelFlops, type KernelOutputs, signatureText } from './signature-text.ts';

const signaturesMax = 16_384;
/** Slots; a power of two, at least twice the signatures, so that probing stays short. */
const slots = 32_768;
/** int32 words of one key: a list of 200 tensors of rank 4 fits. */
const keyLengthMax = 2048;
/** Words of all keys: 8 MiB. */
const poolLengthMax = 2 ** 21;
/** Distinct texts in keys: backends, unusual types, values of attributes. */
const textsMax = 16_384;

/** Pairs of signatures with a stored successor; a power of two. Two pairs in one slot overwrite each other. */
const guesses = 4096;

/** Start and length of its key, and its id (−1: not named yet). */
const field = { start: 0, length: 1, id: 2 } as const;
const fieldCount = 4;

// Marks in a key. Ranks and codes of texts are ≥ 0.
const mark = { absent: -1, list: -2, end: -3, integer: -4, number: -5, text: -6, other: -7 } as const;

const dtypeCodes: readonly string[] = ['float32', 'int32', 'bool', 'string', 'complex64'];
const attributeCodes: ReadonlyMap<string, number> = new Map(describedAttributes.map((name, index) => [name, index]));
const described = detail.shapes | detail.flops;

export class OpSignatures {
  readonly #recorder: OpRecorder;
  readonly #flopsOf: KernelFlops;
  readonly #texts = new Map<string, number>();
  readonly #key = new Int32Array(keyLengthMax);
  readonly #wide = new Float64Array(1);
  readonly #wideWords = new Int32Array(this.#wide.buffer);
  #backend: string | undefined;
  #backendCode = 0;
  #complete = true;

  readonly #slots = new Int32Array(slots);
  #count = 0;
  /** Keys, one after the other. */
  #pool = new Int32Array(4096);
  #poolLength = 0;
  /** The words of `field` for signature n, from 1 on. */
  readonly #fields = new Int32Array((signaturesMax + 1) * fieldCount);
  /** The last successor of a pair of signatures. */
  readonly #guesses = new Int32Array(guesses);
  /** The signature found last, and the one before. */
  #last = 0;
  #before = 0;

  constructor(recorder: OpRecorder, flopsOf: KernelFlops) {
    this.#recorder = recorder;
    this.#flopsOf = flopsOf;
  }

  /**
   * The id of a text that describes the op, 0 when there is none. `outputs` is undefined when the op threw. `wanted`: bits of `detail`;
   * without `shapes` and `flops` there is nothing to describe.
   */
  id(op: OpName, call: KernelCall, outputs: KernelOutputs, backend: string, wanted: number): number {
    const key = this.#key;
    this.#complete = true;
    key[0] = wanted & described;
    key[1] = op.code;
    key[2] = this.#codeOfBackend(backend);
    let length = this.#encodeTensors(call.inputs, 3);
    key[length++] = mark.end;
    length = this.#encodeTensors(outputs, length);
    key[length++] = mark.end;
    length = this.#encodeAttributes(call.attrs, length);
    if (!this.#complete || length > keyLengthMax) return this.#none();

    const fields = this.#fields;
    const guess = (Math.imul(this.#before, 61) + this.#last) & (guesses - 1);
    const expected = this.#guesses[guess] as number;
    const found = expected !== 0 && this.#isKeyOf(expected, length) ? expected : this.#find(length);
    if (found === 0) return this.#none();
    if (found !== expected) this.#guesses[guess] = found;
    this.#before = this.#last;
    this.#last = found;
    const id = fields[found * fieldCount + field.id] as number;
    return id >= 0 ? id : this.#name(found, call, outputs, backend, wanted);
  }

  /** The signature that has the key, a new one if need be; 0 when there is no room. */
  #find(length: number): number {
    const key = this.#key;
    let hash = length;
    for (let index = 0; index < length; index++) hash = Math.imul(hash ^ (key[index] as number), 0x9e3779b1) ^ (hash >>> 15);
    let slot = (hash ^ (hash >>> 16)) & (slots - 1);
    for (;;) {
      const signature = this.#slots[slot] as number;
      if (signature === 0) break;
      if (this.#isKeyOf(signature, length)) return signature;
      slot = (slot + 1) & (slots - 1);
    }
    const added = this.#add(length);
    this.#slots[slot] = added;
    return added;
  }

  #isKeyOf(signature: number, length: number): boolean {
    const fields = this.#fields;
    const start = fields[signature * fieldCount + field.start] as number;
    if (fields[signature * fieldCount + field.length] !== length) return false;
    const key = this.#key;
    const pool = this.#pool;
    for (let index = 0; index < length; index++) if (key[index] !== pool[start + index]) return false;
    return true;
  }

  #add(length: number): number {
    const end = this.#poolLength + length;
    if (this.#count >= signaturesMax || end > poolLengthMax) return 0;
    if (end > this.#pool.length) {
      const pool = new Int32Array(this.#pool.length * 2 ** Math.ceil(Math.log2(end / this.#pool.length)));
      pool.set(this.#pool);
      this.#pool = pool;
    }
    const signature = ++this.#count;
    this.#pool.set(this.#key.subarray(0, length), this.#poolLength);
    this.#fields[signature * fieldCount + field.start] = this.#poolLength;
    this.#fields[signature * fieldCount + field.length] = length;
    this.#fields[signature * fieldCount + field.id] = -1;
    this.#poolLength = end;
    return signature;
  }

  #name(signature: number, call: KernelCall, outputs: KernelOutputs, backend: string, wanted: number): number {
    const text = signatureText({ call, outputs, backend, wanted }, this.#flopsOf);
    if (text === undefined) this.#recorder.dropArgument();
    const id = text === undefined ? 0 : this.#recorder.name(text);
    this.#fields[signature * fieldCount + field.id] = id;
    return idOrNone(id);
  }

  #none(): number {
    this.#recorder.dropArgument();
    return 0;
  }

  /** Cached, for the backend hardly ever changes. */
  #codeOfBackend(backend: string): number {
    if (backend !== this.#backend) {
      this.#backend = backend;
      this.#backendCode = this.#codeOf(backend);
    }
    return this.#backendCode;
  }

  #codeOf(text: string): number {
    return this.#texts.get(text) ?? this.#newText(text);
  }

  #newText(text: string): number {
    const code = this.#texts.size;
    if (code >= textsMax) {
      this.#complete = false;
      return 0;
    }
    this.#texts.set(text, code);
    return code;
  }

  // Each function writes from word `at` of the key on, and returns the word after. Writes over the end of the array are ignored.

  #encodeTensors(tensors: object | undefined, at: number): number {
    if (tensors === undefined || tensors === null) return at;
    if (Array.isArray(tensors)) return this.#encodeList(tensors, at);
    if (isShaped(tensors)) return this.#encodeTensor(tensors, at);
    let next = at;
    for (const key in tensors) {
      const value = (tensors as Record<string, unknown>)[key];
      next = Array.isArray(value) ? this.#encodeList(value, next) : this.#encodeTensor(value, next);
    }
    return next;
  }

  #encodeList(tensors: readonly unknown[], at: number): number {
    this.#key[at] = mark.list;
    this.#key[at + 1] = tensors.length;
    let next = at + 2;
    for (let index = 0; index < tensors.length; index++) next = this.#encodeTensor(tensors[index], next);
    return next;
  }

  #encodeTensor(tensor: unknown, at: number): number {
    const key = this.#key;
    if (!isShaped(tensor)) {
      key[at] = mark.absent;
      return at + 1;
    }
    const { shape, dtype } = tensor;
    const rank = shape.length;
    const code = dtype === 'float32' ? 0 : dtypeCodes.indexOf(dtype);
    key[at] = rank;
    key[at + 1] = code;
    let next = at + 2;
    if (code < 0) key[next++] = this.#codeOf(dtype);
    for (let index = 0; index < rank; index++) {
      const length = shape[index] as number;
      if ((length | 0) === length) key[next++] = length;
      else next = this.#encodeNumber(length, next);
    }
    return next;
  }

  #encodeAttributes(attributes: object | undefined, at: number): number {
    if (attributes === undefined || attributes === null) return at;
    let next = at;
    for (const name in attributes) {
      const code = attributeCodes.get(name);
      if (code === undefined) continue;
      this.#key[next] = code;
      next = this.#encodeValue((attributes as Record<string, unknown>)[name], next + 1);
    }
    return next;
  }

  #encodeValue(value: unknown, at: number): number {
    const key = this.#key;
    if (typeof value === 'number') return this.#encodeNumber(value, at);
    if (typeof value === 'boolean') {
      key[at] = value ? 1 : 0;
      return at + 1;
    }
    if (typeof value === 'string') {
      key[at] = mark.text;
      key[at + 1] = this.#codeOf(value);
      return at + 2;
    }
    if (!Array.isArray(value)) {
      key[at] = value === undefined || value === null ? mark.absent : mark.other;
      return at + 1;
    }
    key[at] = mark.list;
    key[at + 1] = value.length;
    let next = at + 2;
    for (let index = 0; index < value.length; index++) next = this.#encodeValue(value[index], next);
    return next;
  }

  #encodeNumber(value: number, at: number): number {
    const key = this.#key;
    if ((value | 0) === value) {
      key[at] = mark.integer;
      key[at + 1] = value;
      return at + 2;
    }
    this.#wide[0] = value;
    key[at] = mark.number;
    key[at + 1] = this.#wideWords[0] as number;
    key[at + 2] = this.#wideWords[1] as number;
    return at + 3;
  }
}

function isShaped(value: unknown): value is { shape: number[]; dtype: string } {
  return typeof value === 'object' && value !== null && Array.isArray((value as { shape?: unknown }).shape);
}

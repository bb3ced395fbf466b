// What held a device's memory at its peak: allocations that were live then, by category, and by the op and part of the program that made them.
//
//   bytes          ╭──peak──╮
//             ╭────╯        ╰───╮          an allocation that is live at the peak counts, also if it is freed later
//   live   a ─────────────────────         alive at the end
//          b      ───────────              freed after the peak: its category is known from then on
//          c  ──                           freed before: a new peak forgets what was freed since the one before
//
// torch's own profiler infers categories from the data flow of Python objects, which a trace lacks. Here they follow from the parts of the program in which
// memory is allocated and freed, unless the recorder states them. Memory from before the recording is what the allocator's total has beyond the live
// allocations: parameters, and state of the optimizer; unknown where some could not be followed.
//
// Invariant: the categories add up to the peak.

import { analyseLimits as limits } from './analyse-limits.ts';

/** Parts of the program, as far as names of spans show them. */
export type MemoryPlace = 'data' | 'forward' | 'backward' | 'optimizer' | 'other';

export const memoryKinds = [
  ...(['parameters', 'optimizer state', 'inputs', 'temporaries', 'activations', 'gradients', 'autograd detail'] as const),
  ...(['before the recording', 'unknown'] as const),
] as const;
export type MemoryKind = (typeof memoryKinds)[number];

/** torch's names of categories, as our recorder states them. */
const statedKinds: Readonly<Record<string, MemoryKind>> = {
  ...{ PARAMETER: 'parameters', OPTIMIZER_STATE: 'optimizer state', INPUT: 'inputs', TEMPORARY: 'temporaries' },
  ...{ ACTIVATION: 'activations', GRADIENT: 'gradients', AUTOGRAD_DETAIL: 'autograd detail' },
};

/** Memory that was live at the peak, of one category, op and part of the program. */
export interface MemoryHolder {
  readonly kind: MemoryKind;
  readonly place: MemoryPlace;
  /** The innermost op or span that allocated it; '' outside of all. */
  readonly name: string;
  readonly bytes: number;
  readonly allocations: number;
}

export interface HeldAtPeak {
  /** Bytes, most first; they add up to the peak. */
  readonly kinds: readonly (readonly [MemoryKind, number])[];
  /** Most bytes first. */
  readonly holders: readonly MemoryHolder[];
}

interface Allocation {
  readonly bytes: number;
  readonly name: string;
  readonly place: MemoryPlace;
  /** It is the n-th. */
  readonly number: number;
  stated: MemoryKind | undefined;
}

const optimizerName = /^Optimizer\.|^(?:## )?optim(?:izer)?\b/i;
const backwardName = /^autograd::engine|^(?:## )?backward\b|Backward\d*$/i;
const dataName = /^enumerate\(Data|^(?:## )?data\b|^data_?load|^get_batch/i;

/** The part of the program that spans around an event belong to, from the outermost to the innermost. */
export function memoryPlace(names: readonly string[]): MemoryPlace {
  if (names.some((name) => optimizerName.test(name))) return 'optimizer';
  if (names.some((name) => backwardName.test(name))) return 'backward';
  if (names.some((name) => dataName.test(name))) return 'data';
  return names.some((name) => !name.startsWith('ProfilerStep#')) ? 'forward' : 'other';
}

/** By where it was allocated, and where freed; undefined: it is live at the end. */
function kindOf({ place, stated }: Allocation, freed: MemoryPlace | undefined): MemoryKind {
  if (stated !== undefined) return stated;
  if (place === 'data') return 'inputs';
  if (place === 'optimizer') return freed === undefined ? 'optimizer state' : 'temporaries';
  if (place === 'backward') return freed === 'backward' ? 'temporaries' : 'gradients';
  if (place === 'other' || freed === undefined) return 'unknown';
  return freed === 'forward' ? 'temporaries' : 'activations';
}

export class HeldMemory {
  readonly #live = new Map<number, Allocation>();
  /** Freed since the peak, and live then. */
  readonly #freed = new Map<string, { kind: MemoryKind; place: MemoryPlace; name: string; bytes: number; allocations: number }>();
  #count = 0;
  /** Allocations beyond the limit, and those without an address, as in files of 2021: their frees are not known. */
  #untracked = 0;
  #atPeak = 0;
  #peak = 0;

  /** An earlier allocation at the address ends with it. */
  allocate(address: number, bytes: number, name: string, place: MemoryPlace): void {
    this.free(address, place);
    if (address === 0 || this.#live.size >= limits.memoryLiveMax) {
      this.#untracked++;
      return;
    }
    this.#live.set(address, { bytes, name, place, number: ++this.#count, stated: undefined });
  }

  free(address: number, place: MemoryPlace): void {
    const allocation = this.#live.get(address);
    if (allocation === undefined) return;
    this.#live.delete(address);
    if (allocation.number <= this.#atPeak) add(this.#freed, allocation, kindOf(allocation, place));
  }

  /** The memory at this address is of one of torch's categories. */
  state(address: number, category: string): void {
    const allocation = this.#live.get(address);
    if (allocation !== undefined) allocation.stated = statedKinds[category.toUpperCase()];
  }

  /** So much is allocated now, more than ever before. */
  peak(bytes: number): void {
    this.#peak = bytes;
    this.#atPeak = this.#count;
    this.#freed.clear();
  }

  get held(): HeldAtPeak {
    const holders = new Map([...this.#freed].map(([key, holder]) => [key, { ...holder }]));
    for (const allocation of this.#live.values())
      if (allocation.number <= this.#atPeak) add(holders, allocation, kindOf(allocation, undefined));
    const kinds = new Map<MemoryKind, number>();
    let known = 0;
    for (const { kind, bytes } of holders.values()) {
      kinds.set(kind, (kinds.get(kind) ?? 0) + bytes);
      known += bytes;
    }
    const rest = this.#peak - known;
    const kind = this.#untracked > 0 ? 'unknown' : 'before the recording';
    if (rest > 0) kinds.set(kind, (kinds.get(kind) ?? 0) + rest);
    return {
      kinds: [...kinds].sort(([, a], [, b]) => b - a),
      holders: [...holders.values()].sort((a, b) => b.bytes - a.bytes).slice(0, limits.memoryHoldersMax),
    };
  }
}

function add(
  into: Map<string, { kind: MemoryKind; place: MemoryPlace; name: string; bytes: number; allocations: number }>,
  { bytes, name, place }: Allocation,
  kind: MemoryKind,
): void {
  const key = JSON.stringify([kind, place, name]);
  const holder = into.get(key) ?? { kind, place, name, bytes: 0, allocations: 0 };
  into.set(key, holder);
  holder.bytes += bytes;
  holder.allocations++;
}

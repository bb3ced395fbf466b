// torch's memory timeline: bytes by category over time, from the allocator's instants and the recorder's categories of buffers.
// Follows torch 2.13: profiler/_memory_profiler.py (MemoryProfileTimeline).
//
//   instants   [memory] +64 @7     [memory category] @7 PARAMETER     [memory] -64 @7
//   event      CREATE 64 ───────── the last category counts for the whole life ── DESTROY 64
//
// Memory from before the recording is PREEXISTING: buffers that are freed but were never allocated; buffers with a category but no
// allocation, with their size; and, without category, the rest of the total that the first instant gives.
// A second allocation at an address in use changes the buffer's size: INCREMENT_VERSION removes the old size and adds the new one.
//
// torch infers a buffer's category from the data flow of Python objects; here the recorder states it, and the default is TEMPORARY.
// Invariant: a category's size never falls below 0, and a life removes what it added.

import { sortByTime } from '../model/sort-by-time.ts';
import type { KinetoTable } from './kineto-table.ts';

/** torch's categories in the order of its files; `UNKNOWN` is its None. */
export const memoryCategories = [
  'PARAMETER',
  'OPTIMIZER_STATE',
  'INPUT',
  'TEMPORARY',
  'ACTIVATION',
  'GRADIENT',
  'AUTOGRAD_DETAIL',
  'UNKNOWN',
] as const;

export type MemoryCategory = (typeof memoryCategories)[number];

/** torch's numbers for the events of a buffer. */
export const memoryAction = { PREEXISTING: 1, CREATE: 2, INCREMENT_VERSION: 3, DESTROY: 4 } as const;

export type MemoryAction = (typeof memoryAction)[keyof typeof memoryAction];

/** One event of one buffer. */
export interface MemoryTimelineEvent {
  /** ns from `MemoryTimeline.epoch`; undefined for memory from before the recording. */
  readonly time: number | undefined;
  readonly action: MemoryAction;
  /** Negative for removed memory. */
  readonly bytes: number;
  /** Index into `memoryCategories`. */
  readonly category: number;
}

export interface MemoryTimeline {
  readonly device: 'cpu' | 'device';
  /** Unix time of time 0, ns; 0 if the recording has no wall clock. */
  readonly epoch: bigint;
  /** Memory from before the recording first, then in order of time. */
  readonly events: readonly MemoryTimelineEvent[];
  /** Whole µs from the epoch's own µs, ascending: each µs with an event. */
  readonly times: Float64Array;
  /** By category, in the order of `memoryCategories`: bytes from each of `times` on. */
  readonly sizes: readonly Float64Array[];
}

export interface MemoryTimelineOptions {
  /** The memory to show; default: the device's, if there is any. */
  readonly device?: 'cpu' | 'device' | undefined;
}

/** c10::DeviceType of memory in host memory (CPU, MKLDNN, IDEEP). */
const hostTypes: ReadonlySet<number> = new Set([0, 2, 5]);

const temporary = memoryCategories.indexOf('TEMPORARY');
const unknown = memoryCategories.indexOf('UNKNOWN');

/** A buffer from its allocation on. Its events get their category at the end of its life, when the category is final. */
interface Life {
  bytes: number;
  category: number;
  readonly events: { category: number }[];
}

/** The memory timeline of a recording; without allocator instants it has no events. */
export function memoryTimeline(table: KinetoTable, options: MemoryTimelineOptions = {}): MemoryTimeline {
  const device = options.device ?? (hasDeviceMemory(table) ? 'device' : 'cpu');
  const { before, happened } = livesOf(table, device);
  const events = [...before, ...happened];

  // Events of one unix µs share one step of the plot.
  const steps: number[] = [];
  const withinMicro = Number(table.epoch % 1000n);
  const first = happened[0]?.time ?? 0;
  const stepOf = (event: MemoryTimelineEvent): number => Math.floor(((event.time ?? first) + withinMicro) / 1000);
  for (const event of events) if (steps.length === 0 || stepOf(event) !== steps.at(-1)) steps.push(stepOf(event));
  const times = Float64Array.from(steps);
  const sizes = memoryCategories.map(() => new Float64Array(times.length));
  const now = memoryCategories.map(() => 0);
  let next = 0;
  for (const [step, time] of times.entries()) {
    for (; next < events.length && stepOf(events[next] as MemoryTimelineEvent) === time; next++) {
      const { category, bytes } = events[next] as MemoryTimelineEvent;
      now[category] = (now[category] as number) + bytes;
    }
    for (const [category, bytes] of now.entries()) (sizes[category] as Float64Array)[step] = bytes;
  }
  return { device, epoch: table.epoch, events, times, sizes };
}

/**
 * torch's `.json`: `[times, sizes]`, times in unix µs, sizes as a row for each time: a 0 to stack on, then bytes by category in the
 * order of `memoryCategories`.
 */
export function memoryTimelineJson({ epoch, times, sizes }: MemoryTimeline): string {
  const at = (micros: number): string => String(epoch / 1000n + BigInt(micros));
  const rows = Array.from(times, (_, step) => `[${[0, ...sizes.map((bytes) => bytes[step] as number)].join(', ')}]`);
  return `[[${Array.from(times, at).join(', ')}], [${rows.join(', ')}]]`;
}

/** torch's `.raw.json`: a list `[time, action, bytes, category]` of each event; unix ns, -1 for memory from before the recording. */
export function memoryTimelineRawJson({ epoch, events }: MemoryTimeline): string {
  const rows = events.map(({ time, action, bytes, category }) => {
    return `[${time === undefined ? -1 : epoch + BigInt(Math.round(time))}, ${action}, ${bytes}, ${category}]`;
  });
  return `[${rows.join(', ')}]`;
}

function hasDeviceMemory({ memory }: KinetoTable): boolean {
  for (let row = 0; row < memory.length; row++) if (!hostTypes.has(memory.columns.deviceType[row] as number)) return true;
  return false;
}

interface Happening extends MemoryTimelineEvent {
  category: number;
}

function livesOf(table: KinetoTable, device: MemoryTimeline['device']): { before: Happening[]; happened: Happening[] } {
  const { memory, memoryCategories: said } = table;
  const isWanted = (deviceType: number | undefined): boolean => hostTypes.has(deviceType as number) === (device === 'cpu');
  const allocator = table.strings.find('[memory]');
  const rows = sortByTime(memory.columns.time, memory.columns.time, memory.length).filter(
    (row) => memory.columns.name[row] === allocator && isWanted(memory.columns.deviceType[row]),
  );
  const words = sortByTime(said.columns.time, said.columns.time, said.length).filter((row) => isWanted(said.columns.deviceType[row]));

  const before: Happening[] = [];
  const happened: Happening[] = [];
  const live = new Map<number, Life>();
  /** Buffers with a known category, but no allocation so far. */
  const named = new Map<number, Life>();
  const gone = new Set<number>();
  const add = (life: Life, time: number | undefined, action: MemoryAction, bytes: number): void => {
    const event = { time, action, bytes, category: temporary };
    life.events.push(event);
    (time === undefined ? before : happened).push(event);
  };
  /** The buffer at an address; if there is none, a new one from before the recording. */
  const preexisting = (address: number, bytes: number): Life => {
    const life: Life = named.get(address) ?? { bytes, category: temporary, events: [] };
    named.delete(address);
    life.bytes = bytes;
    add(life, undefined, memoryAction.PREEXISTING, bytes);
    return life;
  };
  const ends = (life: Life): void => {
    for (const event of life.events) event.category = life.category;
  };

  let word = 0;
  const hear = (row: number): void => {
    const address = said.columns.address[row] as number;
    if (gone.has(address)) return;
    const life = live.get(address) ?? named.get(address) ?? { bytes: 0, category: temporary, events: [] };
    life.category = categoryOf(table.strings.get(said.columns.category[row] as number));
    if (live.has(address)) return;
    life.bytes = Math.max(life.bytes, said.columns.bytes[row] as number);
    named.set(address, life);
  };
  for (const row of rows) {
    const time = memory.columns.time[row] as number;
    const bytes = memory.columns.bytes[row] as number;
    const address = memory.columns.address[row] as number;
    // A category at the time of an allocation belongs to the new buffer; at the time of a free, to the freed one.
    for (; word < words.length; word++) {
      const at = said.columns.time[words[word] as number] as number;
      if (at > time || (at === time && bytes > 0)) break;
      hear(words[word] as number);
    }
    let life = live.get(address);
    if (bytes > 0) {
      if (life === undefined) {
        // An earlier buffer at this address was there before the recording; its end was not recorded.
        named.delete(address);
        gone.delete(address);
        life = { bytes, category: temporary, events: [] };
        live.set(address, life);
        add(life, time, memoryAction.CREATE, bytes);
      } else {
        add(life, time, memoryAction.INCREMENT_VERSION, -life.bytes);
        add(life, time, memoryAction.INCREMENT_VERSION, bytes);
        life.bytes = bytes;
      }
    } else if (bytes < 0) {
      life ??= preexisting(address, -bytes);
      add(life, time, memoryAction.DESTROY, -life.bytes);
      live.delete(address);
      gone.add(address);
      ends(life);
    }
  }
  for (; word < words.length; word++) hear(words[word] as number);
  for (const [address, life] of named) {
    if (life.bytes === 0) continue;
    live.set(address, preexisting(address, life.bytes));
  }
  for (const life of live.values()) ends(life);

  // The rest of the memory allocated before the first instant.
  const [firstRow] = rows;
  if (firstRow !== undefined) {
    const { totalAllocated, bytes } = memory.columns;
    const known = before.reduce((sum, event) => sum + event.bytes, 0);
    const rest = (totalAllocated[firstRow] as number) - (bytes[firstRow] as number) - known;
    if (rest > 0) before.push({ time: undefined, action: memoryAction.PREEXISTING, bytes: rest, category: unknown });
  }
  return { before, happened };
}

/** The category for a text; unknown texts have none. */
function categoryOf(text: string): number {
  const index = (memoryCategories as readonly string[]).indexOf(text.toUpperCase());
  return index < 0 ? unknown : index;
}

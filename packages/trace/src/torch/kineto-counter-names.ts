// Names of the series of a file's counters, for one counter name may be several:
//
//   C  mem  pid 5  id "0x1f"  {a, b}      →  mem[0x1f] a, mem[0x1f] b       ids always; keys where the name has several of them in the file
//   C  mem  pid 6  {a}                    →  process 6 · mem a              processes where several have a counter of that name
//
// Which keys and processes there are is known at the end of the file alone, so rows get the index of a text that is set then.

import type { ReadBudget } from '../model/read-budget.ts';
import type { StringTable } from '../model/string-table.ts';

interface Counter {
  readonly name: string;
  readonly firstPid: number;
  readonly firstKey: string;
  hasProcesses: boolean;
  hasKeys: boolean;
}

interface Series {
  readonly index: number;
  readonly counter: Counter;
  readonly pid: number;
  readonly id: string;
  readonly key: string;
}

/** Characters of an id that tell counters apart. */
const idCharsMax = 256;
/** A series and its entry in the map, beside texts. */
const seriesBytes = 512;

export class KinetoCounterNames {
  readonly #strings: StringTable;
  readonly #budget: ReadBudget;
  readonly #counters = new Map<number, Counter>();
  readonly #series = new Map<string, Series>();

  constructor(strings: StringTable, budget: ReadBudget) {
    this.#strings = strings;
    this.#budget = budget;
  }

  /** The index of a series' name. `name`: that of the counter in the file; `id`: empty for none. Throws TraceError. */
  index(name: number, pid: number, id: string, key: string): number {
    const shortId = id.slice(0, idCharsMax);
    const about = `${name} ${pid} ${shortId.length} ${shortId}${key}`;
    const known = this.#series.get(about);
    if (known !== undefined) return known.index;
    let counter = this.#counters.get(name);
    if (counter === undefined) {
      counter = { name: this.#strings.get(name), firstPid: pid, firstKey: key, hasProcesses: false, hasKeys: false };
      this.#counters.set(name, counter);
    }
    counter.hasProcesses ||= pid !== counter.firstPid;
    counter.hasKeys ||= key !== counter.firstKey;
    this.#budget.take(seriesBytes + 2 * about.length);
    const series = { counter, pid, id: shortId, key };
    // The longest name that it may get: its memory is charged now.
    const index = this.#strings.add(nameOf({ ...series, counter: { ...counter, hasProcesses: true, hasKeys: true } }));
    this.#series.set(about, { ...series, index });
    return index;
  }

  /** Names all series: the file has ended. */
  finish(): void {
    for (const series of this.#series.values()) this.#strings.set(series.index, nameOf(series));
  }
}

function nameOf({ counter: { name, hasProcesses, hasKeys }, pid, id, key }: Omit<Series, 'index'>): string {
  return `${hasProcesses ? `process ${pid} · ` : ''}${name}${id === '' ? '' : `[${id}]`}${hasKeys ? ` ${key}` : ''}`;
}

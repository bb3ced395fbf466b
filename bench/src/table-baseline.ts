// Key averages as a straightforward program computes them: the baseline of `npm run bench -- table`.

export interface PlainEvent {
  readonly ph: string;
  readonly name: string;
  readonly ts: number;
  readonly dur: number;
  readonly tid: number | string;
  readonly pid: number | string;
  readonly args?: { readonly 'Input Dims'?: unknown; readonly Bytes?: number };
}

interface Node {
  readonly event: PlainEvent;
  self: number;
}

/** Sorts the objects, keeps a stack a thread, and rows in a Map; gives their number. It leaves out flops, folding and devices. */
export function averagesOfObjects(objects: readonly PlainEvent[]): number {
  const memory = objects.filter((event) => event.ph !== 'X').sort((a, b) => a.ts - b.ts);
  const events = objects.filter((event) => event.ph === 'X').sort((a, b) => a.ts - b.ts || b.dur - a.dur);
  const threads = new Map<number | string, Node[]>();
  const nodes: Node[] = [];
  const rows = new Map<string, { count: number; total: number; self: number; memory: number }>();
  const bytesIn = (from: number, to: number): number => {
    let low = 0;
    for (let high = memory.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if ((memory[middle] as PlainEvent).ts < from) low = middle + 1;
      else high = middle;
    }
    let bytes = 0;
    for (; low < memory.length && (memory[low] as PlainEvent).ts <= to; low++) bytes += (memory[low] as PlainEvent).args?.Bytes ?? 0;
    return bytes;
  };
  for (const event of events) {
    const stack = threads.get(event.tid) ?? [];
    threads.set(event.tid, stack);
    const node = { event, self: event.dur };
    nodes.push(node);
    for (let parent = stack.at(-1); parent !== undefined; parent = stack.at(-1)) {
      const end = parent.event.ts + parent.event.dur;
      if (event.ts < end && event.ts + event.dur <= end) {
        parent.self -= event.dur;
        break;
      }
      stack.pop();
    }
    stack.push(node);
  }
  for (const { event, self } of nodes) {
    const key = `${event.name} ${JSON.stringify(event.args?.['Input Dims'])}`;
    const row = rows.get(key) ?? { count: 0, total: 0, self: 0, memory: 0 };
    row.count++;
    row.total += event.dur;
    row.self += self;
    row.memory += bytesIn(event.ts, event.ts + event.dur);
    rows.set(key, row);
  }
  return rows.size;
}

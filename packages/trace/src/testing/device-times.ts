// Launching op of all device work, computed from the text of a torch.profiler file in the plainest way.

interface JsonEvent {
  readonly ph: string;
  readonly cat?: string;
  readonly name: string;
  readonly pid: number | string;
  readonly tid: number | string;
  readonly ts: number;
  readonly dur: number;
  readonly args: Readonly<Record<string, number>>;
}

/**
 * Device time of each op by itself, µs, by name: each kernel, found by its call's correlation, is charged to the shortest op around that call on
 * its thread, of equal ones to the last.
 */
export function deviceTimes(text: string): Map<string, number> {
  const { traceEvents } = JSON.parse(text) as { traceEvents: readonly JsonEvent[] };
  const spans = traceEvents.filter(({ ph, pid }) => ph === 'X' && typeof pid === 'number');
  const of = (...categories: string[]): readonly JsonEvent[] => spans.filter(({ cat = '' }) => categories.includes(cat));
  const ops = new Map<number | string, JsonEvent[]>();
  for (const op of of('cpu_op', 'user_annotation', 'Operator')) {
    const ofThread = ops.get(op.tid);
    if (ofThread === undefined) ops.set(op.tid, [op]);
    else ofThread.push(op);
  }
  const calls = new Map(of('cuda_runtime', 'Runtime').map((call) => [call.args.correlation, call]));
  const times = new Map<string, number>();
  for (const kernel of of('kernel', 'gpu_memcpy', 'gpu_memset', 'Kernel', 'Memcpy', 'Memset')) {
    const call = calls.get(kernel.args.correlation);
    if (call === undefined) continue;
    const around = (ops.get(call.tid) ?? []).filter(({ ts, dur }) => ts <= call.ts && call.ts < ts + dur);
    const op = around.reduce<JsonEvent | undefined>((least, one) => (least === undefined || one.dur <= least.dur ? one : least), undefined);
    if (op !== undefined) times.set(op.name, (times.get(op.name) ?? 0) + kernel.dur);
  }
  return times;
}

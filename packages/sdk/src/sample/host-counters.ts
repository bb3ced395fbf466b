// Counters of a rank's process and its host: one call about once a second, on the shipper's thread, some tens of µs and as much again for each
// thread of the process.
//
// Process CPU and memory are the whole process's, whichever thread asks; `shipper cpu` is the asking thread's own.

import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { cpuWaitCounter, cpuWaitTimeCounter } from '@ranktrace/protocol';
import { sampleLimits } from './sample-limits.ts';

export interface HostCounter {
  readonly name: 'process cpu' | 'system cpu' | 'rss' | 'shipper cpu' | typeof cpuWaitCounter | typeof cpuWaitTimeCounter;
  readonly value: number;
  readonly unit: '%' | 'bytes';
}

/** Cumulative readings, of which only differences mean something. */
interface Readings {
  readonly atMs: number;
  /** CPU time of all threads of this process, ms. */
  readonly processMs: number;
  /** CPU time of this thread, ms; undefined if the system does not report it. */
  readonly threadMs: number | undefined;
  readonly threads: ThreadsRead;
  /** Time of all cores together and its busy part, in a unit of their own; undefined if the system does not report it. */
  readonly cores: { readonly total: number; readonly busy: number } | undefined;
}

/** Times of a thread since its begin, ns. */
interface ThreadTimes {
  readonly onCpu: number;
  /** Ready to run, on no CPU. */
  readonly waited: number;
}

interface ThreadsRead {
  /** By the system's number of the thread; empty if the system does not report times. */
  readonly times: ReadonlyMap<string, ThreadTimes>;
  /** Whether these are all threads of the process. */
  readonly areAll: boolean;
}

/** Reads the counters, each time for the time since the last call. */
export class HostCounters {
  readonly #nowMs: () => number;
  #before: Readings | undefined;

  /** `nowMs`: a monotonic clock, ms. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /**
   * `process cpu`: % of one core, over 100 when several are used. `system cpu`: % of all cores of the host. `rss`: bytes. `shipper cpu`: % of
   * one core. `cpu wait`: % of the time that threads wanted a CPU, in which they had none; `cpu wait time`: the same time, all threads together,
   * as % of all time. Leaves out unknown values; the first sample has no rates.
   */
  sample(): readonly HostCounter[] {
    const before = this.#before;
    const now = this.#read();
    const counters: HostCounter[] = [{ name: 'rss', value: process.memoryUsage.rss(), unit: 'bytes' }];
    const passedMs = before === undefined ? 0 : now.atMs - before.atMs;
    if (before !== undefined && passedMs < sampleLimits.hostIntervalMsMin) return counters;
    this.#before = now;
    if (before === undefined) return counters;

    const percent = (name: HostCounter['name'], part: number, whole: number) => {
      if (whole > 0 && part >= 0) counters.push({ name, value: (part / whole) * 100, unit: '%' });
    };
    percent('process cpu', now.processMs - before.processMs, passedMs);
    if (now.cores && before.cores) percent('system cpu', now.cores.busy - before.cores.busy, now.cores.total - before.cores.total);
    if (now.threadMs !== undefined && before.threadMs !== undefined) percent('shipper cpu', now.threadMs - before.threadMs, passedMs);
    const { onCpu, waited } = passed(before.threads, now.threads);
    if (onCpu > 0) {
      percent(cpuWaitCounter, waited, onCpu + waited);
      percent(cpuWaitTimeCounter, waited / 1e6, passedMs);
    }
    return counters;
  }

  #read(): Readings {
    const { user, system } = process.cpuUsage();
    return { atMs: this.#nowMs(), processMs: (user + system) / 1000, threadMs: readThreadMs(), threads: readThreads(), cores: readCores() };
  }
}

/** proc(5): the first number of schedstat is the ns spent on a CPU. A kernel without CONFIG_SCHED_INFO has no such file, or zeros. */
function readThreadMs(): number | undefined {
  const ns = Number(read('/proc/thread-self/schedstat')?.split(' ', 1)[0]);
  return ns > 0 ? ns / 1e6 : undefined;
}

/** proc(5): schedstat of a thread is ns on a CPU, ns ready without one, and how often it ran. */
function readThreads(): ThreadsRead {
  const threads = threadsOfProcess();
  const times = new Map<string, ThreadTimes>();
  for (const thread of threads.slice(0, sampleLimits.threadsMax)) {
    const [onCpu, waited] = (read(`/proc/self/task/${thread}/schedstat`)?.split(' ', 2) ?? []).map(Number);
    if (onCpu !== undefined && waited !== undefined && Number.isFinite(onCpu + waited)) times.set(thread, { onCpu, waited });
  }
  // Without a free descriptor some or all are missing.
  return { times, areAll: times.size > 0 && times.size === threads.length };
}

/**
 * Times of all threads together between two readings. A thread that ended counts in neither: the later reading lacks all that it ever had. A new one counts
 * from its begin, unless it may be an old one that was not read before.
 */
function passed(before: ThreadsRead, now: ThreadsRead): ThreadTimes {
  let [onCpu, waited] = [0, 0];
  for (const [thread, times] of now.times) {
    const known = before.times.get(thread);
    if (known === undefined && !before.areAll) continue;
    // The system may give a new thread the number of one that ended.
    const from = known !== undefined && known.onCpu <= times.onCpu && known.waited <= times.waited ? known : { onCpu: 0, waited: 0 };
    onCpu += times.onCpu - from.onCpu;
    waited += times.waited - from.waited;
  }
  return { onCpu, waited };
}

function threadsOfProcess(): readonly string[] {
  try {
    return readdirSync('/proc/self/task');
  } catch {
    return [];
  }
}

/** proc(5): user nice system idle iowait irq softirq steal …; later numbers are part of user and nice already. */
function readCores(): Readings['cores'] {
  const line = read('/proc/stat')?.split('\n', 1)[0];
  if (line?.startsWith('cpu ')) {
    const times = line.trim().split(/\s+/).slice(1, 9).map(Number);
    const total = times.reduce((sum, time) => sum + time, 0);
    return { total, busy: total - (times[3] ?? 0) - (times[4] ?? 0) };
  }
  // Slower, so only elsewhere: on Linux it reads two more files per core.
  let total = 0;
  let idle = 0;
  for (const { times } of cpus()) {
    total += times.user + times.nice + times.sys + times.idle + times.irq;
    idle += times.idle;
  }
  return total > 0 ? { total, busy: total - idle } : undefined;
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return undefined;
  }
}

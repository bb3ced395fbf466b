// What /proc says of processes: whether one goes on, its user, its parent, its age, its command.

import { readdirSync, readFileSync, statSync } from 'node:fs';

/** A life of a process: its number may be used again. */
export interface ProcessLife {
  readonly pid: number;
  /** Start, ticks after boot. */
  readonly start: number;
  readonly parent: number;
}

/** The life of process `pid` now; undefined where there is none, or it is dead and only not waited for. */
export function processLife(pid: number): ProcessLife | undefined {
  try {
    // proc(5), stat: state is the 3rd field, parent the 4th, start the 22nd; the name before them may hold anything.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return { pid, start: Number(fields[19]), parent: Number(fields[1]) };
  } catch {
    return undefined;
  }
}

/** User of process `pid`; undefined where there is none. */
export function userOf(pid: number): number | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}

/** Whether `ancestor` is a parent of `pid`, or a parent's parent. */
export function descends(pid: number, ancestor: number): boolean {
  for (let at = processLife(pid)?.parent ?? 0, steps = 0; at > 1 && steps < 64; at = processLife(at)?.parent ?? 0, steps++) {
    if (at === ancestor) return true;
  }
  return false;
}

/** The nearest of `pids` that `pid` is, or descends from; undefined where there is none. */
export function nearestAmong(pids: ReadonlySet<number>, pid: number): number | undefined {
  for (let at = pid, steps = 0; at > 1 && steps < 64; at = processLife(at)?.parent ?? 0, steps++) if (pids.has(at)) return at;
  return undefined;
}

/** The processes that `ancestor` started, and those that these started; oldest first. */
export function descendantsOf(ancestor: number): readonly ProcessLife[] {
  const lives = processes().flatMap((pid) => processLife(pid) ?? []);
  const parents = new Map(lives.map(({ pid, parent }) => [pid, parent]));
  const isWithin = (pid: number): boolean => {
    for (let at = parents.get(pid), steps = 0; at !== undefined && steps < 64; at = parents.get(at), steps++)
      if (at === ancestor) return true;
    return false;
  };
  return lives.filter(({ pid }) => isWithin(pid)).sort((a, b) => a.start - b.start);
}

/** Process `pid` in each namespace that it is in, from ours to its own: a process of a container knows itself by the last; empty where there is none. */
export function numbersOf(pid: number): readonly number[] {
  try {
    const [, numbers = ''] = /^NSpid:([\s\d]*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return numbers.trim().split(/\s+/).map(Number);
  } catch {
    return [];
  }
}

/** The program and arguments of process `pid`; empty where there is none. */
export function commandOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** Numbers of all processes. */
export function processes(): readonly number[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  } catch {
    return [];
  }
}

// The runs of an output directory that may still go on when the service starts: their alerts are open, and a silent rank of theirs is one that stopped.

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { decodeBatchHeader, isBeside } from '@ranktrace/protocol';
import type { AlertEngine, AlertEngineState } from '@ranktrace/trace/alert';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { alertStateName, listSegments, readRunFile } from '../store/run-directory.ts';
import { RunLock } from '../store/run-lock.ts';
import type { RunStore } from '../store/run-store.ts';

/**
 * The runs of `names` that are not over, the last heard first: none without a batch for `alertResumeMsMax`, none that another process writes, and
 * `alertResumedRunsMax` at most. `nowMs`: Unix time.
 */
export function unfinishedRuns(out: string, names: readonly string[], nowMs: number): string[] {
  const heard = names.map((name) => ({ name, ms: lastHeardMs(join(out, name)) })).filter(({ ms }) => nowMs - ms < limits.alertResumeMsMax);
  return heard
    .sort((a, b) => b.ms - a.ms)
    .slice(0, limits.alertResumedRunsMax)
    .filter(({ name }) => isNamed(join(out, name), name) && !isOver(join(out, name)) && !RunLock.isHeld(join(out, name)))
    .map(({ name }) => name);
}

/** Shows an engine the ranks of its run as the store has them: the state of a killed service may be older than they are. */
export function meetStoredRanks(engine: AlertEngine, store: RunStore, nowMs: number): void {
  for (const source of store.sources()) {
    const { rank, incarnation, isLatest, count } = source;
    if (!isLatest || isBeside(incarnation) || engine.hasEnded(rank, incarnation)) continue;
    let bytes: Uint8Array | undefined;
    for (let index = count - 1; index >= 0 && bytes === undefined; index--) bytes = source.read(index);
    if (bytes === undefined) continue;
    const { worldSize, host, last: ended } = decodeBatchHeader(bytes);
    engine.meet(rank, { worldSize, host, incarnation, ended }, nowMs);
  }
}

/** When the run's last batch was written, Unix ms; −Infinity where there is none. */
function lastHeardMs(directory: string): number {
  try {
    const newest = listSegments(directory).at(-1);
    return newest === undefined ? Number.NEGATIVE_INFINITY : statSync(newest.path).mtimeMs;
  } catch {
    return Number.NEGATIVE_INFINITY; // it is being removed, or cannot be read: opening it would report why
  }
}

/** Whether the run has the name of its directory: a directory that was renamed, or copied, gets no batch. */
function isNamed(directory: string, name: string): boolean {
  try {
    return readRunFile(directory) === name;
  } catch {
    return true; // opening it reports why it cannot be read
  }
}

function isOver(directory: string): boolean {
  try {
    const state = JSON.parse(readFileSync(join(directory, alertStateName), 'utf8')) as AlertEngineState;
    return state.isOver ?? state.ranks.every(([, { ended }]) => ended);
  } catch {
    return false; // there is none yet: the store knows
  }
}

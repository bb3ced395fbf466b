// The file in a run's directory that holds the state behind its alerts: that of the engine, the facts about its ranks, and what each output has taken.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AlertEngineState } from '@ranktrace/trace/alert';
import { messageOf, systemCode } from '../model/errors.ts';
import { alertStateName } from '../store/run-directory.ts';
import type { SavedRankFacts } from './batch-facts.ts';
import type { DeliveryMark } from './delivery-marks.ts';

export interface SavedAlertState extends AlertEngineState {
  /** Absent in states of older services. */
  readonly delivered?: readonly DeliveryMark[];
  /** Absent in states of older services. */
  readonly facts?: readonly SavedRankFacts[];
  /** Batches of the run that the state is about; with more in the store, ranks came further. Absent in states of older services. */
  readonly batches?: number;
}

/** The state of `run` in `directory`; undefined where there is none of this version. Never throws: what is unreadable is reported. */
export function readAlertState(directory: string, run: string, onNotice: (notice: string) => void): SavedAlertState | undefined {
  const path = join(directory, alertStateName);
  try {
    const state = JSON.parse(readFileSync(path, 'utf8')) as SavedAlertState;
    return state.version === 1 && state.run === run ? state : undefined;
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') onNotice(`"${path}" is left out: ${messageOf(error)}`);
    return undefined;
  }
}

/** Replaces the state at once, so that a kill leaves a whole one. Never throws: a failure is reported. */
export function writeAlertState(directory: string, state: SavedAlertState, onNotice: (notice: string) => void): void {
  const path = join(directory, alertStateName);
  const draft = `${path}.partial`;
  try {
    writeFileSync(draft, JSON.stringify(state));
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    onNotice(`"${path}" is not written: ${messageOf(error)}`);
  }
}

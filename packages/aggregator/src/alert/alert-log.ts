// The alerts of a run on disk: each report of an alert appends one line of JSON to `<run>/alerts.jsonl`; the last line of an alert is its current
// state.
//
// Invariant: the file is bounded: a full one is written anew with the last line of each of the newest alerts. Readers skip and count unreadable lines
// (a torn last line, another version's).

import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Alert, alertSchema } from '@ranktrace/protocol';
import { systemCode } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { guard } from '../store/segment-writer.ts';

const logName = 'alerts.jsonl';

/** Contents of a run's log: alerts in their current state, in order of their first line, and the number of unreadable lines. */
export interface ReadAlerts {
  readonly alerts: readonly Alert[];
  readonly unreadable: number;
}

/** The alerts of the run in `directory`; none where there is no log. Throws AggregatorError `store_unreadable` where it cannot be read. */
export function readAlertLog(directory: string): ReadAlerts {
  const path = join(directory, logName);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return { alerts: [], unreadable: 0 };
    throw error;
  }
  const alerts = new Map<string, Alert>();
  let unreadable = 0;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const alert = alertOf(line);
    if (alert === undefined) unreadable++;
    else alerts.set(alert.id, alert);
  }
  return { alerts: [...alerts.values()], unreadable };
}

function alertOf(line: string): Alert | undefined {
  try {
    return alertSchema.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

/** Appends to the log of one run. */
export class AlertLog {
  readonly #path: string;
  #bytes: number;
  /** Keeps a line that a killed service or a full disk left unfinished apart from the next one. */
  #needsNewline: boolean;

  constructor(directory: string) {
    this.#path = join(directory, logName);
    let text = '';
    try {
      text = readFileSync(this.#path, 'utf8');
    } catch {
      // The file does not exist yet; if it is unreadable, appending reports why.
    }
    this.#bytes = Buffer.byteLength(text);
    this.#needsNewline = text !== '' && !text.endsWith('\n');
  }

  /** Throws AggregatorError `store_full` or `store_write_failed`. `kept`: all alerts in their current state, oldest first. */
  append(alert: Alert, kept: Iterable<Alert>): void {
    const line = `${this.#needsNewline ? '\n' : ''}${JSON.stringify(alert)}\n`;
    if (this.#bytes + line.length > limits.alertLogBytesMax) {
      this.#rewrite(kept);
      return;
    }
    try {
      guard(this.#path, () => appendFileSync(this.#path, line));
    } catch (error) {
      this.#needsNewline = true; // a full disk may have taken the beginning of the line
      throw error;
    }
    this.#bytes += Buffer.byteLength(line);
    this.#needsNewline = false;
  }

  /** Keeps the newest alerts, as many as half of the file holds. */
  #rewrite(kept: Iterable<Alert>): void {
    const lines: string[] = [];
    let bytes = 0;
    for (const alert of [...kept].reverse()) {
      const line = `${JSON.stringify(alert)}\n`;
      bytes += Buffer.byteLength(line);
      if (bytes > limits.alertLogBytesMax / 2) break;
      lines.push(line);
    }
    const text = lines.reverse().join('');
    const draft = `${this.#path}.partial`;
    guard(this.#path, () => {
      try {
        writeFileSync(draft, text);
        renameSync(draft, this.#path);
      } finally {
        rmSync(draft, { force: true });
      }
    });
    this.#bytes = Buffer.byteLength(text);
    this.#needsNewline = false;
  }
}

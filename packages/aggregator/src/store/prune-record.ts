// `pruned.json` in a run's directory: a record of its prunings for people and scripts. Reports and the page take the same facts from the headers of
// the remaining batches; no code decides anything by this file.
//
//   { "detail": { "steps": [0, 12000], "on": "2026-01-31" }, "steps": …, "traces": [{ "name": "trace.pftrace", "on": "2026-01-31" }] }

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { PrunedWhat } from './batch-summary.ts';
import { guard } from './segment-writer.ts';

const partSchema = z.object({ steps: z.tuple([z.number(), z.number()]).optional(), on: z.string() });
const recordSchema = z.object({
  detail: partSchema.optional(),
  steps: partSchema.optional(),
  traces: z.array(z.object({ name: z.string(), on: z.string() })).optional(),
});
type PruneRecord = z.infer<typeof recordSchema>;

/** Notes that steps were pruned. Throws AggregatorError `store_…`. */
export function recordPruned(
  directory: string,
  { what, steps, on }: { readonly what: PrunedWhat; readonly steps: readonly [number, number] | undefined; readonly on: string },
): void {
  const record = readRecord(directory);
  const before = record[what]?.steps ?? steps;
  const all: [number, number] | undefined = before && [
    Math.min(before[0], steps?.[0] ?? before[0]),
    Math.max(before[1], steps?.[1] ?? before[1]),
  ];
  writeRecord(directory, { ...record, [what]: { ...(all && { steps: all }), on } });
}

/** Notes that a trace file was removed. Throws AggregatorError `store_…`. */
export function recordTrace(directory: string, name: string, on: string): void {
  const record = readRecord(directory);
  const traces = [...(record.traces ?? []), { name, on }].slice(-limits.prunedTracesMax);
  writeRecord(directory, { ...record, traces });
}

/** Starts an unreadable record anew: it decides nothing. */
function readRecord(directory: string): PruneRecord {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(join(directory, 'pruned.json'), 'utf8')));
  } catch {
    return {};
  }
}

function writeRecord(directory: string, record: PruneRecord): void {
  const path = join(directory, 'pruned.json');
  guard(path, () => {
    try {
      writeFileSync(`${path}.partial`, `${JSON.stringify(record)}\n`, { flush: true });
      renameSync(`${path}.partial`, path);
    } finally {
      rmSync(`${path}.partial`, { force: true });
    }
  });
}

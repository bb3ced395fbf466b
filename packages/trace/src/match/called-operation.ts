// Which operation the ranks of one collective called, where they should have called the same.

import { isSameOperation } from '@ranktrace/protocol';

/** One rank's call. */
export interface OperationCall {
  readonly rank: number;
  readonly op: string;
}

/** The operation that most of these called under one number (at least one call), and those that called another one: neither can end. */
export function calledOperation<Call extends OperationCall>(calls: readonly Call[]): { readonly op: string; readonly differing: Call[] } {
  const counts = new Map<string, number>();
  for (const { op } of calls) {
    const known = [...counts.keys()].find((other) => isSameOperation(other, op)) ?? op;
    counts.set(known, (counts.get(known) ?? 0) + 1);
  }
  const [[op] = ['']] = [...counts].sort(([, a], [, b]) => b - a);
  return { op, differing: calls.filter((call) => !isSameOperation(call.op, op)) };
}

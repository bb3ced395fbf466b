// The name of one life of a rank. Two lives that begin in one ms, in one process or in containers whose process is number 1, get different ones.

import { randomBytes } from 'node:crypto';

/**
 * `<start, ms>-<64 random bits>-<process>`, each in base 36: a later life sorts later, and people see the process.
 *
 * @example 'mwryzeij-1qx9a4v0k2e7h-ent'
 */
export function newIncarnation(): string {
  const random = randomBytes(8).readBigUInt64LE().toString(36).padStart(13, '0');
  return `${Date.now().toString(36)}-${random}-${process.pid.toString(36)}`;
}

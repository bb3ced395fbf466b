// Identifies the monotonic clock of this process: on Linux by the boot id, the same in every container of the host.

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** Identity of this host's clock, as ranks on the same host find it too. */
export function hostId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return hostname();
  }
}

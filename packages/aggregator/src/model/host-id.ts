// Identifies the monotonic clock of this process: on Linux by the boot id, the same in every container of the host, and by the offset that a container's
// time namespace gives its clock.

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** Identity of this host's clock, as ranks on the same host find it too. */
export function hostId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() + clockOffset();
  } catch {
    return hostname();
  }
}

/** `+500.0` where this process reads a clock that is ahead of its host's by 500 s; '' where it reads the host's. */
function clockOffset(): string {
  try {
    const [, seconds = '0', nanos = '0'] = /^monotonic +(-?\d+) +(\d+)$/m.exec(readFileSync('/proc/self/timens_offsets', 'utf8')) ?? [];
    return Number(seconds) === 0 && Number(nanos) === 0 ? '' : `+${seconds}.${nanos}`;
  } catch {
    return '';
  }
}

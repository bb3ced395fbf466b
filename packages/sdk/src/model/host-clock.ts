// The monotonic clock that all processes of this host read, and the name by which a merge knows it: CLOCK_MONOTONIC and the boot id.
//
// A test of several hosts on one machine needs hosts whose clocks differ, but the machine has only one kernel: with a test clock
// (RANKTRACE_TEST_CLOCK) this process acts as if its host's clock had another offset and rate, and its host another name.
//
//   host clock = true + true · drift + offset      true: CLOCK_MONOTONIC, ns
//
// A function of CLOCK_MONOTONIC alone, so all processes with the same test clock are ranks of one host.
// Invariants: all data that leaves the process (epoch, times of events, pings, wall clock readings) is on this clock; data inside
// (`Session.epochNs`, the rings) is on the true one, and the shipper worker converts it when it reads it.

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { limits } from '@ranktrace/protocol';

/** How another host's clock differs from this machine's. */
export interface TestClock {
  readonly offsetNs: bigint;
  /** ns in a second of this machine's clock. */
  readonly driftNs: bigint;
  readonly host: string;
}

export interface HostClock {
  /** Identifies the clock: processes with the same `host` read the same one. */
  readonly host: string;
  /** The clock now, ns. */
  readonly now: () => bigint;
  /** The clock at `monotonic` ns of CLOCK_MONOTONIC. */
  readonly at: (monotonic: bigint) => bigint;
  /** ns on this clock in a millisecond of CLOCK_MONOTONIC. */
  readonly nsPerMs: number;
}

const nsPerSecond = 1_000_000_000n;

export function hostClock(test?: TestClock): HostClock {
  if (test === undefined) return { host: hostId(), now: process.hrtime.bigint, at: (monotonic) => monotonic, nsPerMs: 1e6 };
  const at = (monotonic: bigint): bigint => monotonic + (monotonic * test.driftNs) / nsPerSecond + test.offsetNs;
  return { host: test.host, now: () => at(process.hrtime.bigint()), at, nsPerMs: 1e6 + Number(test.driftNs) / 1000 };
}

/** The text that `parseTestClock` reads. No negative offset: an epoch is not negative. */
export const testClockSyntax = 'offset_ns=0…10^15,drift_ppm=-500…500,host=NAME';

/** Undefined when `text` is not `testClockSyntax`. */
export function parseTestClock(text: string): TestClock | undefined {
  const [, offset = '', drift = '', host = ''] =
    /^offset_ns=(\d{1,16}),drift_ppm=(-?\d{1,3}(?:\.\d{1,3})?),host=([\w.-]+)$/.exec(text) ?? [];
  const offsetNs = BigInt(offset);
  if (host === '' || host.length > limits.hostCharsMax || offsetNs > 10n ** 15n || Math.abs(Number(drift)) > 500) return undefined;
  return { offsetNs, driftNs: BigInt(Math.round(Number(drift) * 1000)), host };
}

/** The boot id, and the offset of this process's time namespace: processes with the same ones read the same CLOCK_MONOTONIC, in containers too. */
function hostId(): string {
  try {
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${bootId}${clockOffset()}`.slice(0, limits.hostCharsMax);
  } catch {
    return hostname().slice(0, limits.hostCharsMax) || 'unknown';
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

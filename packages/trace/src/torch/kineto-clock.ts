// The clock of a file's times, as our own recorder states it in the member `ranktrace` of its exports:
//
//   host          ranks with the same host read one clock
//   clockEpoch    ns on that clock, and `unixEpoch` ns since 1970, at one moment        so: clock time = Unix time + clockEpoch − unixEpoch
//   clockSamples  pings: [remote host, its epoch, sent, received, remote received, remote sent], ns from `clockEpoch` and from its epoch
//   incarnation   the life of its rank
//
// Without that member, as in torch's own files, times are on a wall clock of an unknown host.
// Invariant: a malformed value counts as absent; a file from outside never fails because of its clock.

import { limits } from '@ranktrace/protocol';
import type { ClockSample } from '../align/clock-evidence.ts';
import type { KinetoTable } from './kineto-table.ts';

export interface KinetoClock {
  readonly host: string;
  readonly incarnation: string;
  /** ns on the clock less ns since 1970. */
  readonly ahead: bigint;
  /** ns on the clock at the recorder's time 0, the zero of the samples. */
  readonly epoch: bigint;
  readonly samples: readonly ClockSample[];
}

const samplesMax = 65_536;
/** Farthest that the file's time 0 may be from the recorder's, ns: a double counts this far exactly. */
const farthest = 2n ** 52n;
const whole = /^-?\d{1,20}$/;

/** Clock of a file; undefined if the file states none. */
export function kinetoClock({ metadata, epoch: tableEpoch }: KinetoTable): KinetoClock | undefined {
  const about = metadata.get('ranktrace');
  if (typeof about !== 'object' || about === null) return undefined;
  const { host, incarnation, clockEpoch, unixEpoch, clockSamples } = about as Readonly<Record<string, unknown>>;
  if (typeof host !== 'string' || host === '' || host.length > limits.hostCharsMax) return undefined;
  if (typeof incarnation !== 'string' || !/^[a-z0-9-]{1,32}$/.test(incarnation)) return undefined;
  const [epoch, unix] = [wholeOf(clockEpoch), wholeOf(unixEpoch)];
  // No clock reads below 0, and no wall clock before 1970.
  if (epoch === undefined || unix === undefined || epoch < 0n || unix < 0n) return undefined;
  const ahead = epoch - unix;
  const first = tableEpoch + ahead - epoch;
  if (first < -farthest || first > farthest) return undefined;
  const samples = Array.isArray(clockSamples) ? clockSamples.slice(-samplesMax).flatMap(sampleOf) : [];
  return { host, incarnation, ahead, epoch, samples };
}

const wholeOf = (value: unknown): bigint | undefined => (typeof value === 'string' && whole.test(value) ? BigInt(value) : undefined);

function sampleOf(value: unknown): ClockSample[] {
  if (!Array.isArray(value)) return [];
  const [remoteHost, remote, sent, received, remoteReceived, remoteSent] = value as readonly unknown[];
  const remoteEpoch = wholeOf(remote);
  if (typeof remoteHost !== 'string' || remoteHost.length > limits.hostCharsMax || remoteEpoch === undefined || remoteEpoch < 0n) return [];
  if (!isTime(sent) || !isTime(received) || !isTime(remoteReceived) || !isTime(remoteSent)) return [];
  return [{ remoteHost, remoteEpoch, sent, received, remoteReceived, remoteSent }];
}

const isTime = (value: unknown): value is number => typeof value === 'number' && Number.isSafeInteger(value);

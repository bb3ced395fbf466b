// NCCL's RAS: threads of all ranks' NCCL that know how many collectives each rank launched in each communicator. Since NCCL 2.24; JSON since 2.28.7.
//
//   SET FORMAT json ──► OK
//   STATUS          ──► one JSON text: communicators [ { hash, ranks: [ { rank, host, pid, collective_counts: { AllReduce: 17, … } } ] } ], then it hangs up
//
// Source of the format: NCCL's src/ras/client_support.cc. Only counts are taken from it; what is not as it should be is left out.

import { connect } from 'node:net';
import { AgentError } from '../model/errors.ts';
import { agentLimits as limits } from '../model/limits.ts';

/** What one rank launched in one communicator. */
export interface LaunchCount {
  /** `communicator 0x1f…`. */
  readonly communicator: string;
  /** Address of its host, as NCCL's own network has it, and its process there. */
  readonly host: string;
  readonly pid: number;
  /** Collectives that it launched, of all kinds. */
  readonly launched: number;
}

export interface RasAddress {
  readonly host: string;
  readonly port: number;
}

/** Asks for all counts of the job. Rejects with AgentError `ras_unavailable`; undefined where nothing listens. */
export async function askRas(
  { host, port }: RasAddress,
  signal: AbortSignal,
  waitMs: number = limits.rasWaitMs,
): Promise<readonly LaunchCount[] | undefined> {
  const where = `NCCL's RAS at ${host}:${port}`;
  const failed = (why: string, cause?: unknown): AgentError => new AgentError('ras_unavailable', `Cannot ask ${where}: ${why}`, { cause });
  const text = await converse({ host, port }, signal, waitMs).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ECONNREFUSED') return undefined;
    throw failed(error.message, error);
  });
  if (text === undefined) return undefined;
  const [, answer = '', json = ''] = /^([^\n]{0,200})\n([\s\S]*)$/.exec(text) ?? [];
  if (answer.trim() !== 'OK') throw failed(`it knows no JSON (NCCL before 2.28.7): it answered ${JSON.stringify(answer.slice(0, 80))}`);
  try {
    return countsOf(JSON.parse(json));
  } catch (cause) {
    throw failed(`its status is no JSON: ${(cause as Error).message}`, cause);
  }
}

/** All that it answers until it hangs up, at most `waitMs` later. */
function converse({ host, port }: RasAddress, signal: AbortSignal, waitMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    // Not by connect's own option, which leaves its listener on the signal: an agent asks for weeks.
    const socket = connect({ host, port });
    const abort = (): void => void socket.destroy(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    // Not AbortSignal.any with AbortSignal.timeout: the garbage collector may take such a timeout before it fires (nodejs/node issue 57736).
    const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${waitMs / 1000} s`)), waitMs);
    // An older one refuses the format and would send text: the first line tells.
    socket.once('connect', () => socket.write('SET FORMAT json\nSTATUS\n'));
    socket.on('data', (chunk) => {
      length += chunk.length;
      if (length > limits.rasBytesMax) socket.destroy(new Error(`its answer may have ${limits.rasBytesMax} bytes`));
      else chunks.push(chunk);
    });
    let failed: Error | undefined;
    socket.once('error', (error) => {
      failed = error;
    });
    socket.once('close', () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      if (failed !== undefined) reject(failed);
      else resolve(Buffer.concat(chunks).toString('utf8'));
    });
  });
}

function countsOf(status: unknown): LaunchCount[] {
  return listOf(status, 'communicators').flatMap((communicator) => {
    const hash = textOf(communicator, 'hash');
    if (hash === undefined) return [];
    return listOf(communicator, 'ranks').flatMap((rank) => {
      const [host, pid] = [textOf(rank, 'host'), numberOf(rank, 'pid')];
      const counts = field(rank, 'collective_counts');
      if (host === undefined || pid === undefined || typeof counts !== 'object' || counts === null) return [];
      const launched = Object.keys(counts).reduce((sum, kind) => sum + (isSend.test(kind) ? 0 : (numberOf(counts, kind) ?? 0)), 0);
      return Number.isSafeInteger(launched) ? [{ communicator: `communicator ${hash}`.slice(0, 64), host, pid, launched }] : [];
    });
  });
}

/** A send concerns two ranks alone: the others' counts say nothing of it. */
const isSend = /^(?:send|recv)/i;

const field = (of: unknown, name: string): unknown =>
  typeof of === 'object' && of !== null && Object.hasOwn(of, name) ? (of as Record<string, unknown>)[name] : undefined;

function listOf(of: unknown, name: string): readonly unknown[] {
  const value = field(of, name);
  return Array.isArray(value) ? value : [];
}

function textOf(of: unknown, name: string): string | undefined {
  const value = field(of, name);
  return typeof value === 'string' ? value : undefined;
}

function numberOf(of: unknown, name: string): number | undefined {
  const value = field(of, name);
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

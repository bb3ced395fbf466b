// `ranktrace agent`: one process a host beside PyTorch ranks, until Ctrl-C.

import { resolve } from 'node:path';
import { startAgent } from '@ranktrace/agent';
import type { StepRange } from '@ranktrace/trace/blame';
import { hostPort } from '../options/host-port.ts';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { say } from '../terminal/output.ts';

export interface AgentArguments {
  readonly url?: string;
  readonly run?: string;
  readonly ranks?: readonly StepRange[];
  readonly socketDir?: string;
  readonly watch?: readonly string[];
  /** False: it is not asked. */
  readonly ncclRas: string | false;
  readonly environment: NodeJS.ProcessEnv;
}

export async function agent({ url, run, ranks, socketDir, watch, ncclRas, environment }: AgentArguments): Promise<number> {
  using interrupt = abortOnInterrupt();
  const destination = destinationOf('agent', url, environment);
  await using started = await startAgent({
    environment: { ...environment, ...destination },
    run,
    isWanted: (rank) => ranks === undefined || ranks.some(({ first, last }) => rank >= first && rank <= last),
    socketFolder: socketDir ?? (environment.KINETO_IPC_SOCKET_DIR || undefined),
    folders: watch?.map((folder) => resolve(folder)),
    ras: ncclRas === false ? null : hostPort('--nccl-ras', ncclRas),
    notice: say,
  });
  if (started.capturesOnDemand) say('answers PyTorch processes of this host that were started with KINETO_USE_DAEMON=1; Ctrl-C ends it');
  await interrupt.asked;
  return 0;
}

/** The rest of the address is checked where all options of a rank are, whatever they came from. */
const destinationSchemes = /^(wss?|nats|tls):\/\//i;

/** The variables that say where batches go. Throws CliError `bad_usage` where nothing says it. */
export function destinationOf(command: string, url: string | undefined, environment: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  if (url !== undefined && !destinationSchemes.test(url)) {
    throw new CliError(
      'bad_usage',
      `--url must be ws://HOST:PORT or wss://… of ranktrace serve, nats://HOST:PORT or tls://…, got "${url}"`,
    );
  }
  const destination = url ?? environment.RANKTRACE_URL;
  if (destination) return { RANKTRACE_URL: destination };
  if (environment.RANKTRACE_NATS_SERVERS) return {};
  throw new CliError('bad_usage', `${command} needs --url (or RANKTRACE_URL): ws://HOST:PORT of ranktrace serve, or nats://HOST:PORT`);
}

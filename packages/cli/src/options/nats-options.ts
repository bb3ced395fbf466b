// The command line's NATS options: servers from --nats, credentials from the same RANKTRACE_NATS_* variables that the SDK reads, so that no secret
// appears in a process list; and bounds of the stream of batches: --stream-max and --stream-replicas, or RANKTRACE_STREAM_*.

import type { NatsConnectOptions } from '@ranktrace/aggregator';
import { limits } from '@ranktrace/protocol';
import { InvalidArgumentError, Option } from 'commander';
import { CliError } from '../terminal/errors.ts';
import { sizeIn } from './retention-options.ts';

/** `streamOptions` as commander parses them. */
export interface StreamArguments {
  readonly streamMax?: number;
  readonly streamReplicas?: number;
}

/** `--stream-max`, `--stream-replicas`. */
export function streamOptions(): Option[] {
  return [
    new Option(
      '--stream-max <size>',
      'what the stream of batches in NATS may hold (500M, 10G); then the oldest go (default: RANKTRACE_STREAM_MAX, or what the server has room for)',
    ).argParser(sizeIn),
    new Option(
      '--stream-replicas <n>',
      'servers of a NATS cluster that hold each batch (default: RANKTRACE_STREAM_REPLICAS, or 1)',
    ).argParser(replicasIn),
  ];
}

function replicasIn(text: string): number {
  const value = Number(text);
  if (/^\d$/.test(text) && value >= 1 && value <= limits.streamReplicasMax) return value;
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${limits.streamReplicasMax}.`);
}

/** Undefined without --nats. */
export function natsOptions(
  servers: string | undefined,
  environment: NodeJS.ProcessEnv,
  { streamMax, streamReplicas }: StreamArguments = {},
): NatsConnectOptions | undefined {
  if (servers === undefined) {
    const ofStream = streamMax !== undefined ? '--stream-max' : streamReplicas !== undefined ? '--stream-replicas' : undefined;
    if (ofStream !== undefined) throw new CliError('bad_usage', `${ofStream} is about batches in NATS: give --nats, too`);
    return undefined;
  }
  const urls = servers.split(',').map((url) => url.trim());
  const parsed = urls.map((url) => {
    const match = /^((?:nats|tls):\/\/)(?:([^\s/@:]*)(?::([^\s/@]*))?@)?([^\s/@]+)$/.exec(url);
    if (match !== null) return { server: `${match[1]}${match[4]}`, user: decode(match[2]), pass: decode(match[3]) };
    throw new CliError('bad_usage', `--nats must be nats://HOST:PORT or tls://HOST:PORT, got "${url.replace(/\/\/.*@/, '//…@')}"`);
  });
  const variable = (name: string): string | undefined => environment[`RANKTRACE_NATS_${name}`] || undefined;
  const named = parsed.find(({ user }) => user !== undefined);
  return {
    // The client ignores a user in a URL.
    servers: parsed.map(({ server }) => server),
    user: named?.user ?? variable('USER'),
    pass: named === undefined ? variable('PASS') : named.pass,
    token: variable('TOKEN'),
    creds: variable('CREDS'),
    nkey: variable('NKEY'),
    inboxPrefix: variable('INBOX_PREFIX'),
    stream: {
      bytesMax: streamMax ?? parsedBy(sizeIn, 'RANKTRACE_STREAM_MAX', environment),
      replicas: streamReplicas ?? parsedBy(replicasIn, 'RANKTRACE_STREAM_REPLICAS', environment),
    },
    tls: { ca: variable('TLS_CA'), cert: variable('TLS_CERT'), key: variable('TLS_KEY') },
  };
}

function decode(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parsedBy(parse: (text: string) => number, variable: string, environment: NodeJS.ProcessEnv): number | undefined {
  const text = environment[variable];
  if (!text) return undefined;
  try {
    return parse(text);
  } catch (error) {
    throw new CliError('bad_usage', `Bad variable ${variable} "${text}": ${(error as Error).message}`);
  }
}

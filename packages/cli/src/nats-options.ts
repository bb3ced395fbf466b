// How the command line reaches NATS: servers from --nats, credentials from the same RANKTRACE_NATS_* variables that the SDK reads, so that
// no secret stands in a process list.

import type { NatsConnectOptions } from '@ranktrace/aggregator';
import { CliError } from './errors.ts';

/** undefined without --nats. */
export function natsOptions(servers: string | undefined, environment: NodeJS.ProcessEnv): NatsConnectOptions | undefined {
  if (servers === undefined) return undefined;
  const urls = servers.split(',').map((url) => url.trim());
  for (const url of urls) {
    if (/^(nats|tls):\/\/[^\s/]+$/.test(url)) continue;
    throw new CliError('bad_usage', `--nats must be nats://HOST:PORT or tls://HOST:PORT, got "${url}"`);
  }
  const variable = (name: string): string | undefined => environment[`RANKTRACE_NATS_${name}`] || undefined;
  return {
    servers: urls,
    user: variable('USER'),
    pass: variable('PASS'),
    token: variable('TOKEN'),
    creds: variable('CREDS'),
    nkey: variable('NKEY'),
    tls: { ca: variable('TLS_CA'), cert: variable('TLS_CERT'), key: variable('TLS_KEY') },
  };
}

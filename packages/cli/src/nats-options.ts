// How the command line reaches NATS: servers from --nats, credentials from the same RANKTRACE_NATS_* variables that the SDK reads, so that
// no secret stands in a process list.

import type { NatsConnectOptions } from '@ranktrace/aggregator';
import { CliError } from './errors.ts';

/** undefined without --nats. */
export function natsOptions(servers: string | undefined, environment: NodeJS.ProcessEnv): NatsConnectOptions | undefined {
  if (servers === undefined) return undefined;
  const urls = servers.split(',').map((url) => url.trim());
  const parsed = urls.map((url) => {
    const match = /^((?:nats|tls):\/\/)(?:([^\s/@:]*)(?::([^\s/@]*))?@)?([^\s/@]+)$/.exec(url);
    if (match !== null) return { server: `${match[1]}${match[4]}`, user: decode(match[2]), pass: decode(match[3]) };
    throw new CliError('bad_usage', `--nats must be nats://HOST:PORT or tls://HOST:PORT, got "${url.replace(/\/\/.*@/, '//…@')}"`);
  });
  const variable = (name: string): string | undefined => environment[`RANKTRACE_NATS_${name}`] || undefined;
  const named = parsed.find(({ user }) => user !== undefined);
  return {
    // The client reads no user out of a URL.
    servers: parsed.map(({ server }) => server),
    user: named?.user ?? variable('USER'),
    pass: named === undefined ? variable('PASS') : named.pass,
    token: variable('TOKEN'),
    creds: variable('CREDS'),
    nkey: variable('NKEY'),
    inboxPrefix: variable('INBOX_PREFIX'),
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

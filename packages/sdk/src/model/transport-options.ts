// The destination of batches and the transport to it: the URL decides.

import { accessSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { SdkError } from './errors.ts';

export const webSocketSchemes = ['ws:', 'wss:'];
export const natsSchemes = ['nats:', 'tls:'];

/** The spool's default directory, one per user: everybody can write to the temporary directory, but only its owner to a spool. */
export function defaultSpool(): string {
  const user = process.getuid?.();
  return join(tmpdir(), user === undefined ? 'ranktrace-spool' : `ranktrace-spool-${user}`);
}

export function readable(file: string, source: string): string {
  try {
    accessSync(file, constants.R_OK);
    return resolve(file);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw new SdkError('file_unreadable', `Bad ${source}: it must be a file that can be read, got "${file}" (${code})`, { cause });
  }
}

/** Takes NATS credentials out of the URL, where its own tools allow them, so that the URL can be shown. */
export function splitUrl(
  text: string | undefined,
  source: string,
): { url: string | undefined; user: string | undefined; pass: string | undefined } {
  const url = text === undefined ? undefined : new URL(text);
  if (url === undefined || (url.username === '' && url.password === '')) return { url: text, user: undefined, pass: undefined };
  if (webSocketSchemes.includes(url.protocol)) {
    throw new SdkError(
      'bad_option',
      `Bad ${source}: a ${url.protocol}// URL must not hold a user or password; set option token or variable RANKTRACE_TOKEN`,
    );
  }
  const [user, pass] = [decoded(url.username, source), decoded(url.password, source)];
  url.username = '';
  url.password = '';
  return { url: url.href, user, pass };
}

function decoded(text: string, source: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw new SdkError('bad_option', `Bad ${source}: the user and password in a URL must be percent-encoded; write % as %25`, { cause });
  }
}

/** The same for a list, of which the first that has credentials counts: the client has one user for all servers. */
export function splitUrls(
  texts: readonly string[] | undefined,
  source: string,
): { servers: readonly string[] | undefined; user: string | undefined; pass: string | undefined } {
  const split = texts?.map((text) => splitUrl(text, source));
  const named = split?.find(({ user }) => user !== undefined);
  return { servers: split?.flatMap(({ url }) => url ?? []), user: named?.user, pass: named?.pass };
}

export function transportOf(url: string | undefined, servers: readonly string[] | undefined): 'web-socket' | 'nats' | 'file' {
  if (url === undefined) return servers === undefined ? 'file' : 'nats';
  return webSocketSchemes.includes(new URL(url).protocol) ? 'web-socket' : 'nats';
}

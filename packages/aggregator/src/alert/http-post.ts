// Posts one JSON document to one address. A failure names what an operator needs and no secret: it shows only the host of the address, for paths of
// webhooks are passwords.
//
//   2xx               delivered
//   408 429 5xx       another try, after `retry-after` where it is given
//   3xx, other 4xx    the same would happen again: no other try
//   no answer         another try

import { readFile } from 'node:fs/promises';
import { withDeadline } from '../model/deadline.ts';
import type { SendResult } from './alert-output.ts';
import { sent } from './alert-output.ts';
import { deliveryLimits as limits } from './delivery-limits.ts';

/** A receiver's address and credentials. Secrets in files are read anew for each request, since operators replace them in place. */
export interface HttpReceiver {
  readonly url?: string | undefined;
  readonly urlFile?: string | undefined;
  /** Sent as `Authorization: Bearer …`. */
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

export type Fetch = typeof globalThis.fetch;

/** Sends `body`; `path` is appended to the receiver's address. Never throws. */
export async function postJson(
  receiver: HttpReceiver,
  path: string,
  body: unknown,
  fetch: Fetch,
  signal: AbortSignal,
): Promise<SendResult> {
  let where = 'the receiver';
  const send = async (ending: AbortSignal): Promise<SendResult> => {
    const { url, headers } = await target(receiver, path);
    where = url.host;
    const response = await fetch(url, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
      // A redirected POST would become a GET, or go to a host that nobody configured.
      redirect: 'manual',
      signal: ending,
    });
    const { status, ok } = response;
    const said = await beginning(response, ok ? 0 : limits.outputAnswerBytesMax);
    if (ok) return sent;
    return { ok: false, reason: `${where} answered ${status}${said}`, retry: isPassing(status), afterMs: retryAfterMs(response) };
  };
  try {
    return await withDeadline(signal, receiver.timeoutMs, send);
  } catch (error) {
    if (signal.aborted) return { ok: false, reason: `${where} had not answered when the service ended`, retry: true };
    const isLate = error instanceof DOMException && error.name === 'TimeoutError';
    const reason = isLate ? `${where} did not answer within ${receiver.timeoutMs / 1000} s` : reasonOf(error, where);
    return { ok: false, reason, retry: true };
  }
}

async function target(receiver: HttpReceiver, path: string): Promise<{ url: URL; headers: Headers }> {
  const address = receiver.url ?? (await readSecret(receiver.urlFile ?? ''));
  const url = parseAddress(address);
  if (url === undefined) throw new Error(`what "${receiver.urlFile}" holds is no http:// or https:// address`);
  const headers = new Headers({ 'content-type': 'application/json', 'user-agent': 'ranktrace' });
  // Names of headers have no case: spread into one object, `Content-Type` would be sent beside `content-type`, as one value of both.
  for (const [name, value] of Object.entries(receiver.headers)) headers.set(name, value);
  if (url.username !== '' || url.password !== '') {
    const pair = `${decoded(url.username)}:${decoded(url.password)}`;
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`);
    url.username = '';
    url.password = '';
  }
  const token = receiver.token ?? (receiver.tokenFile === undefined ? undefined : await readToken(receiver.tokenFile));
  if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
  if (path !== '') url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  return { url, headers };
}

/** A user or password of an address. A "%" without a code behind it stands for itself, as for browsers. */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (codes) => {
    try {
      return decodeURIComponent(codes);
    } catch {
      return codes;
    }
  });
}

/** The text of a file with one secret in it. Throws with a line for an operator. */
export async function readSecret(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`cannot read "${path}": ${error.code ?? error.message}`, { cause: error });
  });
  const secret = text.trim();
  if (secret !== '' && text.length <= limits.outputSecretBytesMax && !/[\r\n]/.test(secret)) return secret;
  throw new Error(`"${path}" must hold one line of at most ${limits.outputSecretBytesMax} bytes`);
}

/** The characters of a token. An error about a header that cannot hold another one would quote the token. */
export const tokenPattern = /^[\x21-\x7e]+$/;

/** The token in a file. Throws with a line for an operator. */
export async function readToken(path: string): Promise<string> {
  const token = await readSecret(path);
  if (tokenPattern.test(token)) return token;
  throw new Error(`"${path}" must hold a token of visible ASCII characters`);
}

/** An http(s) address; undefined where it is none. */
export function parseAddress(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && url.hostname !== '' ? url : undefined;
}

const isPassing = (status: number): boolean => status === 408 || status === 429 || status >= 500;

function retryAfterMs(response: Response): number | undefined {
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1000, limits.outputRetryMsMax) : undefined;
}

/** The first bytes of an answer as `: TEXT`, or '' if it is empty; does not wait for the rest. */
async function beginning(response: Response, bytesMax: number): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return '';
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < bytesMax) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    bytes += value.length;
  }
  await reader.cancel().catch(() => undefined);
  const text = Buffer.concat(chunks).subarray(0, bytesMax).toString('utf8').replaceAll(/\s+/g, ' ').trim();
  return text === '' ? '' : `: ${text.slice(0, limits.outputReasonCharsMax)}`;
}

function reasonOf(error: unknown, where: string): string {
  if (!(error instanceof Error)) return `${where}: ${String(error)}`;
  // fetch throws "fetch failed" with the reason as its cause; an abort carries our own reason.
  const cause = error instanceof TypeError ? error.cause : undefined;
  const code = cause instanceof Error ? ('code' in cause ? String(cause.code) : cause.message) : undefined;
  return code === undefined ? error.message : `cannot reach ${where}: ${code}`;
}

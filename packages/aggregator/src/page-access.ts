// Who may connect.
//
//              loopback, no token            with a token
//   ranks      Host is loopback              Authorization: Bearer TOKEN
//   pages      Host is loopback              the same, or the cookie that  GET /?token=TOKEN  sets
//
// Ranks are no browsers: one with an Origin is refused. A page of this port has the Origin `http(s)://<Host>`, or none; every other page of a
// browser is foreign. Without a token the Host must be a loopback address, or a page that points its own name here (DNS rebinding) would be the
// same origin.
//
// Invariant: the token is never in a cookie, an answer or an address after the first; the cookie is a digest of it, so it is void with the
// token, and it stays valid when the service starts anew. Cookies know no ports, so its name has the port.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Why a request is not answered. */
export interface Refusal {
  readonly code: number;
  readonly reason: string;
}

/** What `GET /?token=…` with the right token is answered with. */
export interface PageEntry {
  /** Value of `set-cookie`. */
  readonly cookie: string;
  /** The same address without the token: always a path on this host. */
  readonly location: string;
}

export class Access {
  readonly #token: string | undefined;

  /** Without a token, or with an empty one, whoever reaches a loopback address may connect. */
  constructor(token: string | undefined) {
    this.#token = token || undefined;
  }

  /** Why a rank may not connect; undefined: it may. */
  rankRefusal({ headers }: IncomingMessage): Refusal | undefined {
    if (headers.origin !== undefined) return { code: 403, reason: 'not for browsers' };
    if (this.#token === undefined) return this.#hostRefusal(headers.host);
    return this.#hasBearer(headers.authorization) ? undefined : { code: 401, reason: 'wrong or missing token' };
  }

  /** Why a page, or a person, gets nothing; undefined: they may. */
  pageRefusal(request: IncomingMessage): Refusal | undefined {
    const { authorization, host, origin } = request.headers;
    if (isForeign(origin, host)) return { code: 403, reason: 'not for pages of other hosts' };
    if (this.#token === undefined) return this.#hostRefusal(host);
    if (this.#hasBearer(authorization) || this.#hasCookie(request)) return undefined;
    return {
      code: 401,
      reason: 'wrong or missing token: open /?token=TOKEN here once, or send the header "Authorization: Bearer TOKEN"',
    };
  }

  /** For `GET /?token=…`, with the right token; undefined for everything else. */
  pageEntry(request: IncomingMessage): PageEntry | undefined {
    const { headers, socket, url = '' } = request;
    const [path, query = ''] = splitOnce(url, '?');
    if (this.#token === undefined || path !== '/' || isForeign(headers.origin, headers.host)) return undefined;
    const parameters = new URLSearchParams(query);
    const token = parameters.get('token');
    if (token === null || !isSame(token, this.#token)) return undefined;
    parameters.delete('token');
    const rest = parameters.toString();
    return {
      // Lax, not Strict: with Strict, Chromium withholds the cookie from a link that is clicked in a chat or a wiki, and from this very redirect.
      // Nothing here changes anything on GET, and what else a foreign page can make a browser ask comes without the cookie.
      cookie: `${cookieName(socket.localPort)}=${cookieOf(this.#token)}; Path=/; HttpOnly; SameSite=Lax`,
      location: rest === '' ? '/' : `/?${rest}`,
    };
  }

  #hostRefusal(host: string | undefined): Refusal | undefined {
    return isLoopback(hostOf(host ?? '')) ? undefined : { code: 403, reason: 'the Host must be a loopback address' };
  }

  #hasBearer(authorization: string | undefined): boolean {
    return this.#token !== undefined && isSame(authorization ?? '', `Bearer ${this.#token}`);
  }

  #hasCookie({ headers, socket }: IncomingMessage): boolean {
    if (this.#token === undefined) return false;
    const expected = cookieOf(this.#token);
    const name = cookieName(socket.localPort);
    return (headers.cookie ?? '').split(';').some((part) => {
      const [key, value = ''] = splitOnce(part.trim(), '=');
      return key === name && isSame(value, expected);
    });
  }
}

/** Whether a listening address or Host name is this host's own. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

const cookieName = (port: number | undefined): string => `ranktrace_${port}`;

const cookieOf = (token: string): string => createHmac('sha256', token).update('ranktrace page').digest('base64url');

/** Whether a browser's page of another origin asks. */
function isForeign(origin: string | undefined, host = ''): boolean {
  if (origin === undefined) return false;
  const own = host.toLowerCase();
  return origin.toLowerCase() !== `http://${own}` && origin.toLowerCase() !== `https://${own}`;
}

/** Digests have one length, so the comparison takes the same time for every guess. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

function splitOnce(text: string, separator: string): [before: string, after?: string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

const hostOf = (host: string): string => host.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');

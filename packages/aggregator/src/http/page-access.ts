// Decides on access to the port.
//
//              loopback, no token            with tokens
//   ranks      Host is loopback              Authorization: Bearer TOKEN
//   pages      Host is loopback              the same, or the cookie that  GET /?token=TOKEN  sets
//
// There may be a token for everything, and one each for ranks (they write), readers (page, status, metrics, alerts) and captures, which may read as
// well. Once any token is set, an entrance without one is closed.
//
// Ranks are no browsers: a rank's request with an Origin is rejected. A page of this port has the Origin `http(s)://<Host>`, or none; every other
// page of a browser is foreign. Without a token the Host must be a loopback address, or a page that points its own name here (DNS rebinding) would be
// the same origin.
//
// Invariant: the token is never in a cookie, an answer or an address after the first; the cookie is a digest of it, so it is void with the
// token, and it stays valid when the service starts anew. Cookies know no ports, so its name has the port.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** The reason why a request is rejected. */
export interface Refusal {
  readonly code: number;
  readonly reason: string;
}

/** The answer to `GET /?token=…` with the right token. */
export interface PageEntry {
  /** Value of `set-cookie`. */
  readonly cookie: string;
  /** The same address without the token: always a path on this host. */
  readonly location: string;
}

/** A token admits ranks, readers, or requests for captures. */
export type Right = 'rank' | 'read' | 'capture';

/** One token for everything, or one per right. */
export type AccessTokens = string | { readonly [R in Right | 'all']?: string | undefined };

/** The variable that holds the token of a right, on the service and on its clients. */
export const tokenVariables = { rank: 'RANKTRACE_RANK_TOKEN', read: 'RANKTRACE_READ_TOKEN', capture: 'RANKTRACE_CAPTURE_TOKEN' } as const;

/** Whether there is any token. */
export function hasToken(tokens: AccessTokens | undefined): boolean {
  return typeof tokens === 'object' ? Object.values(tokens).some(Boolean) : Boolean(tokens);
}

const rightsOf: Readonly<Record<Right | 'all', readonly Right[]>> = {
  all: ['rank', 'read', 'capture'],
  rank: ['rank'],
  read: ['read'],
  capture: ['read', 'capture'],
};

const deeds: Readonly<Record<Right, string>> = { rank: 'sending batches', read: 'reading', capture: 'capturing' };

interface Token {
  readonly text: string;
  readonly rights: readonly Right[];
}

export class Access {
  readonly #tokens: readonly Token[];

  /** Without a token, or with empty ones, every client on a loopback address may connect. */
  constructor(tokens: AccessTokens | undefined) {
    const given = typeof tokens === 'object' ? tokens : { all: tokens };
    this.#tokens = (Object.keys(rightsOf) as (Right | 'all')[]).flatMap((name): Token[] => {
      const text = given[name];
      return text ? [{ text, rights: rightsOf[name] }] : [];
    });
  }

  /** The reason why a rank may not connect; undefined: it may. */
  rankRefusal({ headers }: IncomingMessage): Refusal | undefined {
    if (headers.origin !== undefined) return { code: 403, reason: 'not for browsers' };
    if (this.#tokens.length === 0) return this.#hostRefusal(headers.host);
    return this.#tokenRefusal('rank', this.#bearers(headers.authorization), 'wrong or missing token');
  }

  /** The reason why a page, or a person, is rejected; undefined: they may enter. `right`: the requested access. */
  pageRefusal(request: IncomingMessage, right: 'read' | 'capture' = 'read'): Refusal | undefined {
    const { authorization, host, origin } = request.headers;
    if (isForeign(origin, host)) return { code: 403, reason: 'not for pages of other hosts' };
    if (this.#tokens.length === 0) return this.#hostRefusal(host);
    const shown = [...this.#bearers(authorization), ...this.#cookies(request)];
    const missing = 'wrong or missing token: open /?token=TOKEN here once, or send the header "Authorization: Bearer TOKEN"';
    return this.#tokenRefusal(right, shown, missing);
  }

  /** Undefined where one of the `shown` tokens has the right. */
  #tokenRefusal(right: Right, shown: readonly Token[], missing: string): Refusal | undefined {
    if (shown.some(({ rights }) => rights.includes(right))) return undefined;
    const variable = `${tokenVariables[right]} or RANKTRACE_TOKEN`;
    if (!this.#tokens.some(({ rights }) => rights.includes(right))) {
      return { code: 403, reason: `this service has no token for ${deeds[right]}: start it with ${variable}` };
    }
    const [other] = shown;
    if (other === undefined) return { code: 401, reason: missing };
    const may = other.rights.map((each) => deeds[each]).join(' and ');
    return { code: 403, reason: `this token is for ${may} alone: ${deeds[right]} needs that of ${variable}` };
  }

  /** For `GET /?token=…`, with the right token; undefined for everything else. */
  pageEntry(request: IncomingMessage): PageEntry | undefined {
    const { headers, socket, url = '' } = request;
    const [path, query = ''] = splitOnce(url, '?');
    if (path !== '/' || isForeign(headers.origin, headers.host)) return undefined;
    const parameters = new URLSearchParams(query);
    const shown = parameters.get('token');
    // Compares every token, so that the duration does not reveal which one matched.
    const [token] = this.#tokens.filter(({ text }) => isSame(shown ?? '', text)).filter(({ rights }) => rights.includes('read'));
    if (token === undefined) return undefined;
    parameters.delete('token');
    const rest = parameters.toString();
    return {
      // Lax, not Strict: with Strict, Chromium withholds the cookie from a link that is clicked in a chat or a wiki, and from this very redirect.
      // Nothing here changes anything on GET, and what else a foreign page can make a browser ask comes without the cookie.
      cookie: `${cookieName(socket.localPort)}=${cookieOf(token.text)}; Path=/; HttpOnly; SameSite=Lax${isEncrypted(socket) ? '; Secure' : ''}`,
      location: rest === '' ? '/' : `/?${rest}`,
    };
  }

  #hostRefusal(host: string | undefined): Refusal | undefined {
    return isLoopback(hostOf(host ?? '')) ? undefined : { code: 403, reason: 'the Host must be a loopback address' };
  }

  #bearers(authorization = ''): Token[] {
    return this.#tokens.filter(({ text }) => isSame(authorization, `Bearer ${text}`));
  }

  #cookies({ headers, socket }: IncomingMessage): Token[] {
    const name = cookieName(socket.localPort);
    const shown = (headers.cookie ?? '').split(';').flatMap((part): string[] => {
      const [key, value = ''] = splitOnce(part.trim(), '=');
      return key === name ? [value] : [];
    });
    return this.#tokens.filter(({ text }) => shown.some((value) => isSame(value, cookieOf(text))));
  }
}

/** Whether a listening address or Host name is loopback. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

const isEncrypted = (socket: Socket): boolean => 'encrypted' in socket && socket.encrypted === true;

const cookieName = (port: number | undefined): string => `ranktrace_${port}`;

const cookieOf = (token: string): string => createHmac('sha256', token).update('ranktrace page').digest('base64url');

/** Whether the request comes from a browser's page of another origin. */
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

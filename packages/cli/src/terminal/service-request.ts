// One request to a running service (`ranktrace serve`), and its answer, however long that takes.
//
// Does not use `fetch`, which gives up when an answer's first byte takes five minutes.

import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { text } from 'node:stream/consumers';
import { tokenVariables } from '@ranktrace/aggregator';
import { CliError } from './errors.ts';

export interface ServiceRequest {
  /** Address of the service, as `http://HOST:PORT` (or `https://`). */
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly token: string | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** The longest wait for the whole answer, ms; default: without an end, as a capture takes as long as its steps. */
  readonly answerMsMax?: number;
}

export interface ServiceAnswer {
  readonly code: number;
  readonly text: string;
}

/**
 * Throws CliError `bad_usage` for an invalid URL, `bad_input` where nobody answers or the service rejects the token, and the signal's reason once
 * that is aborted.
 */
export async function askService({ url, method, path, token, body, signal: asked, answerMsMax }: ServiceRequest): Promise<ServiceAnswer> {
  const late = answerMsMax === undefined ? undefined : AbortSignal.timeout(answerMsMax);
  const signal = asked && late ? AbortSignal.any([asked, late]) : (asked ?? late);
  const where = serviceUrl(url, path);
  const headers: Record<string, string> = { ...(token && { authorization: `Bearer ${token}` }) };
  if (body !== undefined) headers['content-type'] = 'application/json';
  const send = where.protocol === 'https:' ? requestHttps : requestHttp;
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { method, headers, agent: false as const, ...(signal && { signal }) };
      const sent = send(where, options, resolve).on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
    const answer = { code: response.statusCode ?? 0, text: await text(response) };
    if (answer.code !== 401 && answer.code !== 403) return answer;
    const variable = tokenVariables[method === 'POST' ? 'capture' : 'read'];
    throw new CliError('bad_input', `${url} refuses: ${answer.text.trim()} (set ${variable} or RANKTRACE_TOKEN to a token that it takes)`);
  } catch (cause) {
    if (cause instanceof CliError) throw cause;
    if (asked?.aborted === true) throw asked.reason;
    if (late?.aborted === true) throw new CliError('bad_input', `${url} gave no answer within ${(answerMsMax ?? 0) / 1000} s`, { cause });
    const { code, message } = cause as NodeJS.ErrnoException;
    if (/CERT|UNABLE_TO_/.test(code ?? '')) {
      const text = `The certificate of ${url} is not trusted: ${message}; set NODE_EXTRA_CA_CERTS to the file of its issuer`;
      throw new CliError('bad_input', text, { cause });
    }
    const hint = code === 'ECONNRESET' && where.protocol === 'http:' ? 'does it speak https?' : 'is "ranktrace serve" running there?';
    throw new CliError('bad_input', `No service answers at ${url}: ${code ?? message}; ${hint}`, { cause });
  }
}

function serviceUrl(text: string, path: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return new URL(path, url);
  throw new CliError('bad_usage', `--url must be where a service listens, such as http://127.0.0.1:7400, got "${text}"`);
}

// Trace context for programs that send calls their own way: reads and writes W3C `traceparent`
// (https://www.w3.org/TR/trace-context/) in an object of headers, or in any object with `get` and `set` (Headers, Map, NATS headers).
//
//   caller   prof.rpcClient('Push', …) ─► injectTraceContext(headers) ─► … send …
//   callee   … receive … ─► runWithTraceContext(headers, () => handle(message)) ─► its calls belong to the same trace
//
// Invariant: a carrier comes from outside; whatever it is, only errors of `fn` leave this file.

import { formatTraceparent, parseTraceparent, type TraceContext } from '../record/trace-context.ts';
import { threadRecorder } from './thread-recorder.ts';

const header = 'traceparent';

/** Headers of a message: a plain object, or anything with `get` and `set` by name. */
export type TraceCarrier = object;

/**
 * Writes the context of the running remote call, the innermost one, into `carrier`, and returns it. Without a running call the carrier
 * stays unchanged.
 *
 * @example const headers = injectTraceContext({ 'content-type': 'application/octet-stream' });
 */
export function injectTraceContext<C extends TraceCarrier = Record<string, string>>(carrier?: C): C {
  const target = carrier ?? ({} as C);
  const trace = threadRecorder()?.traceContext;
  if (trace === undefined) return target;
  try {
    const { set } = target as { set?: unknown };
    if (typeof set === 'function') set.call(target, header, formatTraceparent(trace));
    else if (!Array.isArray(target)) (target as Record<string, string>)[header] = formatTraceparent(trace);
  } catch {
    // A frozen carrier, or a setter that throws: the call goes without.
  }
  return target;
}

/**
 * Runs `fn`, sync or async, as part of the trace that `carrier` names: remote calls in it are children of the carrier's span. Without a
 * readable context, or without a profile, it just runs `fn`. Returns what `fn` returns, throws what it throws.
 *
 * @example server.on('message', ({ headers, body }) => runWithTraceContext(headers, () => handle(body)));
 */
export function runWithTraceContext<T>(carrier: TraceCarrier | undefined, fn: () => T): T {
  const recorder = threadRecorder();
  const trace = recorder === undefined ? undefined : extract(carrier);
  return recorder === undefined || trace === undefined ? fn() : recorder.inTrace(trace, fn);
}

function extract(carrier: unknown): TraceContext | undefined {
  if (typeof carrier !== 'object' || carrier === null || Array.isArray(carrier)) return undefined;
  try {
    const { get } = carrier as { get?: unknown };
    if (typeof get === 'function') return parseTraceparent({ [header]: get.call(carrier, header) });
  } catch {
    return undefined;
  }
  return parseTraceparent(carrier);
}

// W3C Trace Context: the `traceparent` that a remote call carries, https://www.w3.org/TR/trace-context/.
//
//   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//   version | trace: 16 bytes           | span: 8 bytes  | flags
//
// Invariant: a carrier comes from outside; whatever it is, parsing returns ids or `undefined` and never throws.

import { randomFillSync } from 'node:crypto';

/** Position of a span in a distributed trace. */
export interface TraceContext {
  /** 16 bytes, not all 0. */
  readonly trace: Uint8Array;
  /** 8 bytes, not all 0. */
  readonly span: Uint8Array;
}

// Later versions may append fields after another dash (section 3.2.4).
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const charsMax = 512;

/** The context in `carrier.traceparent`, or `undefined` when it has no valid one. */
export function parseTraceparent(carrier: unknown): TraceContext | undefined {
  const text = readTraceparent(carrier);
  if (typeof text !== 'string' || text.length > charsMax) return undefined;
  const [, version, trace, span, more] = pattern.exec(text.trim()) ?? [];
  if (version === undefined || trace === undefined || span === undefined) return undefined;
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(trace) || /^0+$/.test(span)) return undefined;
  return { trace: Uint8Array.from(Buffer.from(trace, 'hex')), span: Uint8Array.from(Buffer.from(span, 'hex')) };
}

/** The `traceparent` text of `context`, marked as sampled. */
export function formatTraceparent({ trace, span }: TraceContext): string {
  return `00-${Buffer.from(trace).toString('hex')}-${Buffer.from(span).toString('hex')}-01`;
}

/** `length` random bytes, not all 0. */
export function randomId(length: 8 | 16): Uint8Array {
  const id = randomFillSync(new Uint8Array(length));
  return id.some((byte) => byte !== 0) ? id : randomId(length);
}

function readTraceparent(carrier: unknown): unknown {
  if (typeof carrier !== 'object' || carrier === null) return undefined;
  try {
    const { traceparent, Traceparent } = carrier as Record<string, unknown>;
    return traceparent ?? Traceparent;
  } catch {
    return undefined; // A getter or proxy of the carrier threw.
  }
}

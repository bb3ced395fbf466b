// Reads Zipkin's JSON, version 2 (https://zipkin.io/zipkin-api/), from its API, its UI or reporters.
//
// Supported: an array of spans, or an array of traces, each an array of spans. Version 1 is not: its spans have their services in annotations.
//
//   as written, `shared`       client  id b, parent a      server  id b, parent a, shared      child of the server  parent b
//   as returned                client  id b, parent a      server  id B, parent b              child of the server  parent B
//
// Two spans with one id have no order, so a shared server gets its own id, and becomes its client's child, as in W3C Trace Context.
// A span that the file has twice is one span.
//
// Invariant: any bytes give spans or a TraceError; an invalid span is skipped and counted.

import { limits as protocolLimits } from '@ranktrace/protocol';
import { decodeUtf8, withoutByteOrderMark } from '../model/decode-utf8.ts';
import { TraceError } from '../model/errors.ts';
import { json } from '../model/json-scanner.ts';
import { limits } from '../model/limits.ts';
import { ReadBudget } from '../model/read-budget.ts';

export interface ZipkinSpan {
  /** 32 and 16 hex digits; `parentId` is '' for a root. */
  readonly traceId: string;
  readonly id: string;
  readonly parentId: string;
  /** Producers of messages count as clients, consumers as servers; '' for work within a service. */
  readonly side: 'client' | 'server' | '';
  readonly name: string;
  /** Unix time, µs. */
  readonly startMicros: number;
  /** Undefined: it was not finished when it was reported. */
  readonly lengthMicros: number | undefined;
  readonly service: string;
  /** IP address of the service's host; '' where it is not known. */
  readonly address: string;
  /** The other side of a call: its service, else its address; '' for unknown. */
  readonly peer: string;
  readonly tags: readonly (readonly [key: string, value: string])[];
  readonly annotations: readonly { readonly micros: number; readonly value: string }[];
}

export interface ZipkinSpans {
  /** In the order of the file. */
  readonly spans: readonly ZipkinSpan[];
  /** Entries that are no spans, or have no time, or a duration that is none. */
  readonly skipped: number;
  /** Tags beyond the limit of a span, parts of texts beyond the limit of a text, annotations without a plausible time. */
  readonly cut: number;
}

/** Reporters annotate beyond a span's end, too; but an annotation a day away has a time of another clock. */
const annotationReachMicros = 86_400e6;

/** In UTF-8, a character of a string takes three bytes at most. */
const textCharsMax = Math.floor(protocolLimits.stringBytesMax / 3);

type Draft = { -readonly [K in keyof ZipkinSpan]: ZipkinSpan[K] } & { readonly isShared: boolean };

/** Whether a file that begins with `head` (some KiB) may be Zipkin's. */
export function looksLikeZipkin(head: Uint8Array): boolean {
  const text = decodeUtf8(head, 0, Math.min(head.length, 65_536));
  return /^\s*\[\s*(\[\s*)?\{/.test(text) && text.includes('"traceId"') && !text.includes('"ph"');
}

/**
 * Spans of a whole file.
 * @throws TraceError `not_json`, `no_events`, `too_large`, `memory`
 */
export function readZipkinSpans(bytes: Uint8Array, budget = new ReadBudget()): ZipkinSpans {
  if (bytes.length > limits.zipkinBytesMax) {
    throw new TraceError('too_large', `Cannot read the Zipkin file: it may have ${limits.zipkinBytesMax} bytes, got ${bytes.length}`);
  }
  const parsed = parsedBytes(bytes);
  budget.take(parsed);
  const entries = entriesOf(parse(bytes));
  budget.take(spanBytes * entries.length);
  const known = new Map<string, Draft>();
  const drafts: Draft[] = [];
  const counts = { skipped: 0, cut: 0 };
  let isOld = false;
  for (const entry of entries) {
    const isOfVersion1 = isVersion1(entry);
    isOld ||= isOfVersion1;
    const draft = isOfVersion1 ? undefined : readSpan(entry, counts);
    if (draft === undefined) {
      counts.skipped++;
      continue;
    }
    const key = identityOf(draft);
    const same = known.get(key);
    if (same !== undefined && isSameLength(same, draft)) {
      complete(same, draft, counts);
      continue;
    }
    if (same === undefined) known.set(key, draft);
    drafts.push(draft);
  }
  if (drafts.length === 0) {
    const [wanted, got] = isOld ? ['spans of version 2', 'those of version 1'] : ['spans', `none in ${entries.length} entries`];
    throw new TraceError('no_events', `Cannot read the Zipkin file: it must hold ${wanted}, got ${got}`);
  }
  const byTrace = new Map<string, Draft[]>();
  for (const draft of drafts) {
    const trace = byTrace.get(draft.traceId);
    if (trace === undefined) byTrace.set(draft.traceId, [draft]);
    else trace.push(draft);
  }
  for (const trace of byTrace.values()) unshare(trace);
  return { spans: drafts, ...counts };
}

/** Memory of a kept span, in its service, its batch and its trace. */
const spanBytes = 1024;
/** Bytes of an object or array made by JSON.parse, and of one more member. */
const nestedBytes = 64;
const memberBytes = 24;

/** Approximate upper bound of the memory that JSON.parse needs for `bytes`, its input text included. */
function parsedBytes(bytes: Uint8Array): number {
  let [nested, members] = [0, 0];
  for (const byte of bytes) {
    if (byte === json.openObject || byte === json.openArray) nested++;
    else if (byte === json.comma) members++;
  }
  return 3 * bytes.length + nestedBytes * nested + memberBytes * members;
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(withoutByteOrderMark(decodeUtf8(bytes, 0, bytes.length)));
  } catch (cause) {
    throw new TraceError('not_json', `Cannot read the Zipkin file: it must be JSON, ${(cause as Error).message}`, { cause });
  }
}

function entriesOf(file: unknown): readonly unknown[] {
  if (!Array.isArray(file))
    throw new TraceError('no_events', 'Cannot read the Zipkin file: it must be an array of spans, got something else');
  const entries: readonly unknown[] = file.every((entry) => Array.isArray(entry)) ? file.flat() : file;
  if (entries.length > limits.zipkinSpansMax) {
    throw new TraceError('too_large', `Cannot read the Zipkin file: it may have ${limits.zipkinSpansMax} spans, got ${entries.length}`);
  }
  return entries;
}

const isVersion1 = (entry: unknown): boolean => {
  const { annotations, binaryAnnotations } = membersOf(entry);
  return (
    Array.isArray(binaryAnnotations) || (Array.isArray(annotations) && annotations.some((note) => membersOf(note).endpoint !== undefined))
  );
};

const sides: Readonly<Record<string, ZipkinSpan['side']>> = { CLIENT: 'client', PRODUCER: 'client', SERVER: 'server', CONSUMER: 'server' };

function readSpan(entry: unknown, counts: { cut: number }): Draft | undefined {
  const given = membersOf(entry);
  const traceId = hexId(given.traceId, 32);
  const id = hexId(given.id, 16);
  const startMicros = micros(given.timestamp);
  if (traceId === '' || id === '' || startMicros === undefined) return undefined;
  const lengthMicros = micros(given.duration);
  // Without a duration it was not finished; of one that is none, that cannot be said.
  if (lengthMicros === undefined && given.duration !== undefined && given.duration !== null) return undefined;
  const bounded = (value: unknown): string => {
    const whole = text(value);
    if (whole.length > textCharsMax) counts.cut++;
    return whole.slice(0, textCharsMax);
  };
  const local = membersOf(given.localEndpoint);
  const remote = membersOf(given.remoteEndpoint);
  const kind = text(given.kind);
  const tags = Object.entries(membersOf(given.tags));
  counts.cut += Math.max(0, tags.length - limits.zipkinTagsPerSpanMax);
  const noted = Array.isArray(given.annotations) ? given.annotations.map(membersOf) : [];
  const annotations = noted.flatMap(({ timestamp, value }) => {
    const at = micros(timestamp);
    const isNear = at !== undefined && Math.abs(at - startMicros) < annotationReachMicros;
    return isNear ? [{ micros: at, value: bounded(value) }] : [];
  });
  counts.cut += noted.length - annotations.length;
  return {
    traceId,
    id,
    parentId: hexId(given.parentId, 16),
    side: Object.hasOwn(sides, kind) ? (sides[kind] as ZipkinSpan['side']) : '',
    name: bounded(given.name),
    startMicros,
    lengthMicros,
    service: bounded(local.serviceName),
    address: bounded(addressOf(local)),
    peer: bounded(text(remote.serviceName) || addressAndPort(remote)),
    tags: tags.slice(0, limits.zipkinTagsPerSpanMax).map(([key, value]) => [bounded(key), bounded(value)]),
    annotations,
    isShared: given.shared === true,
  };
}

// Reporters send a span again when they do not know that it arrived, and once more whole when they had sent it unfinished: Zipkin shows it once, too.

const identityOf = ({ traceId, id, isShared, side, service, address, startMicros }: Draft): string =>
  JSON.stringify([traceId, id, isShared, side, service, address, startMicros]);

const isSameLength = ({ lengthMicros: a }: Draft, { lengthMicros: b }: Draft): boolean => a === undefined || b === undefined || a === b;

/** Adds to a span what it says when it comes again. */
function complete(span: Draft, again: Draft, counts: { cut: number }): void {
  span.lengthMicros ??= again.lengthMicros;
  span.parentId ||= again.parentId;
  span.name ||= again.name;
  span.peer ||= again.peer;
  const keys = new Set(span.tags.map(([key]) => key));
  const tags = [...span.tags, ...again.tags.filter(([key]) => !keys.has(key))];
  counts.cut += Math.max(0, tags.length - limits.zipkinTagsPerSpanMax);
  span.tags = tags.slice(0, limits.zipkinTagsPerSpanMax);
  const [noted, more] = [span.annotations, again.annotations];
  if (more.length === 0) return;
  // Each time that a span comes again may cost no more than this.
  if (noted.length > limits.zipkinTagsPerSpanMax) {
    if (more.length !== noted.length) counts.cut += more.length;
    return;
  }
  const texts = new Set(noted.map(({ micros, value }) => `${micros} ${value}`));
  span.annotations = [...noted, ...more.filter(({ micros, value }) => !texts.has(`${micros} ${value}`))];
}

/** Gives each server that shares its client's id its own id, and makes that the parent of the spans below it. */
function unshare(spans: readonly Draft[]): void {
  const ids = new UnusedIds();
  const callers = new Map<string, Draft>();
  for (const span of spans) {
    ids.used.add(span.id);
    if (span.side === 'client' && !span.isShared) callers.set(span.id, span);
  }
  // By the shared id: the servers that take over its children.
  const servers = new Map<string, Map<string, Draft>>();
  const renamed = new Set<Draft>();
  for (const span of spans) {
    if (!span.isShared && (span.side !== 'server' || !callers.has(span.id))) continue;
    const shared = span.id;
    const ofId = servers.get(shared) ?? new Map<string, Draft>();
    servers.set(shared, ofId);
    span.id = ids.take(shared, ofId.size);
    span.parentId = shared;
    renamed.add(span);
    // Among several servers (a retry), the first of a service: the file does not say which one a child belongs to.
    const place = placeOf(span);
    ofId.set(ofId.has(place) ? `${place} ${ofId.size}` : place, span);
  }
  for (const span of spans) {
    const ofId = renamed.has(span) ? undefined : servers.get(span.parentId);
    if (ofId === undefined) continue;
    const caller = callers.get(span.parentId);
    const own = ofId.get(placeOf(span));
    // Work beside the call, in the calling service itself, stays the client's.
    if (own === undefined && caller !== undefined && placeOf(caller) === placeOf(span)) continue;
    span.parentId = (own ?? (ofId.values().next().value as Draft)).id;
  }
}

const placeOf = ({ service, address }: Draft): string => JSON.stringify([service, address]);

/** Ids unused in a trace, derived from shared ones, so that reading a file again gives the same. */
class UnusedIds {
  readonly used = new Set<string>();
  /** Where ids are sought that a shared one does not give: each used one is met once, not once for each shared one. */
  #next: bigint | undefined;

  take(shared: string, nth: number): string {
    const derived = (BigInt(`0x${shared}`) ^ 0x9e3779b97f4a7c15n) + BigInt(nth);
    let id = idOf(derived);
    while (this.used.has(id) || /^0+$/.test(id)) {
      this.#next = (this.#next ?? derived) + 1n;
      id = idOf(this.#next);
    }
    this.used.add(id);
    return id;
  }
}

const idOf = (value: bigint): string => BigInt.asUintN(64, value).toString(16).padStart(16, '0');

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}

/** Whole µs that later multiply exactly to ns; undefined for anything else. The format has whole ones; a fraction is rounded. */
const micros = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : undefined;

/** Lower case, padded to full width; '' for an invalid id. */
function hexId(value: unknown, digits: 16 | 32): string {
  if (typeof value !== 'string' || value.length > digits || !/^[0-9a-f]+$/i.test(value) || /^0+$/.test(value)) return '';
  return value.toLowerCase().padStart(digits, '0');
}

const addressOf = (endpoint: Readonly<Record<string, unknown>>): string => text(endpoint.ipv4) || text(endpoint.ipv6);

function addressAndPort(endpoint: Readonly<Record<string, unknown>>): string {
  const address = addressOf(endpoint);
  return address === '' || typeof endpoint.port !== 'number'
    ? address
    : `${address.includes(':') ? `[${address}]` : address}:${endpoint.port}`;
}

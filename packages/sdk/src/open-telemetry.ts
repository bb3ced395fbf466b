// Feeds the spans of OpenTelemetry's instrumentation (gRPC, HTTP, messaging, …) into the running profile.
//
//   CLIENT, PRODUCER    client side of a remote call    trace, span and parent ids are OpenTelemetry's own: it carries them to the
//   SERVER, CONSUMER    server side of one              other rank, where the server's parent is the client's span
//   INTERNAL            a span of category `open_telemetry`
//
// The processor records a span twice, so that a killed rank shows its open spans: at its start with the attributes it has then, at its end with
// the later ones.
//
// Times. OpenTelemetry reads a clock of 1 ms at the start, and measures the length with a fine one. So a span that starts now gets our own
// reading, one with an explicit start keeps that, and both have OpenTelemetry's length. Our reading is a little later than OpenTelemetry's, by
// different amounts; so a span that starts now ends by the time that its end is reported, or a child might end after its parent. Where our reading
// comes more than 1 ms late, OpenTelemetry's is taken; a child begins with its parent where that puts it up to 1 ms before, and a span with the profile.
//
// Invariants: OpenTelemetry is not imported, versions 1 and 2 of its SDK fit; nothing is thrown into the instrumented program. Without a
// running profile a span costs one check; spans that began before the profile are ignored.

import { performance } from 'node:perf_hooks';
import { recordingLimits } from './model/recording-limits.ts';
import { threadRecorder } from './profile/thread-recorder.ts';
import type { Recorder } from './record/recorder.ts';
import { fixedName, fixedNames } from './record/ring.ts';

/** Seconds since the epoch, and ns. */
type HrTime = readonly [number, number];
type Attributes = Readonly<Record<string, unknown>>;

/** The fields that we read from a span: a `Span` or `ReadableSpan` of `@opentelemetry/sdk-trace-base`. */
export interface OpenTelemetrySpan {
  readonly name: string;
  /** `SpanKind` */
  readonly kind: number;
  readonly attributes: Attributes;
  readonly startTime: HrTime;
  readonly endTime: HrTime;
  /** `code` is a `SpanStatusCode`. */
  readonly status: { readonly code: number; readonly message?: string | undefined };
  /** In version 2 and later. */
  readonly parentSpanContext?: { readonly spanId: string; readonly isRemote?: boolean | undefined } | undefined;
  /** In version 1. */
  readonly parentSpanId?: string | undefined;
  spanContext(): { readonly traceId: string; readonly spanId: string };
  isRecording?(): boolean;
}

/** A span between its start and its end. */
interface OpenTelemetryCall {
  readonly recorder: Recorder;
  /** The recorder's id of it. */
  readonly id: number;
  /** Clock of this thread, ms. */
  readonly start: number;
  /** That it is our own reading, and not an explicit one. */
  readonly startsNow: boolean;
  /** Attributes recorded at the start. */
  readonly reported: ReadonlyMap<string, unknown>;
  /** Undefined once it has ended: no chain of ended ones is held. */
  parent: OpenTelemetryCall | undefined;
  /** The latest end of its ended children, in the units of `start`; 0 without any. */
  childrenEnd: number;
  /** OpenTelemetry's name at its start: instrumentation may know the final one only at the end. */
  readonly name: string;
}

/** By `SpanKind`. */
const kinds = ['span', 'server', 'client', 'client', 'server'] as const;
const statusError = 2;
/** Largest difference between `Date.now()` and the fine clock, ms; beyond it somebody has set the system's clock. */
const sameClockMs = 2;

/**
 * A `SpanProcessor`. Spans are recorded while a profile runs on their thread.
 *
 * @example new NodeTracerProvider({ spanProcessors: [new RanktraceSpanProcessor()] }).register();
 */
export class RanktraceSpanProcessor {
  /** By span id. */
  readonly #open = new Map<string, OpenTelemetryCall>();
  readonly #names = new Set<string>();
  #recorder: Recorder | undefined;
  #isOn = true;

  onStart(span: OpenTelemetrySpan, _parentContext?: unknown): void {
    const recorder = threadRecorder();
    if (recorder?.on !== true || !this.#isOn) return;
    try {
      this.#begin(recorder, span);
    } catch {
      recorder.drop('event');
    }
  }

  onEnd(span: OpenTelemetrySpan): void {
    if (this.#open.size === 0) return;
    try {
      this.#end(span);
    } catch {
      this.#recorder?.dropArgument();
    }
  }

  /** Nothing waits here: ranktrace ships recorded spans as the profile's options say. */
  async forceFlush(): Promise<void> {}

  /** Records no further spans. The profile goes on. */
  async shutdown(): Promise<void> {
    this.#isOn = false;
    this.#open.clear();
  }

  #begin(recorder: Recorder, span: OpenTelemetrySpan): void {
    if (span.isRecording?.() === false) return;
    if (recorder !== this.#recorder) {
      this.#recorder = recorder;
      this.#open.clear();
      this.#names.clear();
    }
    if (this.#open.size >= recordingLimits.openTelemetrySpansMax) {
      recorder.drop('event');
      return;
    }
    const { traceId, spanId } = span.spanContext();
    const { spanId: parentId, isRemote = false } = span.parentSpanContext ?? { spanId: span.parentSpanId };
    const kind = kinds[span.kind] ?? 'span';
    // The caller's side of a remote call runs beside its callee, even in one process.
    const parent = isRemote || parentId === undefined ? undefined : this.#open.get(parentId);
    const now = performance.now();
    const read = startOf(span.startTime, now, recorder.opened);
    const start = parent !== undefined && parent.start - read < 1 ? Math.max(parent.start, read) : read;
    const args: Record<string, string | number | boolean> = kind === 'span' ? { traceId, spanId } : {};
    const reported = this.#report(recorder, args, span.attributes, new Map());
    const name = kind === 'span' ? span.name : methodOf(span);
    const id = recorder.beginAsync({
      kind,
      name: this.#bounded(recorder, name),
      category: 'open_telemetry',
      peer: this.#bounded(recorder, peerOf(span.attributes, kind)),
      ids: idBytes(traceId, spanId, parentId),
      time: start,
      parent: parent?.id ?? 0,
      args,
    });
    if (id !== 0)
      this.#open.set(spanId, { recorder, id, name: span.name, start, startsNow: start === now, reported, parent, childrenEnd: 0 });
  }

  #end(span: OpenTelemetrySpan): void {
    const { spanId } = span.spanContext();
    const call = this.#open.get(spanId);
    if (call === undefined) return;
    this.#open.delete(spanId);
    const args: Record<string, string | number | boolean> = {};
    const isError = span.status.code === statusError;
    // The name that OpenTelemetry's specification gives for formats without a status of their own.
    if (isError) args['otel.status_code'] = 'ERROR';
    if (isError && typeof span.status.message === 'string') args['otel.status_description'] = span.status.message;
    this.#report(call.recorder, args, span.attributes, call.reported);
    const length = (span.endTime[0] - span.startTime[0]) * 1000 + (span.endTime[1] - span.startTime[1]) / 1e6;
    const long = call.start + Math.max(0, length);
    const own = call.startsNow ? Math.min(long, performance.now()) : long;
    // Its children have ended: where the readings put one up to 1 ms behind it, both end together.
    const end = call.childrenEnd - own < 1 ? Math.max(own, call.childrenEnd) : own;
    if (call.parent !== undefined) call.parent.childrenEnd = Math.max(call.parent.childrenEnd, end);
    call.parent = undefined;
    const isRenamed = typeof span.name === 'string' && span.name !== call.name;
    const name = isRenamed ? this.#bounded(call.recorder, (kinds[span.kind] ?? 'span') === 'span' ? span.name : methodOf(span)) : undefined;
    call.recorder.endAsync(call.id, { time: end, isError, args, name });
  }

  /** Adds to `args` attributes that are new since `reported` or have changed; returns all known so far. A list becomes JSON. */
  #report(
    recorder: Recorder,
    args: Record<string, string | number | boolean>,
    attributes: Attributes,
    reported: ReadonlyMap<string, unknown>,
  ): ReadonlyMap<string, unknown> {
    const all = new Map(reported);
    let room = recordingLimits.argumentsPerEventMax - reported.size - Object.keys(args).length;
    for (const key in attributes) {
      const value = attributes[key];
      if (value === undefined || value === null || all.get(key) === value) continue;
      if (room-- <= 0) {
        recorder.dropArgument();
        continue;
      }
      all.set(key, value);
      args[this.#bounded(recorder, key)] = isPlain(value) ? value : JSON.stringify(value);
    }
    return all;
  }

  /** A profile keeps its names, which its ops share: instrumentation that makes up ever new names must not exhaust them. */
  #bounded(recorder: Recorder, name: string): string {
    if (name === '' || this.#names.has(name)) return name;
    if (this.#names.size >= recordingLimits.openTelemetryNamesMax) {
      recorder.drop('name');
      return fixedNames[fixedName.tooMany];
    }
    this.#names.add(name);
    return name;
  }
}

/** Clock of this thread, ms: `now` for a span that starts now, `opened` for one that may have started at most 1 ms before the profile, or after it. */
function startOf([seconds, nanos]: HrTime, now: number, opened: number): number {
  const unixNow = Date.now();
  const start = seconds * 1000 + nanos / 1e6;
  if (nanos % 1e6 === 0 && Math.abs(unixNow - start) <= 1) return now;
  const drift = unixNow - (performance.timeOrigin + now);
  // If somebody set the system's clock meanwhile, OpenTelemetry's times follow it.
  const read = start - (Math.abs(drift) < sameClockMs ? performance.timeOrigin : unixNow - now);
  return nanos % 1e6 === 0 && read < opened && opened - read < 1 ? opened : read;
}

/** Trace, span and parent span: 16, 8 and 8 bytes. */
function idBytes(traceId: string, spanId: string, parentId: string | undefined): Uint8Array {
  const ids = Buffer.alloc(32);
  ids.write(traceId, 0, 16, 'hex');
  ids.write(spanId, 16, 8, 'hex');
  if (parentId !== undefined) ids.write(parentId, 24, 8, 'hex');
  return ids;
}

// Keys of OpenTelemetry's semantic conventions; where one was renamed, the present one first.

/** The called method: `Service/Method`, `GET /route`, `publish queue`, else the span's name. */
function methodOf({ name, attributes }: OpenTelemetrySpan): string {
  const rpc = firstText(attributes, 'rpc.method');
  const service = firstText(attributes, 'rpc.service');
  if (rpc !== '') return service === '' || rpc.includes('/') ? rpc : `${service}/${rpc}`;
  const verb = firstText(attributes, 'http.request.method', 'http.method');
  if (verb !== '') {
    const path = firstText(attributes, 'http.route', 'url.template', 'url.path', 'http.target') || pathOf(attributes);
    return path === '' ? name : `${verb} ${withoutQuery(path)}`;
  }
  const operation = firstText(attributes, 'messaging.operation.name', 'messaging.operation', 'messaging.operation.type');
  const destination = firstText(attributes, 'messaging.destination.template', 'messaging.destination.name', 'messaging.destination');
  return operation === '' ? name : `${operation} ${destination}`.trimEnd();
}

/** The other end: `host:port` of a server, only the address of a client, whose port is arbitrary. */
function peerOf(attributes: Attributes, kind: 'span' | 'client' | 'server'): string {
  if (kind === 'span') return '';
  if (kind === 'server')
    return firstText(attributes, 'client.address', 'network.peer.address', 'net.peer.name', 'net.sock.peer.addr', 'net.peer.ip');
  const address = firstText(attributes, 'server.address', 'net.peer.name', 'peer.service', 'network.peer.address', 'net.peer.ip');
  const port = attributes['server.port'] ?? attributes['net.peer.port'];
  return address !== '' && isPlain(port) && !address.includes(':') ? `${address}:${port}` : address;
}

function firstText(attributes: Attributes, ...keys: readonly string[]): string {
  for (const key of keys) {
    const value = attributes[key];
    if (typeof value === 'string' && value !== '') return value;
  }
  return '';
}

function pathOf(attributes: Attributes): string {
  const url = firstText(attributes, 'url.full', 'http.url');
  return URL.canParse(url) ? new URL(url).pathname : '';
}

const withoutQuery = (path: string): string => path.split('?', 1)[0] ?? '';

const isPlain = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';

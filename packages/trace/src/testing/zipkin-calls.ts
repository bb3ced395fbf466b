// Zipkin's files for tests: their spans as lines, and the merge's view of their calls.

import { expect } from 'vitest';
import { RpcSink, type RpcSummary } from '../analyse/rpcs.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { TraceEvent, TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { readZipkin } from '../zipkin/zipkin-source.ts';
import type { ZipkinSpan } from '../zipkin/zipkin-spans.ts';

const short = (id: string): string => id.replace(/^0+/, '').slice(0, 4);

/** `client 7428 < bf39 post servicea`, in the order of the file. */
export const zipkinLines = (spans: readonly ZipkinSpan[]): string[] =>
  spans.map(({ side, id, parentId, name, service }) => `${side || 'work'} ${short(id)} < ${short(parentId)} ${name} ${service}`);

/** Number of spans by side. */
export function sidesOf(spans: readonly ZipkinSpan[]): { client: number; server: number; work: number } {
  const sides = { client: 0, server: 0, work: 0 };
  for (const { side } of spans) sides[side || 'work']++;
  return sides;
}

/** An event of the merge, copied; ns on the trace's axis. */
export interface MergedCall {
  readonly host: string;
  readonly name: string;
  readonly kind: TraceEvent['kind'];
  readonly side: string;
  readonly start: number;
  readonly end: number;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly flow: bigint | undefined;
  readonly arguments: number;
}

export interface MergedCalls {
  readonly header: TraceHeader;
  readonly events: readonly MergedCall[];
  readonly rpcs: RpcSummary;
}

/** Merges the hosts of a Zipkin file. */
export function mergedZipkin(bytes: Uint8Array): MergedCalls {
  const events: MergedCall[] = [];
  const rpcs = new RpcSink();
  let header: TraceHeader | undefined;
  const keep: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: ({ lane, name, kind, side, start, length, spanId, parentSpanId, flow, arguments: args }) => {
      const host = lane.process.hostName;
      events.push({ host, name, kind, side, start, end: start + length, spanId, parentSpanId, flow, arguments: args?.size ?? 0 });
    },
    end: () => {},
  };
  const run = mergeRun(readZipkin(bytes).sources, teeSink(keep, rpcs));
  while (run.next().done !== true);
  return { header: header as TraceHeader, events, rpcs: rpcs.summary };
}

/**
 * The calls with both sides, checked: one arrow, no server before its client, none after it for calls that
 * wait.
 */
export function causalPairs({ header, events, rpcs }: MergedCalls): { client: MergedCall; server: MergedCall }[] {
  expect(header.processes.every(({ metadata, hostName }) => metadata.get('ranktrace.service') === hostName)).toBe(true);
  const clients = new Map(events.filter(({ side }) => side === 'client').map((event) => [event.spanId, event]));
  const pairs = events.flatMap((server) => {
    const client = server.side === 'server' ? clients.get(server.parentSpanId) : undefined;
    return client === undefined ? [] : [{ client, server }];
  });
  for (const { client, server } of pairs) {
    expect(server.flow).toBe(client.flow);
    expect(server.start).toBeGreaterThanOrEqual(client.start);
    if (server.end - server.start <= client.end - client.start) expect(server.end).toBeLessThanOrEqual(client.end);
  }
  expect(rpcs.routes.reduce((sum, { withoutServer, withoutClient, calls }) => sum + calls - withoutServer - withoutClient, 0)).toBe(
    pairs.length,
  );
  expect(rpcs.routes.reduce((sum, { reversed, async }) => sum + reversed + async, 0)).toBe(0);
  return pairs;
}

import { expect } from 'vitest';
import type { ZipkinSpan } from '../zipkin/zipkin-spans.ts';
import { adjustSpanSkew, type SkewSpan } from './span-skew.ts';

/** Spans of one trace, and their places by Jaeger's rules; named as in the recorded cases. */
export interface SkewCase {
  readonly name: string;
  readonly max_adjust_ms: number;
  readonly warning?: string;
  readonly spans: readonly {
    readonly id: number;
    /** 0 for a root. */
    readonly parent: number;
    readonly start_ms: number;
    readonly duration_ms: number;
    readonly host: string;
    readonly expected_start_ms: number;
    readonly events_ms?: readonly number[];
    readonly expected_events_ms?: readonly number[];
  }[];
}

const ms = 1e6;
const idOf = (number: number): string => (number === 0 ? '' : number.toString(16).padStart(16, '0'));

export function expectSkewCase({ spans, max_adjust_ms, warning }: SkewCase): void {
  const given = spans.map(
    ({ id, parent, start_ms, duration_ms, host, events_ms = [] }): SkewSpan => ({
      id: idOf(id),
      parentId: idOf(parent),
      start: start_ms * ms,
      length: duration_ms * ms,
      host,
      events: events_ms.map((time) => time * ms),
    }),
  );
  const adjusted = adjustSpanSkew(given, max_adjust_ms * ms);
  expect(adjusted.map(({ start }) => start / ms)).toEqual(spans.map(({ expected_start_ms }) => expected_start_ms));
  expect(adjusted.map(({ events }) => events.map((time) => time / ms))).toEqual(
    spans.map(({ events_ms = [], expected_events_ms = events_ms }) => expected_events_ms),
  );
  expect(adjusted.flatMap((span) => span.warning ?? [])).toEqual(warning === undefined ? [] : [warning]);
  expect(adjusted.map(({ raw }) => raw)).toEqual(given);
}

/** Checks that Jaeger's adjustment of these spans moves `moved` of them, and puts each child inside its parent. */
export function expectSkewRemoved(zipkin: readonly ZipkinSpan[], moved: number): void {
  const first = Math.min(...zipkin.map(({ startMicros }) => startMicros));
  const given = zipkin.map(
    ({ id, parentId, startMicros, lengthMicros = 0, address, annotations }): SkewSpan => ({
      id,
      parentId,
      start: (startMicros - first) * 1000,
      length: lengthMicros * 1000,
      host: address,
      events: annotations.map(({ micros }) => (micros - first) * 1000),
    }),
  );
  const adjusted = adjustSpanSkew(given, 3600e9);
  const byId = new Map(adjusted.map((span) => [span.raw.id, span]));
  for (const { raw, start } of adjusted) {
    const parent = byId.get(raw.parentId);
    if (parent === undefined) continue;
    expect(start).toBeGreaterThanOrEqual(parent.start);
    expect(start + raw.length).toBeLessThanOrEqual(parent.start + parent.raw.length);
  }
  expect(adjusted.filter(({ raw, start }) => raw.start !== start)).toHaveLength(moved);
}

// Clocks that others recorded: packets of two machines, RPC traces whose hosts disagree, and the results of their own tools.

import { describe, expect, it } from 'vitest';
import { type ExactLine, hullLine, type Rational } from '../../bench/src/clock-hull.ts';
import { messageClocks } from '../../packages/trace/src/testing/message-clocks.ts';
import { expectSkewCase, expectSkewRemoved, type SkewCase } from '../../packages/trace/src/testing/skew-case.ts';
import { causalPairs, mergedZipkin, sidesOf, zipkinLines } from '../../packages/trace/src/testing/zipkin-calls.ts';
import { readZipkinSpans } from '../../packages/trace/src/zipkin/zipkin-spans.ts';
import { recording, recordingRows, recordingText } from './recording.ts';

describe('packets of two machines (Trace Compass’ scp trace)', () => {
  const machines = ['scp_src', 'scp_dest'];
  // The file's times lie some 10^13 ns after these epochs of the machines' clocks.
  const epochs = [1_361_203_559_332_331_489n, 1_361_203_569_335_098_971n] as const;
  const packetsOf = () =>
    recordingRows('clock/scp_message_pairs.csv').map(([sender = '', sent, receiver = '', received]) => ({
      from: machines.indexOf(sender),
      sent: Number(sent),
      to: machines.indexOf(receiver),
      received: Number(received),
    }));
  const lineOf = (): ExactLine =>
    hullLine(
      packetsOf().map(({ from, sent, to, received }) => ({
        sender: from === 1 ? 'reference' : 'other',
        sent: BigInt(sent) + (epochs[from] as bigint),
        received: BigInt(received) + (epochs[to] as bigint),
      })),
    ) as ExactLine;

  it('come out in order, 46 of 46, with a drift that clocks can have', () => {
    const packets = packetsOf();
    expect(packets.length).toBe(46);
    const { methods, conflicts, refuted, inOrder, toTrace } = messageClocks(packets, epochs);
    expect(methods).toEqual(['exact', 'messages']);
    expect([conflicts, refuted, inOrder]).toEqual([[], 0, 46]);
    const [first, last] = [packets[0]?.received ?? 0, packets.at(-1)?.received ?? 0];
    const drift = (toTrace(1, last) - toTrace(1, first)) / (last - first) - 1;
    expect(Math.abs(drift) * 1e6).toBeLessThan(100);
  });

  it('have the convex hull that Trace Compass finds', () => {
    /** Rounded to `digits` decimals. */
    const decimal = ({ numerator, denominator }: Rational, digits: number): string => {
      const scaled = (2n * numerator * 10n ** BigInt(digits) + denominator) / (2n * denominator);
      const text = scaled.toString().padStart(digits + 1, '0');
      return `${text.slice(0, -digits)}.${text.slice(-digits)}`;
    };
    const { slope, offset } = lineOf();
    expect(decimal(slope, 17)).toBe('0.99994137837031390');
    expect(decimal(offset, 3)).toBe('79796507913179.333');
  });

  it('are all in order by that hull', () => {
    const { slope, offset } = lineOf();
    const scale = slope.denominator * offset.denominator;
    const onReference = (other: bigint): bigint => other * slope.numerator * offset.denominator + offset.numerator * slope.denominator;
    const inOrder = packetsOf().filter(({ from, sent, to, received }) => {
      const [out, back] = [BigInt(sent) + (epochs[from] as bigint), BigInt(received) + (epochs[to] as bigint)];
      return from === 0 ? onReference(out) <= back * scale : out * scale <= onReference(back);
    });
    expect(inOrder).toHaveLength(46);
  });
});

describe('Jaeger’s clock skew', () => {
  const names = [
    'single span with bad parent',
    'single span with empty host key',
    'two spans with the same ID',
    'parent-child on the same host',
    'do not adjust parent-child on the same host',
    'do not adjust child that fits inside parent',
    'do not adjust child that is longer than parent',
    'do not apply positive adjustment due to max skew adjustment',
    'do not apply negative adjustment due to max skew adjustment',
    'do not apply adjustment due to disabled adjustment',
    'adjust child starting before parent',
    'adjust child starting before parent even if it is longer',
    'adjust child ending after parent but being shorter',
  ];
  const casesOf = (): readonly SkewCase[] => JSON.parse(recordingText('clock/jaeger_clockskew_cases.json')).cases;

  it('has these cases', () => expect(casesOf().map(({ name }) => name)).toEqual(names));

  it.each(names)('as Jaeger: %s', (name) => expectSkewCase(casesOf().find((one) => one.name === name) as SkewCase));

  it('brings Zipkin’s skewed calls into order, raw times beside', () =>
    expectSkewRemoved(readZipkinSpans(recording('clock/zipkin/skew.json')).spans, 2));
});

describe('traces of Zipkin', () => {
  it('give a shared server an id of its own, below its client, and its children to it', () => {
    expect(zipkinLines(readZipkinSpans(recording('clock/zipkin/skew.json')).spans)).toEqual([
      'work 4321 < ea1f async serviceb',
      'server ea1f < 7428 post serviceb',
      'server bf39 <  get servicea',
      'client 7428 < bf39 post servicea',
    ]);
  });

  it.each([
    ['ascend', { client: 3, server: 3, work: 2 }],
    ['yelp', { client: 11, server: 4, work: 1 }],
  ])('%s is read without an error', (name, sides) => {
    const { spans, skipped, cut } = readZipkinSpans(recording(`clock/zipkin/${name}.json`));
    expect([skipped, cut]).toEqual([0, 0]);
    expect(sidesOf(spans)).toEqual(sides);
    expect(new Set(spans.map(({ id }) => id)).size).toBe(spans.length);
  });

  it.each([
    ['skew', 1],
    ['ascend', 2],
    ['yelp', 3],
  ])('%s merges: no server before its client, none after it for calls that wait', (name, pairs) => {
    const bytes = recording(`clock/zipkin/${name}.json`);
    const reported = mergedZipkin(bytes);
    expect(reported.events.filter(({ kind }) => kind !== 'instant')).toHaveLength(readZipkinSpans(bytes).spans.length);
    expect(causalPairs(reported)).toHaveLength(pairs);
  });
});

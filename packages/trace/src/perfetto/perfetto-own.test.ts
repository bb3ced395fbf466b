import { nanos } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { traceEvent, traceLane } from '../testing/trace-events.ts';
import { recogniseKind, type WritableEvent } from './perfetto-own.ts';

const stepOf = (given: Record<string, number>): WritableEvent => {
  const event: WritableEvent = traceEvent({ lane: traceLane({ kind: 'steps' }), length: nanos(1000) });
  recogniseKind(event, new Map(Object.entries(given)));
  return event;
};

test('a step has its overhead and its phases again', () => {
  const { kind, step, overhead, phases, arguments: rest } = stepOf({ step: 7, overheadNs: 30, 'phaseNs.forward': 400, loss: 2 });
  expect({ kind, step, overhead, phases, rest }).toEqual({
    ...{ kind: 'step', step: 7, overhead: 30, phases: new Map([['forward', 400]]) },
    rest: new Map([['loss', 2]]),
  });
});

test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('what is no length of time is no overhead and no phase: %s', (value) => {
  const { overhead } = stepOf({ step: 7, overheadNs: value });
  const { phases } = stepOf({ step: 7, 'phaseNs.forward': value });
  expect([overhead, phases]).toEqual([0, undefined]);
});

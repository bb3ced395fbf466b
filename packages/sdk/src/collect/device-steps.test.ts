import { limits, readDeviceSteps } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { DeviceStretches } from './device-steps.ts';

const steps = 60;

/** Changes at the begin of a step, and the number of past steps that are pulled. */
const turn = fc.record({
  recording: fc.option(fc.boolean(), { freq: 8 }),
  sending: fc.option(fc.boolean(), { freq: 8 }),
  pulled: fc.option(fc.nat(8), { freq: 8 }),
});

test('takes back steps whose window is over, of which work was lost', () => {
  const stretches = new DeviceStretches();
  stretches.hold(-1);
  stretches.record(0);
  for (const first of [10, 20, 30]) {
    stretches.send(first);
    stretches.hold(first + 4);
  }
  stretches.stop(22);
  stretches.record(40);
  stretches.send(38);
  stretches.hold(44);
  expect(stretches.text).toBe('[[10,14],[20,22],[40,44]]');
});

test('tells exactly the steps that were recorded and sent whole, in order and apart', () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: steps, maxLength: steps }), (turns) => {
      const stretches = new DeviceStretches();
      stretches.hold(-1);
      let [isRecording, isSending, recordedFrom] = [false, false, 0];
      const whole = new Set<number>();
      for (const [step, { recording, sending, pulled }] of turns.entries()) {
        if (recording !== null && recording !== isRecording) {
          isRecording = recording;
          recordedFrom = step;
          if (recording) stretches.record(step);
          else stretches.stop(step - 1);
        }
        if (sending !== null && sending !== isSending) {
          isSending = sending;
          if (sending) stretches.send(step);
          else stretches.hold(step - 1);
        }
        if (pulled !== null && isRecording) {
          stretches.add(step - pulled, step - 1);
          for (let of = Math.max(recordedFrom, step - pulled); of < step; of++) whole.add(of);
        }
        if (isRecording && isSending) whole.add(step);
      }
      stretches.hold(steps - 1);
      const told = readDeviceSteps(stretches.text) ?? [];
      const named = told.flatMap(([from, to]) => Array.from({ length: (to as number) - from + 1 }, (_, at) => from + at));
      expect(named).toEqual([...whole].sort((a, b) => a - b));
      for (const [at, [from]] of told.entries()) if (at > 0) expect(from).toBeGreaterThan((told[at - 1]?.[1] as number) + 1);
    }),
    { numRuns: runCount(300) },
  );
});

test('a stretch goes on until it ends, and one of no whole step is none', () => {
  const stretches = new DeviceStretches();
  expect(stretches.isKnown).toBe(false);
  stretches.record(3);
  expect(stretches.text).toBe('[[3,null]]');
  stretches.hold(2);
  expect(stretches.text).toBe('[]');
  expect(stretches.isKnown).toBe(true);
});

test('the last ones are told, and fit one string', () => {
  const stretches = new DeviceStretches();
  stretches.record(0);
  const first = limits.capturedStepMax - 4000;
  for (let step = first; step < limits.capturedStepMax; step += 4) {
    stretches.send(step);
    stretches.hold(step + 1);
  }
  expect(readDeviceSteps(stretches.text)).toHaveLength(limits.deviceStretchesMax);
  expect(readDeviceSteps(stretches.text)?.at(-1)?.[1]).toBeGreaterThan(limits.capturedStepMax - 5);
  expect(stretches.text.length).toBeLessThan(limits.stringBytesMax);
});

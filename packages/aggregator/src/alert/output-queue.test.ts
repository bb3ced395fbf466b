import type { Alert } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { makeAlert, resolved } from '../testing/make-alert.ts';
import type { SendResult } from './alert-output.ts';
import { OutputQueue } from './output-queue.ts';

const settings = { name: 'a', perMinute: 60_000, retryForMs: 1000, holdMs: 0, retryMs: 0.1, closeMs: 600_000 };

/** An event of one of five incidents, and the receiver's answer to the next try. */
const event = fc.record({
  incident: fc.nat({ max: 4 }),
  kind: fc.constantFrom('fire', 'update', 'resolve', 'again', 'resume'),
  answer: fc.constantFrom('ok', 'ok', 'ok', 'later', 'never'),
  pause: fc.boolean(),
});

test('whatever comes and whatever the receiver says: each state is taken once, the end after the beginning, and all is accounted for', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 40 }), async (events) => {
      const taken: Alert[] = [];
      const answers: string[] = [];
      let atOnce = 0;
      const send = async (alert: Alert): Promise<SendResult> => {
        expect(++atOnce).toBe(1);
        await new Promise(setImmediate);
        atOnce--;
        const answer = answers.shift() ?? 'ok';
        if (answer !== 'ok') return { ok: false, reason: answer, retry: answer === 'later' };
        taken.push(alert);
        return { ok: true };
      };
      const ports = { nowMs: () => performance.now(), wallMs: () => 0, onNotice: () => undefined };
      const queue = new OutputQueue(settings, { send }, ports);
      const offered = new Set<string>();
      const skipped = new Set<string>();
      const lives = new Map<number, number>();
      for (const { incident, kind, answer, pause } of events) {
        if (kind === 'again') lives.set(incident, (lives.get(incident) ?? 0) + 1);
        const firedAt = new Date(1e12 + (lives.get(incident) ?? 0) * 1000).toISOString();
        const alert = makeAlert({ id: `incident-${incident}`, firedAt, after: Math.round(2e8 + offered.size) });
        const reported = kind === 'resolve' ? resolved(alert) : alert;
        const key = `${reported.id} ${reported.firedAt} ${reported.state}`;
        answers.push(answer);
        if (kind === 'resume') {
          if (![...offered].some((one) => one.startsWith(`${reported.id} `))) skipped.add(key);
          queue.resume(reported);
        } else {
          // A begin after the end of its incident comes too late.
          if (!offered.has(`${reported.id} ${reported.firedAt} resolved`)) offered.add(key);
          queue.offer(reported);
        }
        if (pause) await new Promise(setImmediate);
      }
      await queue.close();
      const keys = taken.map(({ id, firedAt, state }) => `${id} ${firedAt} ${state}`);
      expect(new Set(keys).size).toBe(keys.length);
      for (const key of keys) expect(offered).toContain(key);
      for (const [index, key] of keys.entries()) {
        if (key.endsWith('resolved')) expect(keys.indexOf(key.replace('resolved', 'firing'))).toBeLessThan(index);
      }
      const { sent, lost, waiting, failures } = queue.status();
      expect(waiting).toBe(0);
      expect(sent).toBe(taken.length);
      expect(failures).toBeGreaterThanOrEqual(lost);
      const unsaid = [...offered].filter((key) => !keys.includes(key) && !skipped.has(key));
      expect(unsaid.length).toBe(lost);
    }),
    { seed: 20_260, numRuns: 150 },
  );
});

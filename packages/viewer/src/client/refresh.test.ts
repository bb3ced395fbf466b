import { describe, expect, it } from 'vitest';
import { Refresher, type Timers } from './refresh.ts';

/** A clock that a test moves on by hand. */
class HandClock implements Timers {
  #now = 0;
  #waiting: { readonly at: number; readonly action: () => void }[] = [];

  now = (): number => this.#now;

  after = (ms: number, action: () => void): (() => void) => {
    const entry = { at: this.#now + ms, action };
    this.#waiting.push(entry);
    return () => {
      this.#waiting = this.#waiting.filter((other) => other !== entry);
    };
  };

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    const due = this.#waiting.filter(({ at }) => at <= this.#now);
    this.#waiting = this.#waiting.filter(({ at }) => at > this.#now);
    for (const { action } of due) action();
    await settled();
  }
}

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
};

describe('Refresher', () => {
  it('asks at once, then at most once in its time, and once more after the last change', async () => {
    const clock = new HandClock();
    let asked = 0;
    const refresher = new Refresher(async () => void asked++, 1000, clock);
    for (let at = 0; at < 5; at++) refresher.changed();
    await settled();
    expect(asked).toBe(1);
    await clock.pass(999);
    expect(asked).toBe(1);
    await clock.pass(1);
    expect(asked).toBe(2);
    await clock.pass(5000);
    expect(asked).toBe(2);
    refresher.changed();
    expect(asked).toBe(3);
  });

  it('never asks twice at once, and rests twice as long as an answer takes', async () => {
    const clock = new HandClock();
    const answers: (() => void)[] = [];
    const refresher = new Refresher(() => new Promise<void>((resolve) => answers.push(resolve)), 1000, clock);
    refresher.changed();
    await clock.pass(3000);
    refresher.changed();
    expect(answers).toHaveLength(1);
    answers[0]?.();
    await settled();
    await clock.pass(5999);
    expect(answers).toHaveLength(1);
    await clock.pass(1);
    expect(answers).toHaveLength(2);
  });

  it('asks no more once it is closed', async () => {
    const clock = new HandClock();
    let asked = 0;
    const refresher = new Refresher(async () => void asked++, 1000, clock);
    refresher.changed();
    refresher.changed();
    refresher.close();
    await settled();
    await clock.pass(5000);
    refresher.changed();
    expect(asked).toBe(1);
  });
});

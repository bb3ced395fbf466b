// Ranks that wait for another one: a hang, a killed rank, or the end of a job. The test sets the time.

import { describe, expect, it } from 'vitest';
import type { AlertChange, EngineAlert } from './alert-change.ts';
import { AlertEngine, type AlertEngineState, type RankFact } from './alert-engine.ts';
import { type AlertRules, resolveAlertRules } from './alert-rules.ts';

const second = 1000;
const began = Date.UTC(2026, 0, 5, 12);
const ranks = [0, 1, 2, 3];

/** Four ranks with steps of `stepMs`, heard once a second; the service checks once a second. */
class Job {
  engine: AlertEngine;
  readonly reported: { readonly atMs: number; readonly change: AlertChange }[] = [];
  nowMs = 0;
  readonly silent = new Set<number>();
  readonly ended = new Set<number>();
  readonly #stepMs: number;
  #step = 0;

  constructor(rules: Partial<AlertRules>, stepMs = 200) {
    this.#stepMs = stepMs;
    this.engine = new AlertEngine('night', resolveAlertRules(rules));
  }

  hear(rank: number): void {
    const fact: RankFact = {
      worldSize: 4,
      host: 'a',
      incarnation: '1',
      ended: this.ended.has(rank),
      dropped: 0,
      missing: 0,
      lost: 0,
      clockSamples: 1,
    };
    this.engine.rank(rank, fact, began + this.nowMs);
  }

  /** Steps that all ranks end. */
  train(steps: number): this {
    for (let at = 0; at < steps; at++, this.#step++) {
      this.nowMs += this.#stepMs;
      for (const rank of ranks) {
        this.hear(rank);
        const phases = new Map([['forward', this.#stepMs * 1e6]]);
        this.engine.step(rank, { step: this.#step, length: this.#stepMs * 1e6, overhead: 0, phases, context: 0 });
      }
      this.#take(this.engine.changes(began + this.nowMs));
    }
    this.#take(this.engine.tick(began + this.nowMs));
    return this;
  }

  /** The ranks report that they are inside the all-reduce of this step, `ageMs` after they entered. */
  enter(inside: readonly number[], ageMs = 0): this {
    for (const rank of inside) {
      const collective = { op: 'all_reduce', group: 'world', sequence: this.#step, since: 0 };
      this.hear(rank);
      this.engine.isIn(rank, '1', { step: this.#step, phase: 'backward', collective }, ageMs);
    }
    return this;
  }

  isIn(rank: number, phase: string): this {
    this.hear(rank);
    this.engine.isIn(rank, '1', { step: this.#step, phase });
    return this;
  }

  wait(ms: number): this {
    for (const end = this.nowMs + ms; this.nowMs < end; ) {
      this.nowMs += second;
      for (const rank of ranks) if (!this.silent.has(rank) && !this.ended.has(rank)) this.hear(rank);
      this.#take(this.engine.tick(began + this.nowMs));
    }
    return this;
  }

  /** These ranks say goodbye. */
  end(...gone: readonly number[]): this {
    for (const rank of gone) {
      this.ended.add(rank);
      this.hear(rank);
    }
    return this;
  }

  get kinds(): string[] {
    return this.reported.filter(({ change }) => change.kind !== 'updated').map(({ change }) => `${change.kind} ${change.alert.rule}`);
  }

  get last(): EngineAlert {
    return (this.reported.at(-1) as (typeof this.reported)[number]).change.alert;
  }

  #take(changes: readonly AlertChange[]): void {
    for (const change of changes) this.reported.push({ atMs: this.nowMs, change });
  }
}

describe('a hang', () => {
  it.each([200, 2000])('is reported within `after` and one look, with steps of %i ms, with the collective and who is missing', (stepMs) => {
    const job = new Job({ hangMs: 10 * second }, stepMs).train(50);
    const enteredMs = job.nowMs;
    job.isIn(1, 'forward').wait(second);
    // Ranks report their place once they have been there for a second.
    job.enter([0, 2, 3], second).wait(60 * second);
    expect(job.kinds).toEqual(['fired hang']);
    const [{ atMs, change }] = job.reported as [(typeof job.reported)[number]];
    expect(atMs - enteredMs).toBeGreaterThanOrEqual(10 * second);
    expect(atMs - enteredMs).toBeLessThanOrEqual(11 * second);
    expect(change.alert).toMatchObject({ ranks: [1], severity: 'critical', onsetAt: new Date(began + enteredMs).toISOString() });
    expect(change.alert.summary).toMatch(
      /^ranks 0, 2, 3 are inside of all_reduce 50 of group world for 1\d\.\d s; rank 1 never entered it$/,
    );
  });

  it('that was reported because no step ends becomes one of a collective when that is known: the same incident, now critical', () => {
    const job = new Job({ hangMs: 10 * second }).train(50).wait(15 * second);
    expect(job.kinds).toEqual(['fired hang']);
    const { id } = job.last;
    expect(job.last).toMatchObject({ severity: 'warning', ranks: [] });
    job.enter([0, 1, 2], 14 * second).wait(5 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last).toMatchObject({ id, severity: 'critical', ranks: [3], summary: expect.stringContaining('rank 3 never entered it') });
    expect(job.reported.filter(({ change }) => change.kind === 'updated')).toHaveLength(1);
    job.train(5);
    expect(job.kinds).toEqual(['fired hang', 'resolved hang']);
  });

  it('is none while who is missing saves a checkpoint, as long as this run has taken for one before', () => {
    const job = new Job({ hangMs: 5 * second }).train(10);
    job
      .isIn(0, 'checkpoint')
      .enter([1, 2, 3])
      .wait(4 * second)
      .train(50);
    expect(job.reported).toEqual([]);
    const known = new Job({ hangMs: 5 * second }, 8000).train(10);
    known
      .isIn(0, 'save_checkpoint')
      .enter([1, 2, 3])
      .wait(20 * second);
    expect(known.reported).toEqual([]);
    // A wait without end is too long even then.
    known.wait(400 * second);
    expect(known.kinds).toEqual(['fired hang']);
  });

  it('names a rank that ended while the others still want something of it', () => {
    const job = new Job({ hangMs: 10 * second })
      .train(50)
      .end(2)
      .enter([0, 1, 3])
      .wait(20 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last).toMatchObject({ ranks: [2], summary: expect.stringMatching(/; rank 2 ended before it$/) });
  });
});

describe('a rank that was killed', () => {
  it('is reported within its `after` and one look, and who waits for it is part of that, however short the `after` of a hang is', () => {
    for (const hangMs of [second, 3 * second, 10 * second, 60 * second]) {
      const job = new Job({ hangMs, rankStoppedMs: 10 * second }).train(50).isIn(1, 'forward');
      const killedMs = job.nowMs;
      job.silent.add(1);
      job.enter([0, 2, 3]).wait(200 * second);
      expect(job.kinds, `${hangMs}`).toEqual(['fired rank_stopped']);
      const [{ atMs, change }] = job.reported as [(typeof job.reported)[number]];
      expect(atMs - killedMs).toBeLessThanOrEqual(11 * second);
      expect(change.alert).toMatchObject({ ranks: [1], severity: 'critical', step: 49, onsetStep: 50 });
      const where = 'rank 1 was in forward of step 50; ranks 0, 2, 3 wait in all_reduce 50 of group world';
      expect(change.alert.summary).toBe(`nothing was heard of rank 1 for 10.0 s, after step 49; ${where}`);
    }
  });

  it('is reported by the hang where the rule about silence is off', () => {
    const job = new Job({ hangMs: 3 * second, off: ['rank_stopped'] }).train(50);
    job.silent.add(1);
    job.enter([0, 2, 3]).wait(100 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last.ranks).toEqual([1]);
  });

  it('while it hung the others is reported, and the hang is over: what is open is one', () => {
    const job = new Job({ hangMs: 5 * second, rankStoppedMs: 10 * second })
      .train(50)
      .isIn(1, 'forward')
      .enter([0, 2, 3])
      .wait(10 * second);
    expect(job.kinds).toEqual(['fired hang']);
    job.silent.add(1);
    job.wait(30 * second);
    expect(job.kinds).toEqual(['fired hang', 'resolved hang', 'fired rank_stopped']);
    expect(job.reported.find(({ change }) => change.kind === 'resolved')?.change.alert.resolution).toBe(
      'rank 1 stopped: its own alert names the waiting ranks',
    );
    expect(job.engine.open).toHaveLength(1);
  });

  it('is reported where the others ended because of it', () => {
    const job = new Job({ rankStoppedMs: 10 * second }).train(50);
    job.silent.add(1);
    job
      .wait(second)
      .end(0, 2, 3)
      .wait(60 * second);
    expect(job.kinds).toEqual(['fired rank_stopped']);
    expect(job.last.summary).toBe('nothing was heard of rank 1 for 10.0 s, after step 49; the other 3 ranks have ended');
  });
});

describe('the end of a job', () => {
  it('blames no rank: ranks that end at different times, and long after one another, raise nothing', () => {
    const job = new Job({ hangMs: 5 * second, rankStoppedMs: 5 * second }).train(50);
    for (const rank of [2, 0, 3, 1]) job.end(rank).wait(40 * second);
    job.wait(100 * second);
    expect(job.reported).toEqual([]);
  });

  it('blames no rank after the service was started again in the middle of it', () => {
    const job = new Job({ hangMs: 5 * second, rankStoppedMs: 5 * second })
      .train(50)
      .end(2)
      .wait(10 * second);
    const rules = resolveAlertRules({ hangMs: 5 * second, rankStoppedMs: 5 * second });
    job.engine = AlertEngine.restore(JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState, began + job.nowMs, rules);
    job
      .wait(10 * second)
      .end(0, 1, 3)
      .wait(60 * second);
    expect(job.reported).toEqual([]);
  });

  it('is none where a rank ended before the others: these go on without ending a step', () => {
    const job = new Job({ hangMs: 5 * second }).train(50);
    for (const rank of [0, 1, 3]) {
      job.hear(rank);
      job.engine.step(rank, { step: 50, length: 2e8, overhead: 0, phases: new Map(), context: 0 });
    }
    job.end(2).wait(20 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last.summary).toMatch(/; rank 2 ended before$/);
  });
});

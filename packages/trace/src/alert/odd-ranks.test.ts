// Whatever ranks send, and whenever a service is started again: no rule ends with an error, an incident fires before it is updated and resolved, and each
// is resolved once the run is over.

import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { Random } from '../simulate/random.ts';
import type { AlertChange } from './alert-change.ts';
import { AlertEngine, type AlertEngineState } from './alert-engine.ts';
import { type AlertRules, resolveAlertRules } from './alert-rules.ts';

interface Rank {
  life: number;
  step: number;
  isAlive: boolean;
  ended: boolean;
  dropped: number;
  lost: number;
}

class OddJob {
  readonly changes: AlertChange[] = [];
  readonly #random: Random;
  readonly #rules: AlertRules;
  /** Share of what is odd; 0: a plain loop. */
  readonly #odd: number;
  readonly #ranks: Rank[];
  #engine: AlertEngine;
  #nowMs = Date.UTC(2026, 0, 5, 12);

  constructor(seed: number) {
    this.#random = new Random(seed, 'odd ranks');
    const random = this.#random;
    this.#odd = random.chance(0.3) ? 0 : random.uniform(0, 0.4);
    this.#rules = resolveAlertRules({
      memoryGrowthStepsMin: 10,
      ...(random.chance(0.3) && { stepTimeLimitMs: 250 }),
      ...(random.chance(0.5) && { hangMs: 5000, rankStoppedMs: 3000 }),
    });
    this.#ranks = Array.from({ length: 1 + random.whole(6) }, () => {
      return { life: 0, step: 0, isAlive: true, ended: false, dropped: 0, lost: 0 };
    });
    this.#engine = new AlertEngine('night', this.#rules);
  }

  run(turns: number): void {
    for (let turn = 0; turn < turns; turn++) {
      this.#nowMs += this.#happens(0.1) ? this.#random.whole(1e6) : 1000;
      for (const [rank, state] of this.#ranks.entries()) this.#turnOf(rank, state, turn > turns / 2 ? 1.3 : 1);
      this.#take(this.#engine.tick(this.#nowMs));
      if (this.#happens(0.05)) this.#restart();
    }
  }

  /** Time passes without any batch until the run is over. Returns what is still open. */
  end(): readonly string[] {
    for (let left = 1000; left > 0 && this.#engine.open.length > 0; left--) {
      this.#nowMs += 10_000;
      this.#take(this.#engine.tick(this.#nowMs));
    }
    return this.#engine.open;
  }

  #take(changes: readonly AlertChange[]): void {
    this.changes.push(...changes.map(({ kind, alert }) => ({ kind, alert: structuredClone(alert) })));
  }

  #restart(): void {
    const state = JSON.parse(JSON.stringify(this.#engine.state())) as AlertEngineState;
    if (this.#random.chance(0.3)) this.#nowMs += this.#random.whole(1e7);
    this.#engine = AlertEngine.restore(state, this.#nowMs, this.#rules);
  }

  #happens(share: number): boolean {
    return this.#random.chance(this.#odd * share);
  }

  /** Mostly small, now and then as large as a number may be. */
  #number(): number {
    const random = this.#random;
    const large = [random.whole(1e6), random.whole(1e12), Number.MAX_SAFE_INTEGER][random.whole(3)] as number;
    return random.chance(0.9) ? random.whole(50) : large;
  }

  #turnOf(rank: number, state: Rank, slowdown: number): void {
    const random = this.#random;
    if (this.#happens(0.05)) state.isAlive = !state.isAlive;
    if (!state.isAlive) return;
    if (this.#happens(0.05)) Object.assign(state, { life: state.life + 1, step: random.whole(state.step + 10), ended: false });
    if (this.#happens(0.02)) state.ended = true;
    if (this.#happens(0.1)) state.dropped += this.#number();
    if (this.#happens(0.1)) state.lost += random.whole(3);
    const life = this.#happens(0.1) ? random.whole(state.life + 1) : state.life;
    const incarnation = `life-${life}`;
    const isLatest = life === state.life;
    const worldSize = this.#happens(0.05) ? 1 + random.whole(8) : this.#ranks.length;
    const { ended, dropped, lost } = state;
    const about = { worldSize, host: `host-${rank >> 1}`, incarnation, isLatest, isBeside: this.#happens(0.1) };
    this.#engine.rank(rank, { ...about, ended, dropped, missing: lost, lost, clockSamples: random.whole(3) }, this.#nowMs);
    for (let left = 5; left > 0; left--) this.#stepOf(rank, state, slowdown);
    const at = { group: 'world', op: 'all_reduce', sequence: this.#number() };
    if (this.#happens(1)) {
      const place = random.chance(0.5) ? { phase: 'forward', since: this.#number() } : { collective: { ...at, since: this.#number() } };
      const entered = random.chance(0.3) ? { entered: [['world', this.#number()] as [string, number]] } : {};
      this.#engine.isIn(rank, incarnation, { step: this.#number(), ...place, ...entered }, this.#number());
    }
    if (this.#happens(0.3)) {
      const source = random.chance(0.5) ? 'flight_recorder' : 'nccl_ras';
      const open = random.chance(0.5) ? { open: { op: at.op, sequence: at.sequence, insideMs: this.#number() } } : {};
      this.#engine.collectives(rank, { source, groups: [{ group: 'world', entered: this.#number(), ...open }] });
    }
    this.#take(this.#engine.changes(this.#nowMs));
  }

  #stepOf(rank: number, state: Rank, slowdown: number): void {
    const random = this.#random;
    if (this.#happens(0.1)) state.step = this.#number();
    const length = Math.round((this.#happens(0.3) ? this.#number() : random.lognormal(2e8, 0.03)) * slowdown);
    const phases = new Map([
      ['forward', this.#happens(0.5) ? this.#number() : length / 2],
      ['all_reduce', length / 4],
    ]);
    const overhead = this.#happens(0.1) ? 2 * length : 0.004 * length;
    this.#engine.step(rank, { step: state.step, length, overhead, phases, context: this.#happens(0.5) ? random.whole(3) : 0 });
    state.step = Math.min(state.step + 1, Number.MAX_SAFE_INTEGER);
    this.#engine.counter(rank, `memory ${random.whole(2)}`, this.#happens(0.1) ? this.#number() : 3e6 * state.step);
    const kind = this.#happens(1) ? (['open', 'close'] as const)[random.whole(2)] : 'whole';
    const sequence = this.#happens(0.1) ? this.#number() : state.step;
    const part = { group: random.chance(0.5) ? 'world' : '', op: 'all_reduce', sequence };
    this.#engine.collective(rank, { ...part, state: kind as 'open', ageMs: this.#number() });
  }
}

describe.each(Array.from({ length: 10 * seedCount(10) }, (_, at) => at))('job %i', (seed) => {
  it('has incidents with a beginning and an end', () => {
    const job = new OddJob(seed);
    job.run(50 + (seed % 7) * 50);
    expect(job.end()).toEqual([]);
    const states = new Map<string, AlertChange['kind']>();
    for (const { kind, alert } of job.changes) {
      const before = states.get(alert.id) ?? 'resolved';
      expect(`${alert.id}: ${kind} after ${before}`).toMatch(kind === 'fired' ? /after resolved$/ : /after (?:fired|updated)$/);
      states.set(alert.id, kind);
      const { summary, before: was, after, change } = alert;
      expect(summary).not.toMatch(/NaN|Infinity|undefined/);
      for (const figure of [was, after, change]) expect(figure === null || Number.isFinite(figure)).toBe(true);
    }
    expect([...states].filter(([, kind]) => kind !== 'resolved')).toEqual([]);
  });
});

// The rules on simulated ranks, with step times of noise around a level, and on step times as training runs log them. Over
// 500 lines: each rule is tested among all the others, on one set of ranks.

import { besideOf } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { contextKeyOf } from '../detect/context-key.ts';
import type { StepTag } from '../detect/step-time-finding.ts';
import { TraceError } from '../model/errors.ts';
import { Random } from '../simulate/random.ts';
import { alertsOf, slowedFrom } from '../testing/judge-steps.ts';
import { evaluatedRuns, stationaryRuns } from '../testing/step-times.ts';
import type { AlertChange, EngineAlert } from './alert-change.ts';
import { AlertEngine, type AlertEngineState, type RankFact } from './alert-engine.ts';
import { type AlertRules, resolveAlertRules } from './alert-rules.ts';

const seeds = someSeeds([1, 2, 3, 4]);
const stepMs = 200;
const began = Date.UTC(2026, 0, 5, 12);

interface Shape {
  readonly ranks?: number;
  readonly worldSize?: number;
  readonly rules?: Partial<AlertRules>;
  readonly seed?: number;
  /** Own work of a rank in a phase, ms, at a step. */
  readonly work?: (rank: number, phase: 'data' | 'forward', step: number) => number;
  /** ms of the all-reduce itself. */
  readonly transfer?: (step: number) => number;
  readonly context?: (step: number) => string;
  readonly tag?: (step: number) => StepTag | undefined;
  readonly overhead?: (rank: number, step: number) => number;
  readonly hosts?: (rank: number) => string;
}

/** A job with ranks that meet at the end of each step; each reports 5 steps at once, as batches do. */
class Job {
  engine: AlertEngine;
  readonly reported: AlertChange[] = [];
  step = 0;
  nowMs = began;
  readonly ranks: number;
  readonly silent = new Set<number>();
  readonly lost = new Map<number, Partial<RankFact>>();
  readonly #shape: Shape;
  readonly #random: Random;

  constructor(shape: Shape = {}) {
    this.#shape = shape;
    this.ranks = shape.ranks ?? 4;
    this.#random = new Random(shape.seed ?? 1, 'job');
    this.engine = new AlertEngine('night', resolveAlertRules(shape.rules));
  }

  fact(rank: number): RankFact {
    const host = this.#shape.hosts?.(rank) ?? 'host-a';
    const worldSize = this.#shape.worldSize ?? this.ranks;
    return { worldSize, host, incarnation: '0001', ended: false, dropped: 0, missing: 0, lost: 0, clockSamples: 1, ...this.lost.get(rank) };
  }

  run(steps: number): this {
    for (const end = this.step + steps; this.step < end; ) this.#five();
    return this;
  }

  /** Time passes; ranks that are not silent send empty batches each second. */
  wait(ms: number): this {
    for (const end = this.nowMs + ms; this.nowMs < end; ) {
      this.nowMs += 1000;
      for (let rank = 0; rank < this.ranks; rank++) if (!this.silent.has(rank)) this.engine.rank(rank, this.fact(rank), this.nowMs);
      this.#take(this.engine.tick(this.nowMs));
    }
    return this;
  }

  kinds(): string[] {
    return this.reported.filter(({ kind }) => kind !== 'updated').map(({ kind, alert }) => `${kind} ${alert.rule}`);
  }

  last(kind: AlertChange['kind'] = 'fired'): EngineAlert {
    const change = this.reported.findLast((one) => one.kind === kind);
    if (change === undefined) throw new Error(`nothing was ${kind}`);
    return change.alert;
  }

  #five(): void {
    const { work = () => 80, transfer = () => 40, context = () => '', tag, overhead } = this.#shape;
    this.nowMs += 5 * stepMs;
    const facts = Array.from({ length: 5 }, (_, at) => {
      const step = this.step + at;
      const noise = (): number => this.#random.lognormal(1, 0.004);
      const own = Array.from({ length: this.ranks }, (_, rank) => {
        return { data: work(rank, 'data', step) * 0.25 * noise(), forward: work(rank, 'forward', step) * noise() };
      });
      const longest = Math.max(...own.map(({ data, forward }) => data + forward)) + transfer(step) * noise();
      return { step, own, longest };
    });
    for (let rank = 0; rank < this.ranks; rank++) {
      if (this.silent.has(rank)) continue;
      this.engine.rank(rank, this.fact(rank), this.nowMs);
      for (const { step, own, longest } of facts) {
        const { data, forward } = own[rank] as (typeof own)[number];
        const phases = new Map([
          ['data', data * 1e6],
          ['forward', forward * 1e6],
          ['all_reduce', (longest - data - forward) * 1e6],
        ]);
        const about = { step, length: longest * 1e6, phases, context: contextKeyOf(context(step)), tag: tag?.(step) };
        this.engine.step(rank, { ...about, overhead: overhead?.(rank, step) ?? 0 });
      }
      this.#take(this.engine.changes(this.nowMs));
    }
    this.step += 5;
    this.#take(this.engine.tick(this.nowMs));
  }

  #take(changes: readonly AlertChange[]): void {
    this.reported.push(...changes);
  }
}

describe.each(seeds)('slower steps (seed %i)', (seed) => {
  it('says nothing while nothing changes', () => {
    expect(new Job({ seed }).run(4000).reported).toEqual([]);
  });

  it('reports one alert of a rank that slows the cluster, names rank and phase, and resolves it', () => {
    const work: Shape['work'] = (rank, phase, step) => (rank === 2 && phase === 'forward' && step >= 600 && step < 1200 ? 92 : 80);
    const job = new Job({ seed, work }).run(2000);
    expect(job.kinds()).toEqual(['fired step_time', 'resolved step_time']);
    const [fired, resolved] = [job.last('fired'), job.last('resolved')];
    expect(fired).toMatchObject({ series: { kind: 'cluster' }, unit: 'ns', run: 'night', severity: 'warning' });
    expect(Math.abs((fired.onsetStep ?? 0) - 600)).toBeLessThanOrEqual(8);
    expect((fired.step ?? 0) - 600).toBeLessThan(45);
    expect(fired.change).toBeCloseTo(12 / 140, 1);
    expect((fired.after ?? 0) - (fired.before ?? 0)).toBeGreaterThan(9e6);
    expect(fired.summary).toMatch(/^steps are \d\.\d % slower since step \d+: 14\d ms → 15\d ms$/);
    // The rank's own work may become certain a block later.
    const hints = job.reported.filter(({ alert }) => alert.id === fired.id).map(({ alert }) => alert.hint);
    expect(hints.find((hint) => hint !== null && hint.ranks.length > 0)).toEqual({ ranks: [2], phase: 'forward' });
    expect(resolved).toMatchObject({ id: fired.id, state: 'resolved', resolution: expect.stringMatching(/^it went away: 14\d ms/) });
    expect(Date.parse(resolved.resolvedAt ?? '')).toBeGreaterThan(Date.parse(fired.firedAt));
  });

  it('names no rank where all ranks are slower', () => {
    const job = new Job({ seed, work: (_, phase, step) => (phase === 'forward' && step >= 600 ? 100 : 80) }).run(1200);
    expect(job.kinds()).toEqual(['fired step_time']);
    expect(job.last()).toMatchObject({ ranks: [], severity: 'critical' });
    expect(job.reported.at(-1)?.alert.hint).toMatchObject({ ranks: [], phase: 'forward' });
  });

  it('reports a rank that is much slower but hides behind another, once it is clear that the cluster is not slower', () => {
    const work: Shape['work'] = (rank, phase, step) => (phase === 'data' ? 80 : rank === 0 ? 120 : rank === 2 && step >= 600 ? 100 : 80);
    const job = new Job({ seed, work }).run(1500);
    expect(job.kinds()).toEqual(['fired step_time']);
    expect(job.last()).toMatchObject({ series: { kind: 'rank', rank: 2 }, severity: 'warning', ranks: [2] });
    expect(job.last().summary).toMatch(/^rank 2 is (19|20)\.\d % slower since step \d+: /);
  });

  it('is silent about a change of a rank that is little of a step', () => {
    const work: Shape['work'] = (rank, phase, step) => (phase === 'data' ? (rank === 1 && step >= 600 ? 8 : 4) : rank === 0 ? 120 : 80);
    expect(new Job({ seed, work }).run(1500).reported).toEqual([]);
  });

  it('a planned change of the batch size is none: the context says so', () => {
    const shape: Shape = {
      seed,
      work: (_rank, _phase, step) => (step >= 700 ? 150 : 80),
      context: (step) => (step >= 700 ? 'batch=512' : 'batch=256'),
    };
    expect(new Job(shape).run(2000).reported).toEqual([]);
    // The same without a context is an alert.
    expect(new Job({ ...shape, context: () => '' }).run(2000).kinds()).toEqual(['fired step_time']);
  });

  it('what is open when the context changes is resolved', () => {
    const job = new Job({
      seed,
      work: (_rank, _phase, step) => (step >= 600 ? 100 : 80),
      context: (step) => (step >= 1000 ? 'b' : 'a'),
    }).run(1500);
    expect(job.kinds()).toEqual(['fired step_time', 'resolved step_time']);
    expect(job.last('resolved').resolution).toMatch(/^a new context since step 1000/);
  });

  it('evaluations and checkpoints with a tag are none', () => {
    const isEval = (step: number): boolean => step % 100 >= 50 && step % 100 < 80;
    const shape: Shape = {
      seed,
      work: (_rank, _phase, step) => (isEval(step) ? 200 : 80),
      tag: (step) => (isEval(step) ? 'eval' : undefined),
    };
    expect(new Job(shape).run(3000).reported).toEqual([]);
  });

  it('reports a slow rise once, as a drift', () => {
    const job = new Job({ seed, transfer: (step) => 40 + Math.max(0, step - 600) * 0.005 }).run(4000);
    expect(job.kinds()).toEqual(['fired step_time_drift']);
    expect(job.last().change).toBeGreaterThan(0.04);
  });

  it('holds steps against an absolute limit, and resolves it', () => {
    const job = new Job({
      seed,
      rules: { stepTimeLimitMs: 200, off: ['step_time'] },
      transfer: (step) => (step >= 300 && step < 400 ? 120 : 40),
    }).run(600);
    expect(job.kinds()).toEqual(['fired step_time_limit', 'resolved step_time_limit']);
    expect(job.last()).toMatchObject({ onsetStep: 300, severity: 'critical', before: 200e6 });
    // A single long step is no alert.
    expect(new Job({ seed, rules: { stepTimeLimitMs: 200 }, transfer: (step) => (step % 50 === 0 ? 400 : 40) }).run(600).reported).toEqual(
      [],
    );
  });

  it('the first steps of a job are not held against the limit, and what the alert says of the others is told again', () => {
    // Compilation, then 280 ms, then 180 ms, both over the limit; then a start of the job anew, which compiles again.
    const limited = { seed, rules: { stepTimeLimitMs: 150, off: ['step_time', 'step_time_drift'] } } satisfies Shape;
    const job = new Job({ ...limited, transfer: (step) => (step < 8 ? 900 : step < 40 ? 180 : 80) }).run(100);
    expect(job.kinds()).toEqual(['fired step_time_limit']);
    expect(job.last()).toMatchObject({ onsetStep: 8 });
    expect(job.last().summary).toMatch(/^steps take 28\d ms, /);
    expect(job.last('updated').summary).toMatch(/^steps take 18\d ms, over the limit of 150 ms, since step 8$/);
    const again = new Job({ ...limited, transfer: (step) => (step < 5 || (step >= 100 && step < 105) ? 900 : 40) }).run(100);
    for (const rank of [0, 1, 2, 3]) again.lost.set(rank, { incarnation: '0002' });
    expect(again.run(100).kinds()).toEqual([]);
  });

  it('restored it goes on as one that never stopped', () => {
    const shape: Shape = { seed, work: (rank, phase, step) => (rank === 2 && phase === 'forward' && step >= 600 && step < 1500 ? 92 : 80) };
    const [whole, parted] = [new Job(shape), new Job(shape)];
    whole.run(2500);
    for (const steps of [500, 110, 800, 200, 890]) {
      parted.run(steps);
      const state = JSON.parse(JSON.stringify(parted.engine.state())) as AlertEngineState;
      parted.engine = AlertEngine.restore(state, parted.nowMs);
    }
    expect(parted.kinds()).toEqual(['fired step_time', 'resolved step_time']);
    expect(parted.reported.map(({ kind, alert }) => [kind, alert.id])).toEqual(whole.reported.map(({ kind, alert }) => [kind, alert.id]));
  });
});

describe('ranks', () => {
  it('that say nothing are stopped, together one alert, until they are back', () => {
    const job = new Job().run(300);
    job.silent.add(1).add(3);
    job.wait(29_000);
    expect(job.reported).toEqual([]);
    job.wait(3000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    expect(job.last()).toMatchObject({ ranks: [1, 3], severity: 'critical', series: { kind: 'cluster' }, step: 299 });
    expect(job.last().summary).toBe('nothing was heard of ranks 1, 3 for 30.0 s, after step 299; 2 of 4 ranks go on');
    job.wait(120_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    job.silent.clear();
    job.wait(2000);
    expect(job.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
    expect(job.last('resolved')).toMatchObject({ resolution: 'the rank is back', ranks: [1, 3] });
  });

  it('that never come are reported, unless that is most of them; and when they do', () => {
    const job = new Job({ ranks: 3, worldSize: 4, rules: { off: ['hang'] } }).run(100);
    for (const rank of [0, 1, 2]) {
      const collective = { op: 'all_reduce', group: 'world', sequence: 0, since: 0 };
      job.engine.isIn(rank, '0001', { step: 100, phase: 'backward', collective });
    }
    job.wait(40_000);
    expect(job.reported).toEqual([]);
    job.wait(20_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    expect(job.last()).toMatchObject({ ranks: [3], onsetStep: null });
    expect(job.last().summary).toBe('nothing was ever heard of rank 3; ranks 0, 1, 2 wait in all_reduce 0 of group world');
    job.engine.rank(3, job.fact(3), job.nowMs);
    job.wait(1000);
    expect(job.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
    expect(job.last('resolved').resolution).toBe('the rank came');
    const alone = new Job({ ranks: 3, worldSize: 8 }).run(100);
    expect(alone.run(1000).reported).toEqual([]);
  });

  it('that wait for one in init_process_group, before any step, tell which it is', () => {
    const job = new Job({});
    for (const rank of [0, 1, 2, 3]) job.engine.rank(rank, job.fact(rank), job.nowMs);
    for (const rank of [0, 2, 3]) {
      const collective = { op: 'init_process_group', group: 'rendezvous', sequence: 0, since: 0 };
      job.engine.isIn(rank, '0001', { step: 0, collective });
    }
    job.wait(55_000);
    expect(job.reported).toEqual([]);
    job.wait(10_000);
    expect(job.kinds()).toEqual(['fired hang']);
    expect(job.last()).toMatchObject({ ranks: [1] });
    expect(job.last().summary).toMatch(
      /^ranks 0, 2, 3 are inside of init_process_group 0 of group rendezvous for \S+ s; rank 1 never entered it$/,
    );
  });

  it('that load for minutes before they are heard themselves, beside an agent, are not stopped; one of them that never comes is', () => {
    for (const isRestored of [false, true]) {
      const job = new Job({ rules: { off: ['hang'] } });
      for (const rank of [0, 1, 2, 3]) job.lost.set(rank, { isBeside: true, incarnation: besideOf('0001') });
      if (isRestored) {
        job.wait(1000);
        job.engine = AlertEngine.restore(JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState, job.nowMs);
      }
      job.wait(300_000);
      expect(job.reported).toEqual([]);
      for (const rank of [0, 1, 2]) job.lost.delete(rank);
      job.wait(55_000);
      expect(job.reported).toEqual([]);
      job.wait(10_000);
      expect(job.kinds()).toEqual(['fired rank_stopped']);
      expect(job.last()).toMatchObject({ ranks: [3], onsetStep: null });
      expect(job.last().summary).toBe('nothing was ever heard of rank 3; 3 of 4 ranks go on');
      job.lost.delete(3);
      job.wait(1000);
      expect(job.last('resolved').resolution).toBe('the rank came');
      job.silent.add(2);
      job.wait(32_000);
      expect(job.last().summary).toBe('nothing was heard of rank 2 for 30.0 s; 3 of 4 ranks go on');
    }
  });

  it('that a job which was started again does without are stopped no more', () => {
    const job = new Job({ ranks: 4 }).run(100);
    job.silent.add(3);
    job.wait(40_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    // Nor by a restarted service that has heard no rank yet.
    job.engine = AlertEngine.restore(JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState, job.nowMs);
    expect(job.engine.tick(job.nowMs)).toEqual([]);
    for (const rank of [0, 1, 2]) job.lost.set(rank, { incarnation: '0002', worldSize: 3 });
    job.wait(40_000);
    expect(job.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
    expect(job.last('resolved').resolution).toBe('the job goes on without it');
  });

  it('of a job that is started again with fewer are no longer waited for, nor named where the job hangs', () => {
    const job = new Job({ rules: { hangMs: 20_000 } }).run(500);
    for (const rank of [0, 1]) job.lost.set(rank, { incarnation: '0002', worldSize: 2 });
    for (const rank of [2, 3]) job.silent.add(rank);
    job.run(100);
    // A last word of the life before.
    job.engine.rank(3, job.fact(3), job.nowMs);
    job.run(100);
    expect(job.engine.state().judged).toBe(699);
    job.wait(60_000);
    expect(job.kinds()).toEqual(['fired hang']);
    expect(job.last().summary).toMatch(/^no rank has ended a step for 20\.0 s, after step 699; usually one takes [\d.]+ ms$/);
    job.engine = AlertEngine.restore(JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState, job.nowMs);
    job.silent.add(0).add(1);
    job.wait(40_000);
    expect(job.last()).toMatchObject({ rule: 'rank_stopped', ranks: [0, 1] });
  });

  it('of a job that is started again with more have time to come', () => {
    const job = new Job({ rules: { off: ['hang'] } });
    for (const rank of [2, 3]) job.silent.add(rank);
    for (const rank of [0, 1]) job.lost.set(rank, { worldSize: 2 });
    job.run(350).wait(5000);
    for (const rank of [0, 1]) job.lost.set(rank, { incarnation: '0002' });
    job.silent.delete(2);
    job.wait(10_000);
    expect(job.reported).toEqual([]);
    job.wait(60_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    expect(job.last().summary).toBe('nothing was ever heard of rank 3; 3 of 4 ranks go on');
  });

  it('that stopped one after the other leave none that goes on', () => {
    const job = new Job({ ranks: 3, rules: { off: ['hang'] } }).run(100);
    for (const rank of [0, 1, 2]) {
      job.silent.add(rank);
      job.wait(70_000);
    }
    expect(job.reported.filter(({ kind }) => kind === 'fired').map(({ alert }) => alert.summary.split('; ').at(-1))).toEqual([
      '2 of 3 ranks go on',
      '1 of 3 ranks go on',
      'no other rank goes on',
    ]);
  });

  it('are looked at as far as they came, however many the job may have', () => {
    const job = new Job({ worldSize: 2 ** 31 }).run(100);
    job.wait(200_000);
    expect(job.reported.map(({ alert }) => alert.rule)).not.toContain('rank_stopped');
  });

  it('that are all silent are one alert, and after long it is over', () => {
    const job = new Job().run(100);
    for (const rank of [0, 1, 2, 3]) job.silent.add(rank);
    job.wait(40_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    expect(job.last().summary).toContain('no rank reports anything');
    job.wait(600_000);
    expect(job.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
  });

  it.each<[string, Shape, number[]]>([
    ['was killed after another one failed', {}, [3]],
    ['never came', { ranks: 3, worldSize: 4 }, []],
  ])('that are missing in a run that is over raise nothing again: one that %s', (_, shape, killed) => {
    const job = new Job({ rules: { off: ['hang'] }, ...shape }).run(100);
    job.engine.fail(2, '0001', 'Error: planted failure');
    for (let rank = 0; rank < job.ranks; rank++) if (!killed.includes(rank)) job.lost.set(rank, { ended: true });
    for (let rank = 0; rank < job.ranks; rank++) job.engine.rank(rank, job.fact(rank), job.nowMs);
    for (let rank = 0; rank < job.ranks; rank++) job.silent.add(rank);
    job.wait(900_000);
    expect(job.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
    expect(job.last('resolved').resolution).toBe('the run ended');
  });

  it('that stop after the last number that a step can have are reported with a step that can be read', () => {
    const job = new Job({ ranks: 1 });
    job.engine.rank(0, job.fact(0), job.nowMs);
    const about = { length: 1e8, overhead: 0, phases: new Map<string, number>(), context: contextKeyOf('') };
    job.engine.step(0, { step: Number.MAX_SAFE_INTEGER, ...about });
    job.silent.add(0);
    job.wait(40_000);
    expect(job.last()).toMatchObject({ rule: 'rank_stopped', onsetStep: Number.MAX_SAFE_INTEGER });
  });

  it('that said goodbye are not stopped, and with the last of them everything is over', () => {
    const job = new Job({ work: (_rank, _phase, step) => (step >= 600 ? 100 : 80) }).run(900);
    expect(job.kinds()).toEqual(['fired step_time']);
    for (const rank of [0, 1, 2, 3]) job.lost.set(rank, { ended: true });
    job.wait(1000);
    for (const rank of [0, 1, 2, 3]) job.silent.add(rank);
    job.wait(100_000);
    expect(job.kinds()).toEqual(['fired step_time', 'resolved step_time']);
    expect(job.last('resolved').resolution).toBe('the run ended');
  });

  it('whose program failed are reported at once, the first of them named, also where the run is over with that; until they are back', () => {
    const job = new Job().run(300);
    job.engine.fail(2, '0001', 'ValueError: bad batch\nsecret');
    job.lost.set(2, { ended: true });
    job.wait(1000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    const text = 'rank 2 failed after step 299: ValueError: bad batch\\u000asecret';
    expect(job.last()).toMatchObject({
      ranks: [2],
      onsetStep: 300,
      severity: 'critical',
      hint: { ranks: [2], stated: { kind: 'rank_stopped', text } },
    });
    expect(job.last().summary).toBe(text);
    for (const rank of [0, 1, 3]) {
      job.engine.fail(rank, '0001', 'RuntimeError: Connection closed by peer');
      job.lost.set(rank, { ended: true });
    }
    job.wait(1000);
    expect(job.last('resolved')).toMatchObject({ resolution: 'the run ended', summary: `${text}; ranks 0, 1, 3 failed, too` });

    const sudden = new Job().run(300);
    for (const rank of [0, 1, 2, 3]) {
      sudden.engine.fail(rank, '0001', `Error: ${rank}`);
      sudden.lost.set(rank, { ended: true });
    }
    sudden.wait(1000);
    expect(sudden.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
    expect(sudden.last('resolved').summary).toBe('rank 0 failed after step 299: Error: 0; ranks 1, 2, 3 failed, too');

    const again = new Job().run(300);
    again.engine.fail(2, '0000', 'of an earlier life');
    again.engine.fail(2, '0001', 'Error: once');
    again.lost.set(2, { ended: true });
    again.wait(1000);
    again.lost.set(2, { incarnation: '0002' });
    again.wait(1000);
    expect(again.kinds()).toEqual(['fired rank_stopped', 'resolved rank_stopped']);
    expect(again.last('resolved')).toMatchObject({ resolution: 'the rank is back', summary: 'rank 2 failed after step 299: Error: once' });
  });

  it.each([
    ['whose connection broke', 0, true],
    ['that is silent for long', 120_000, true],
    ['of which no transport says that it is gone', 0, false],
  ])('that are killed are one alert with those that fail by it: a rank %s', (_, ms, leaves) => {
    const job = new Job({ rules: { off: ['hang'] } }).run(300);
    job.silent.add(2);
    if (leaves) job.engine.left(2, '0001', job.nowMs);
    job.wait(ms);
    job.silent.add(0).add(1).add(3);
    for (const rank of [0, 1, 3]) {
      job.engine.rank(rank, { ...job.fact(rank), ended: true }, job.nowMs + 100);
      job.engine.fail(rank, '0001', 'RuntimeError: Connection closed by peer');
    }
    job.wait(40_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    const { ranks, hint, summary } = (job.reported.at(-1) as AlertChange).alert;
    expect(ranks).toEqual([0, 1, 2, 3]);
    expect(hint?.ranks).toEqual([leaves ? 2 : 0]);
    const error = 'RuntimeError: Connection closed by peer';
    const text = `rank 2 was lost without a goodbye after step 299; then rank 0 failed: ${error}; ranks 1, 3 failed, too`;
    if (leaves) expect(summary).toBe(text);
  });

  const timedOut = 'RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete';

  it.each([2, 3])('that waited in vain for another one name it, by its place: %i ranks', (count) => {
    const job = new Job({ ranks: count }).run(300);
    for (let rank = 0; rank < count; rank++) job.engine.isIn(rank, '0001', { step: 300, phase: rank === 1 ? 'data' : 'forward' });
    job.wait(12_000);
    const victims = Array.from({ length: count }, (_, rank) => rank).filter((rank) => rank !== 1);
    for (const rank of victims) {
      job.engine.fail(rank, '0001', timedOut);
      job.lost.set(rank, { ended: true });
    }
    job.wait(1000);
    expect(job.last()).toMatchObject({ rule: 'rank_stopped', ranks: [1], onsetStep: 300, hint: { ranks: [1], phase: 'data' } });
    const { summary } = job.last();
    expect(summary).toContain('the others waited in vain for rank 1, which did not come as far; ');
    expect(summary).toContain('; rank 1 was in data of step 300');
    expect(summary).toContain(`; then rank 0 failed: ${timedOut}${count === 2 ? '' : '; rank 2 failed, too'}`);
  });

  it('that waited in vain name the first of them where no place says who did not come', () => {
    const job = new Job().run(300);
    for (const rank of [0, 1, 2, 3]) job.engine.isIn(rank, '0001', { step: 300, phase: 'all_reduce' });
    job.wait(12_000);
    for (const rank of [2, 3]) job.engine.fail(rank, '0001', timedOut);
    job.wait(1000);
    expect(job.last()).toMatchObject({ ranks: [2, 3], summary: `rank 2 failed after step 299: ${timedOut}; rank 3 failed, too` });
  });

  it('before the first step wait in vain for one that was never heard of', () => {
    const job = new Job({ ranks: 3, worldSize: 4 });
    job.wait(2000);
    for (const rank of [0, 1, 2])
      job.engine.fail(rank, '0001', 'DistStoreError: Timed out after 61 seconds waiting for clients. 3/4 clients joined.');
    job.wait(1000);
    expect(job.last()).toMatchObject({ ranks: [3] });
    expect(job.last().summary).toMatch(/^the others waited in vain for rank 3, of which nothing was ever heard; then rank 0 failed: /);
  });

  const closed = 'RuntimeError: Connection closed by peer';

  it.each([
    ['was ended by SIGKILL', 'before'],
    ['ended with exit code 1', 'after'],
  ])('that the command which started them saw end first are the reason of the others: one that %s, %s', (how, when) => {
    const job = new Job().run(300);
    for (const rank of [0, 1, 2, 3]) job.lost.set(rank, { pid: 40 + rank });
    job.wait(1000);
    job.silent.add(2);
    const see = (): void => {
      job.engine.exited(2, 7, { how: 'ended with exit code 9', isExpected: false }, job.nowMs); // of another process
      job.engine.exited(2, 42, { how, isExpected: false }, job.nowMs);
    };
    if (when === 'before') see();
    for (const rank of [0, 1, 3]) job.engine.fail(rank, '0001', closed);
    if (when === 'after') {
      job.wait(1000);
      see();
    }
    job.wait(1000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    const { alert } = job.reported.at(-1) as AlertChange;
    expect(alert).toMatchObject({ ranks: [0, 1, 2, 3], hint: { ranks: [2] } });
    expect(alert.summary).toBe(`rank 2 ${how} after step 299; then rank 0 failed: ${closed}; ranks 1, 3 failed, too`);
    // It stops the rest, and none of them is silent or lost after that.
    for (const rank of [0, 1, 3]) job.silent.add(rank);
    for (const rank of [0, 1, 3]) job.engine.exited(rank, 40 + rank, { how: 'was ended by SIGKILL', isExpected: true }, job.nowMs);
    job.wait(1000);
    expect(job.last('resolved').resolution).toBe('the run ended');
  });

  it('that ended before it was heard of are named with how they ended', () => {
    const job = new Job({ ranks: 3, worldSize: 4 });
    job.wait(1000);
    job.engine.exited(3, 43, { how: 'ended with exit code 1', isExpected: false }, job.nowMs);
    job.engine.exited(4, 44, { how: 'ended with exit code 1', isExpected: false }, job.nowMs);
    job.wait(1000);
    expect(job.last()).toMatchObject({ ranks: [3], summary: 'rank 3 ended with exit code 1 before anything was heard of it' });
  });

  it('that a signal ended before others lost their connection are the reason, but not where people end the job', () => {
    const end = (signal: string): Job => {
      const job = new Job().run(300);
      job.engine.rank(1, { ...job.fact(1), ended: true }, job.nowMs + 100);
      job.engine.endedBy(1, '0001', signal);
      job.lost.set(1, { ended: true });
      job.wait(1000);
      for (const rank of [0, 2, 3]) job.engine.fail(rank, '0001', closed);
      return job.wait(1000);
    };
    const text = `rank 1 was ended by SIGTERM after step 299; then rank 0 failed: ${closed}`;
    expect(end('SIGTERM').last()).toMatchObject({ ranks: [1], hint: { ranks: [1] }, summary: `${text}; ranks 2, 3 failed, too` });
    expect(end('SIGINT').reported).toEqual([]);
  });

  it('whose connection breaks after the first error, or comes back, are not its cause', () => {
    const job = new Job({ rules: { off: ['hang'] } }).run(300);
    job.engine.left(1, '0001', job.nowMs);
    job.wait(1000);
    job.engine.rank(2, { ...job.fact(2), ended: true }, job.nowMs + 100);
    job.engine.fail(2, '0001', 'ValueError: bad batch');
    for (const rank of [0, 1, 3]) job.engine.left(rank, '0001', job.nowMs + 200);
    for (const rank of [0, 1, 2, 3]) job.silent.add(rank);
    job.wait(40_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    expect(job.reported.at(-1)?.alert.hint?.ranks).toEqual([2]);
  });

  it('that are started again from an earlier step are judged from there', () => {
    const job = new Job().run(500);
    job.step = 200;
    for (const rank of [0, 1, 2, 3]) job.lost.set(rank, { incarnation: '0002' });
    job.run(3000);
    expect(job.reported).toEqual([]);
    expect(job.engine.state().judged).toBe(3199);
  });

  it('that are started again behind a clock that was set back go on, whatever their names say and whatever comes late of the life before', () => {
    const job = new Job({ rules: { off: ['hang'] } }).run(100);
    for (const rank of [0, 1, 2, 3]) job.lost.set(rank, { incarnation: '0000', isLatest: true });
    job.wait(20_000);
    job.engine.rank(2, { ...job.fact(2), incarnation: '0001', isLatest: false, ended: true }, job.nowMs);
    job.wait(60_000);
    expect(job.reported).toEqual([]);
    job.silent.add(2);
    job.wait(40_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    expect(job.last()).toMatchObject({ ranks: [2] });
  });

  it('that lose data are reported, and resolved when nothing more is lost', () => {
    const job = new Job({ rules: { off: ['hang'] } }).run(100);
    job.lost.set(1, { dropped: 12 });
    job.wait(2000);
    expect(job.kinds()).toEqual(['fired data_loss']);
    expect(job.last()).toMatchObject({ ranks: [1], unit: 'count', after: 12 });
    job.wait(70_000);
    expect(job.kinds()).toEqual(['fired data_loss', 'resolved data_loss']);
    // The next loss is another alert.
    job.lost.set(1, { dropped: 13 });
    job.wait(2000);
    expect(job.kinds().at(-1)).toBe('fired data_loss');
    expect(new Set(job.reported.map(({ alert }) => alert.id)).size).toBe(2);
  });

  it('whose batches come out of order lose nothing, but for those that never come', () => {
    const job = new Job({ rules: { off: ['hang'] } }).run(100);
    job.lost.set(1, { missing: 2 });
    job.wait(300_000);
    job.lost.set(1, { missing: 0 });
    job.wait(30_000);
    expect(job.reported).toEqual([]);
    job.lost.set(1, { missing: 1, lost: 1 });
    job.wait(2000);
    expect(job.kinds()).toEqual(['fired data_loss']);
    expect(job.last().summary).toBe('data of rank 1 is lost: 1 batches are missing');
  });

  it('that ended have lost what does not come for a while after', () => {
    const job = new Job({ rules: { off: ['hang'] } }).run(100);
    job.lost.set(1, { missing: 3, ended: true });
    job.wait(2000);
    job.silent.add(1);
    job.wait(60_000);
    expect(job.kinds()).not.toContain('fired data_loss');
    job.wait(20_000);
    expect(job.kinds()).toContain('fired data_loss');
    expect(job.last().summary).toBe('data of rank 1 is lost: 3 batches are missing');
  });

  it.each([
    ['batches that never came', { missing: 3 }, 80_000],
    ['events that the last batch says were dropped', { dropped: 7 }, 2000],
  ])('that all ended have lost data all the same, also for a service that was started again: %s', (_, loss, firedMs) => {
    const job = new Job().run(100);
    for (const rank of [0, 1, 2, 3]) job.lost.set(rank, { ended: true, ...(rank === 1 && loss) });
    for (const rank of [0, 1, 2, 3]) job.engine.rank(rank, job.fact(rank), job.nowMs);
    for (const rank of [0, 1, 2, 3]) job.silent.add(rank);
    for (const ms of [1000, firedMs]) {
      job.wait(ms);
      const state = JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState;
      expect(state.isOver).toBe(false);
      job.engine = AlertEngine.restore(state, job.nowMs);
    }
    expect(job.kinds()).toEqual(['fired data_loss']);
    job.wait(70_000);
    expect(job.kinds()).toEqual(['fired data_loss', 'resolved data_loss']);
    expect(job.last('resolved').resolution).toBe('nothing more was lost for 60.0 s');
    expect(job.engine.state().isOver).toBe(true);
  });

  it('on a host without clock pings are unaligned, where there are several hosts', () => {
    const alone = new Job();
    for (const rank of [0, 1, 2, 3]) alone.lost.set(rank, { clockSamples: 0 });
    expect(
      alone
        .run(100)
        .wait(100_000)
        .kinds()
        .filter((kind) => kind.includes('clock')),
    ).toEqual([]);
    const job = new Job({ hosts: (rank) => (rank < 2 ? 'host-a' : 'host-b'), rules: { off: ['hang'] } }).run(100);
    job.lost.set(2, { clockSamples: 0 }).set(3, { clockSamples: 0 });
    job.wait(65_000);
    expect(job.kinds()).toEqual(['fired clock_unaligned']);
    expect(job.last().ranks).toEqual([2, 3]);
    job.lost.clear();
    job.wait(2000);
    expect(job.kinds().at(-1)).toBe('resolved clock_unaligned');
  });

  it('whose recording takes too much of the steps are reported, and resolved', () => {
    const job = new Job({ overhead: (rank, step) => (rank === 1 && step < 400 ? 3e6 : 0.2e6) }).run(300);
    expect(job.kinds()).toEqual(['fired overhead']);
    expect(job.last()).toMatchObject({ ranks: [1], unit: 'share', before: 0.005 });
    expect(job.last().after).toBeCloseTo(3 / 140, 2);
    job.run(300);
    expect(job.kinds()).toEqual(['fired overhead', 'resolved overhead']);
  });

  it('whose memory grows step by step are reported; garbage that is collected, and caches that fill, are not', () => {
    const mib = 1024 * 1024;
    const [leaking, collecting, filling] = [new Job(), new Job(), new Job()];
    for (let at = 0; at < 200; at++) {
      for (const job of [leaking, collecting, filling]) job.run(5);
      const { step } = leaking;
      leaking.engine.counter(2, 'rss', 4e9 + mib * (step < 600 ? 2 * step : 1200) + (step % 40) * mib);
      collecting.engine.counter(2, 'rss', 4e9 + (step % 180) * 4 * mib);
      filling.engine.counter(2, 'rss', 4e9 + Math.min(step, 150) * 10 * mib);
    }
    expect(leaking.kinds()).toEqual(['fired memory_growth', 'resolved memory_growth']);
    expect(leaking.last()).toMatchObject({ ranks: [2], unit: 'bytes' });
    expect(leaking.last().after).toBeGreaterThan(1.5 * mib);
    expect(leaking.last().after).toBeLessThan(2.5 * mib);
    expect(collecting.reported).toEqual([]);
    expect(filling.reported).toEqual([]);
  });
});

describe('a hang', () => {
  it('is a collective that some ranks never entered; it is over when they do', () => {
    const job = new Job().run(100);
    const enter = (rank: number, state: 'open' | 'close'): void =>
      job.engine.collective(rank, { group: 'world', op: 'all_reduce', sequence: 7, state });
    for (const rank of [0, 1, 3]) enter(rank, 'open');
    job.wait(50_000);
    expect(job.reported).toEqual([]);
    job.wait(15_000);
    expect(job.kinds()).toEqual(['fired hang']);
    expect(job.last()).toMatchObject({ ranks: [2], severity: 'critical', onsetStep: 100 });
    expect(job.last().summary).toMatch(/^ranks 0, 1, 3 are inside of all_reduce 7 of group world for 6\d\.\d s; rank 2 never entered it$/);
    for (const rank of [0, 1, 3]) enter(rank, 'close');
    job.run(10);
    expect(job.kinds()).toEqual(['fired hang', 'resolved hang']);
  });

  it('is seen of ranks that record nothing, by where they say they are', () => {
    const job = new Job().run(100);
    const waits = { step: 100, collective: { op: 'all_reduce', group: 'dp', sequence: 7, since: 1 }, phase: 'backward', since: 0 };
    // Rank 3 has left it already, which it reports once it stays where it is.
    job.engine.isIn(3, '0001', { step: 100, phase: 'optimizer', since: 2 });
    for (const rank of [0, 1]) job.engine.isIn(rank, '0001', waits);
    job.engine.isIn(2, '0001', { step: 100, phase: 'data', since: 0, entered: [['dp', 6]] });
    job.wait(1000);
    job.engine.isIn(3, '0001', { step: 100, phase: 'optimizer', since: 2, entered: [['dp', 7]] });
    job.wait(65_000);
    expect(job.kinds()).toEqual(['fired hang']);
    expect(job.last().summary).toMatch(/^ranks 0, 1 are inside of all_reduce 7 of group dp for 6\d\.\d s; rank 2 never entered it$/);
    const text = 'rank 2 is in data of step 100; rank 3 is in optimizer of step 100; ranks 0, 1 are in backward of step 100';
    expect(job.last()).toMatchObject({ ranks: [2], hint: { ranks: [2], phase: 'data', stated: { kind: 'hang', text } } });
    // A report from an earlier life of the rank comes late.
    job.engine.isIn(0, '0000', { step: 3 });
    expect(job.engine.open).toHaveLength(1);
    job.run(5);
    expect(job.kinds()).toEqual(['fired hang', 'resolved hang']);
  });

  it('is reported in one line of bounded length, whatever ranks call things', () => {
    const job = new Job({ ranks: 64 }).run(100);
    const name = `a\n\u001b[2J${'x'.repeat(4000)}`;
    const collective = { op: name, group: name, sequence: 7, since: 0 };
    for (let rank = 0; rank < 63; rank++) job.engine.isIn(rank, '0001', { step: 90 + (rank % 9), phase: `${rank % 9}${name}`, collective });
    job.engine.isIn(63, '0001', { step: 99, phase: name });
    job.wait(70_000);
    for (const text of [job.last().summary, job.last().hint?.stated?.text ?? '']) {
      expect(text).not.toMatch(/\p{C}/u);
      expect(text.length).toBeGreaterThan(100);
      expect(text.length).toBeLessThanOrEqual(1024);
    }
    job.silent.add(3).add(63);
    job.wait(40_000);
    const stopped = job.last();
    expect([stopped.rule, stopped.summary.length <= 1024, /\p{C}/u.test(stopped.summary)]).toEqual(['rank_stopped', true, false]);
  });

  it('is none of a rank that has gone on from where it was', () => {
    const job = new Job().run(100);
    for (let second = 0; second < 70; second++) {
      const collective = { op: 'all_reduce', group: 'world', sequence: second, since: second };
      for (const rank of [0, 1, 2, 3]) job.engine.isIn(rank, '0001', second % 2 === 0 ? { step: 100, collective } : { step: 100 });
      job.wait(1000);
    }
    // The steps do not end, but no collective is known to be open.
    expect(job.reported.map(({ alert }) => alert.summary)).toEqual([expect.stringMatching(/^no rank has ended a step/)]);
  });

  it('is also that no step ends; who is behind is named', () => {
    const job = new Job().run(100).wait(65_000);
    expect(job.kinds()).toEqual(['fired hang']);
    expect(job.last()).toMatchObject({ severity: 'warning', ranks: [] });
    expect(job.last().summary).toMatch(/^no rank has ended a step for 6\d\.\d s, after step 99; usually one takes 14\d ms$/);
    job.run(5);
    expect(job.kinds()).toEqual(['fired hang', 'resolved hang']);
  });

  it('is still one for a service that was started again', () => {
    const job = new Job().run(100).wait(65_000);
    job.engine = AlertEngine.restore(JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState, job.nowMs);
    job.wait(100_000);
    expect(job.kinds()).toEqual(['fired hang']);
    job.run(5);
    expect(job.kinds()).toEqual(['fired hang', 'resolved hang']);
  });

  it('of those that wait for a rank that stopped is part of that alert', () => {
    const job = new Job().run(100);
    job.silent.add(2);
    job.engine.isIn(2, '0001', { step: 100, phase: 'forward', since: 0 });
    for (const rank of [0, 1, 3]) job.engine.collective(rank, { group: 'world', op: 'all_reduce', sequence: 7, state: 'open' });
    job.wait(200_000);
    expect(job.kinds()).toEqual(['fired rank_stopped']);
    const where = 'rank 2 was in forward of step 100 when last heard; ranks 0, 1, 3 wait in all_reduce 7 of group world';
    expect(job.last()).toMatchObject({ step: 99, onsetStep: 100, hint: { ranks: [2], phase: 'forward', stated: { text: where } } });
    expect(job.last().summary).toBe(`nothing was heard of rank 2 for 30.0 s, after step 99; ${where}`);
  });

  it('is no pause that such a run makes from time to time', () => {
    const job = new Job({ transfer: (step) => (step === 50 ? 120_000 : 40) }).run(100).wait(200_000);
    expect(job.reported).toEqual([]);
  });
});

describe('training runs as people log them', () => {
  it('at one level do not alert (24 seeds)', () => {
    const alerted = stationaryRuns(3000).filter(({ rows }) => alertsOf(rows).length > 0);
    expect(alerted.map(({ seed }) => seed)).toEqual([]);
  });

  it('that become 5 % slower alert, about where it began (8 seeds)', () => {
    for (const { seed, rows } of stationaryRuns(1300).slice(0, 8)) {
      const [alert] = alertsOf(slowedFrom(rows, 1000, 1.05));
      expect(alert, `seed ${seed}`).toMatchObject({ rule: 'step_time' });
      expect(Math.abs((alert?.onsetStep ?? 0) - 1000), `seed ${seed}`).toBeLessThanOrEqual(16);
    }
  });

  it('that evaluate now and then do not alert (12 seeds)', () => {
    for (const { seed, rows } of evaluatedRuns()) expect([seed, alertsOf(rows)]).toEqual([seed, []]);
  });
});

it('notes that steps became faster, and wakes nobody for it', () => {
  const job = new Job({ work: (_, __, step) => (step < 600 ? 80 : 70) }).run(1000);
  expect(job.kinds()).toEqual([]);
  expect(job.engine.improvements).toMatchObject([{ kind: 'improvement' }]);
  expect(Math.abs((job.engine.improvements[0]?.onsetStep ?? 0) - 600)).toBeLessThanOrEqual(16);
  const state = JSON.parse(JSON.stringify(job.engine.state())) as AlertEngineState;
  expect(AlertEngine.restore(state, job.nowMs).improvements).toEqual(job.engine.improvements);
});

describe('an engine', () => {
  it('holds no more than it may, whatever comes (seed 5)', () => {
    const random = new Random(5, 'anything');
    const engine = new AlertEngine('wild');
    let nowMs = began;
    for (let index = 0; index < 20_000; index++) {
      const rank = random.whole(50);
      nowMs += random.whole(2000);
      const incarnation = String(random.whole(3));
      engine.rank(
        rank,
        {
          host: `h${random.whole(9)}`,
          incarnation,
          ended: random.chance(0.01),
          dropped: random.whole(9),
          missing: random.whole(3),
          lost: random.whole(2),
          clockSamples: random.whole(2),
          worldSize: random.whole(100_000),
        },
        nowMs,
      );
      const step = random.chance(0.02) ? random.whole(2 ** 50) : index;
      const phases = new Map([[`phase ${random.whole(500)}`, random.uniform(0, 1e9)]]);
      engine.step(rank, {
        step,
        length: random.chance(0.1) ? Number.NaN : random.uniform(0, 1e9),
        overhead: random.uniform(0, 1e7),
        phases,
        context: random.whole(3),
      });
      engine.counter(rank, `counter ${random.whole(99)}`, random.uniform(0, 1e12));
      const state = random.chance(0.5) ? 'open' : random.chance(0.5) ? 'close' : 'whole';
      engine.collective(rank, { group: `group ${random.whole(5000)}`, op: 'all_reduce', sequence: random.whole(1000), state });
      for (const { alert } of [...engine.changes(nowMs), ...(index % 50 === 0 ? engine.tick(nowMs) : [])]) {
        expect(alert.summary.length).toBeLessThan(1024);
        expect(alert.id.length).toBeLessThanOrEqual(256);
      }
    }
    expect(JSON.stringify(engine.state()).length).toBeLessThan(2e6);
  });

  it('says what is wrong with its rules', () => {
    const codeOf = (rules: Partial<AlertRules>): string => {
      try {
        resolveAlertRules(rules);
        return 'fine';
      } catch (error) {
        return error instanceof TraceError ? `${error.code}: ${error.message}` : 'another error';
      }
    };
    expect([codeOf({}), codeOf({ rankStoppedMs: 1 }), codeOf({ off: ['nothing' as 'hang'] })]).toEqual([
      'fine',
      'bad_option: Cannot alert with rankStoppedMs 1: it must be 100 to 86400000',
      expect.stringMatching(/^bad_option: Cannot turn off rule "nothing": it must be one of step_time, /),
    ]);
  });
});

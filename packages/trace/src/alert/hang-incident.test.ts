// Ranks that wait for another one: a hang, a killed rank, or the end of a job. The test sets the time. Long, for one job
// plays all of it: what ranks announce, Flight Recorder, NCCL, and their places.

import type { CollectiveReport } from '@ranktrace/protocol';
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
  readonly #lives = new Map<number, string>();
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
      incarnation: this.#lives.get(rank) ?? '1',
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
        const names = [...(this.#step % 20 === 0 ? ['barrier'] : []), 'data', 'recv', 'forward', 'backward', 'optimizer'];
        const phases = new Map(names.map((name) => [name, (this.#stepMs * 1e6) / names.length] as const));
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

  isAfter(rank: number, after: string): this {
    this.hear(rank);
    this.engine.isIn(rank, '1', { step: this.#step, after });
    return this;
  }

  /** The ranks report that they are inside of this operation, under the number that all of them use next. */
  calls(op: string, inside: readonly number[]): this {
    for (const rank of inside) {
      const collective = { op, group: 'world', sequence: this.#step, since: 0 };
      this.hear(rank);
      this.engine.isIn(rank, '1', { step: this.#step, collective }, second);
    }
    return this;
  }

  /** What Flight Recorder shows of each rank: how far it came in a group, and what it is inside of since when. */
  recorded(reports: Readonly<Record<number, CollectiveReport['groups']>>): this {
    return this.#reported('flight_recorder', reports);
  }

  /** NCCL's counts, by rank. */
  counted(counts: Readonly<Record<number, number>>, group = 'communicator 0x1f'): this {
    const reports = Object.entries(counts).map(([rank, entered]) => [rank, [{ group, entered }]]);
    return this.#reported('nccl_ras', Object.fromEntries(reports));
  }

  #reported(source: CollectiveReport['source'], reports: Readonly<Record<number, CollectiveReport['groups']>>): this {
    for (const [rank, groups] of Object.entries(reports)) {
      this.hear(Number(rank));
      this.engine.collectives(Number(rank), { source, groups });
    }
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

  /** These ranks begin again, at the last step that was saved. */
  restart(...again: readonly number[]): this {
    this.#step -= 10;
    for (const rank of again) {
      this.#lives.set(rank, '2');
      this.hear(rank);
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
  it('in which ranks are ended keeps what was known of it', () => {
    const job = new Job({ hangMs: 10 * second }).train(50);
    for (const rank of [0, 2, 3]) job.isIn(rank, 'backward');
    job.isAfter(1, 'data').wait(15 * second);
    const { summary, hint } = job.last;
    expect(summary).toMatch(/; rank 1 did not come as far as the others$/);
    job
      .end(1)
      .wait(5 * second)
      .end(0, 2, 3)
      .wait(2 * second);
    expect(job.last).toMatchObject({ state: 'resolved', summary, ranks: [1], hint });
  });

  it('of ranks that wait in different places blames none for a collective that only a few called', () => {
    const inBarrier = (job: Job, ...few: number[]): Job => {
      for (const rank of few) {
        job.hear(rank);
        const collective = { op: 'barrier', group: 'world', sequence: 7, since: 0 };
        job.engine.isIn(rank, '1', { step: 50, phase: 'barrier of the end', collective }, second);
      }
      return job;
    };
    const job = inBarrier(new Job({ hangMs: 10 * second }).train(50), 1);
    for (const rank of [0, 2, 3]) job.isIn(rank, 'backward');
    job.wait(12 * second);
    expect(job.last).toMatchObject({ rule: 'hang', ranks: [1] });
    expect(job.last.summary).toMatch(
      /^rank 1 is inside of barrier 7 of group world for 1\d\.\d s; the others wait in another place: ranks 0, 2, 3 are in backward of step 50$/,
    );
    const halves = inBarrier(new Job({ hangMs: 10 * second }).train(50), 0, 1);
    for (const rank of [2, 3]) halves.isIn(rank, 'backward');
    expect(halves.wait(12 * second).last.ranks).toEqual([]);
    // Those that load, evaluate or are at different places may well be what it waits for.
    for (const [first, others] of [
      ['data', 'data'],
      ['evaluate', 'evaluate'],
      ['backward', 'forward'],
    ] as const) {
      const late = inBarrier(new Job({ hangMs: 10 * second }).train(50), 1);
      late.isIn(0, first);
      for (const rank of [2, 3]) late.isIn(rank, others);
      expect(late.wait(300 * second).last).toMatchObject({ ranks: [0, 2, 3] });
    }
  });

  it('of ranks that called different operations names those of the fewest ranks', () => {
    const job = new Job({ hangMs: 10 * second })
      .train(50)
      .calls('all_reduce', [0, 1, 3])
      .calls('broadcast', [2])
      .wait(20 * second);
    expect(job.last).toMatchObject({ rule: 'hang', severity: 'critical', ranks: [2] });
    expect(job.last.summary).toMatch(
      /^ranks 0, 1, 3 are inside of all_reduce 50 of group world for 1\d\.\d s; rank 2 called broadcast instead$/,
    );
    const halves = new Job({ hangMs: 10 * second })
      .train(50)
      .calls('gather', [0, 1])
      .calls('_allgather_base', [2, 3])
      .wait(20 * second);
    expect(halves.last).toMatchObject({ ranks });
    const alike = new Job({ hangMs: 10 * second })
      .train(50)
      .calls('all_gather', [0, 1])
      .calls('_allgather_base', [2, 3])
      .wait(20 * second);
    expect(alike.last.summary).toMatch(/; all ranks are in it$/);
  });

  it('tells ranks that left a collective from those that never came', () => {
    const job = new Job({ hangMs: 10 * second })
      .train(50)
      .enter(ranks, second)
      .isIn(3, 'optimizer')
      .wait(20 * second);
    expect(job.last.summary).toMatch(/^ranks 0, 1, 2 are inside of all_reduce 50 of group world for 1\d\.\d s; rank 3 left it$/);
  });

  it.each([
    ['an earlier phase', (job: Job) => job.isIn(1, 'data'), [1], 'rank 1 is in data of step 50; ranks 0, 2, 3 are in backward of step 50'],
    [
      'the time after one',
      (job: Job) => job.isAfter(1, 'data'),
      [1],
      'rank 1 is in step 50, after data; ranks 0, 2, 3 are in backward of step 50',
    ],
    [
      'a phase that only some steps have',
      (job: Job) => job.isAfter(1, 'barrier'),
      [1],
      'rank 1 is in step 50, after barrier; ranks 0, 2, 3 are in backward of step 50',
    ],
    [
      'a later phase',
      (job: Job) => job.isIn(1, 'optimizer'),
      [],
      'rank 1 is in optimizer of step 50; ranks 0, 2, 3 are in backward of step 50',
    ],
    [
      'a phase that no step had',
      (job: Job) => job.isIn(1, 'recover'),
      [],
      'rank 1 is in recover of step 50; ranks 0, 2, 3 are in backward of step 50',
    ],
    ['a wait', (job: Job) => job.isIn(1, 'recv'), [], 'rank 1 is in recv of step 50; ranks 0, 2, 3 are in backward of step 50'],
    [
      'two groups',
      (job: Job) => job.isIn(1, 'data').isIn(2, 'data'),
      [],
      'ranks 0, 3 are in backward of step 50; ranks 1, 2 are in data of step 50',
    ],
  ] as const)('in a phase without known collectives names who did not come as far: %s', (_, place, named, text) => {
    const job = new Job({ hangMs: 10 * second }).train(50);
    for (const rank of ranks) job.isIn(rank, 'backward');
    place(job);
    job.wait(20 * second);
    expect(job.last).toMatchObject({ rule: 'hang', severity: 'warning', ranks: named, step: 49 });
    expect(job.last.summary.includes('rank 1 did not come as far as the others')).toBe(named.length > 0);
    expect(job.last.hint?.stated?.text).toBe(text);
  });

  it('in sends and receives names who waits in none', () => {
    const hang = (place: (job: Job) => Job): EngineAlert => {
      const job = new Job({ hangMs: 10 * second }).train(50).isIn(0, 'send').isIn(1, 'recv');
      return place(job).wait(20 * second).last;
    };
    const last = hang((job) => job.isAfter(2, 'recv').isIn(3, 'recv'));
    expect(last).toMatchObject({ rule: 'hang', ranks: [2] });
    expect(last.summary).toMatch(/; all wait but rank 2$/);
    expect(hang((job) => job.isIn(2, 'recv').isIn(3, 'recv'))).toMatchObject({ ranks: [] });
    expect(hang((job) => job.isIn(2, 'save').isIn(3, 'save'))).toMatchObject({ ranks: [] });
    // Nothing is known of rank 3.
    expect(hang((job) => job.isIn(2, 'save'))).toMatchObject({ ranks: [] });
  });

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

  it('after a restart blames no rank for how far it came before it', () => {
    const job = new Job({ hangMs: 10 * second }).train(50).restart(...ranks);
    job.wait(15 * second);
    expect(job.last).toMatchObject({ rule: 'hang', ranks: [] });
    expect(job.last.summary).toMatch(/after step 49; usually one takes 200 ms; all ranks restarted since then$/);
    job.train(5);
    expect(job.kinds).toEqual(['fired hang', 'resolved hang']);
  });

  it('names the rank that alone was restarted, and has ended no step since', () => {
    const job = new Job({ hangMs: 10 * second }).train(50).restart(2);
    job.wait(15 * second);
    expect(job.last).toMatchObject({ rule: 'hang', ranks: [2], summary: expect.stringContaining('rank 2 restarted since then') });
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

/** A rank inside of this number of a group, for so long. */
const inside = (group: string, sequence: number, insideMs: number): CollectiveReport['groups'][number] => ({
  group,
  entered: sequence,
  open: { op: 'all_reduce', sequence, insideMs },
});

describe('a hang of ranks that announce nothing themselves', () => {
  const rules = { hangMs: 10 * second };

  it('is suspected after half of the time, and reports are asked for only then', () => {
    const job = new Job(rules).train(50);
    expect(job.engine.suspectsHang).toBe(false);
    job.wait(4 * second);
    expect(job.engine.suspectsHang).toBe(false);
    job.wait(2 * second);
    expect(job.engine.suspectsHang).toBe(true);
    job.train(2).wait(second);
    expect(job.engine.suspectsHang).toBe(false);
  });

  it('names the rank that Flight Recorder shows outside of what the others are in', () => {
    const job = new Job(rules).train(50).wait(6 * second);
    job.recorded({
      0: [inside('world', 18, 6000)],
      1: [inside('world', 18, 6000)],
      2: [inside('world', 18, 6000)],
      3: [{ group: 'world', entered: 17 }],
    });
    job.wait(6 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last).toMatchObject({ ranks: [3], severity: 'critical' });
    expect(job.last.summary).toMatch(
      /^Flight Recorder: ranks 0, 1, 2 are inside of all_reduce 18 of group world for \d+\.\d s; rank 3 never entered it$/,
    );
    job.train(5);
    expect(job.kinds).toEqual(['fired hang', 'resolved hang']);
  });

  it('names the rank at its root where one group holds up another', () => {
    const job = new Job(rules).train(50).wait(6 * second);
    // Rank 2 never entered its pair's; rank 3 waits there, and so is missing where ranks 0 and 1 wait.
    job.recorded({
      0: [inside('world', 18, 5000)],
      1: [inside('world', 18, 5000)],
      2: [
        { group: 'world', entered: 17 },
        { group: 'tp', entered: 40 },
      ],
      3: [{ group: 'world', entered: 17 }, inside('tp', 41, 5500)],
    });
    job.wait(6 * second);
    expect(job.last).toMatchObject({ ranks: [2], summary: expect.stringContaining('rank 3 is inside of all_reduce 41 of group tp') });
  });

  it('names all of them where ranks wait for one another', () => {
    const job = new Job(rules).train(50).wait(6 * second);
    const [a, b] = [inside('a', 5, 6000), inside('b', 5, 6000)];
    job.recorded({ 0: [a, { group: 'b', entered: 4 }], 1: [b, { group: 'a', entered: 4 }] }).wait(6 * second);
    expect(job.last.summary).toMatch(/rank 1 waits in another collective$/);
    expect(job.last.ranks).toEqual([0, 1]);
  });

  it('is named by NCCL where a count stands still below the others, and by no count that was reported once', () => {
    const job = new Job(rules)
      .train(50)
      .wait(6 * second)
      .counted({ 0: 900, 1: 900, 2: 899, 3: 900 })
      .wait(6 * second);
    expect(job.last).toMatchObject({ ranks: [], severity: 'warning' });
    job.counted({ 0: 900, 1: 900, 2: 899, 3: 900 }).wait(second);
    expect(job.last).toMatchObject({ ranks: [2] });
    expect(job.last.summary).toMatch(/; NCCL RAS: rank 2 launched 899 collectives of communicator 0x1f, others 900$/);
  });

  it('blames nobody by NCCL where all counts agree: it has called hung jobs healthy', () => {
    const job = new Job(rules).train(50).wait(6 * second);
    for (let at = 0; at < 4; at++) job.counted({ 0: 900, 1: 900, 2: 900, 3: 900 }).wait(5 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last).toMatchObject({ ranks: [], summary: expect.not.stringContaining('NCCL') });
  });

  it('blames nobody where the sources contradict each other, and says so', () => {
    const job = new Job(rules).train(50).wait(6 * second);
    for (let at = 0; at < 3; at++) {
      job.recorded({ 0: [inside('world', 18, 6000)], 2: [inside('world', 18, 6000)], 3: [{ group: 'world', entered: 17 }] });
      job.counted({ 0: 900, 1: 900, 2: 899, 3: 900 }).wait(5 * second);
    }
    expect(job.last.ranks).toEqual([]);
    expect(job.last.summary).toMatch(
      /rank 3 never entered it; NCCL RAS: rank 2 launched .*; these contradict each other, so no rank is named$/,
    );
  });

  it('blames the rank that each source names, where one of them names more', () => {
    const job = new Job(rules)
      .train(50)
      .enter([0, 2])
      .wait(6 * second);
    for (let at = 0; at < 3; at++) job.counted({ 0: 900, 1: 899, 2: 900, 3: 900 }).wait(5 * second);
    expect(job.last.ranks).toEqual([1]);
    expect(job.last.summary).toMatch(/^ranks 0, 2 are inside of all_reduce 50 .*; ranks 1, 3 never entered it; NCCL RAS: rank 1 /);
  });

  it('is seen without a single step, by counts that stop; a pause as long as an earlier one is none', () => {
    const job = new Job(rules);
    const go = (count: number): void => void job.counted({ 0: count, 1: count, 2: count, 3: count }).wait(5 * second);
    for (let at = 0; at < 6; at++) go(100 * at);
    job.counted({ 0: 501, 1: 500, 2: 501, 3: 501 }).wait(12 * second);
    expect(job.kinds).toEqual([]);
    for (let at = 0; at < 3; at++) job.counted({ 0: 501, 1: 500, 2: 501, 3: 501 }).wait(5 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last).toMatchObject({ ranks: [1], step: null });
    expect(job.last.summary).toMatch(
      /^no rank launches collectives for .*; NCCL RAS: rank 1 launched 500 collectives of communicator 0x1f, others 501$/,
    );
    go(600);
    go(700);
    expect(job.kinds).toEqual(['fired hang', 'resolved hang']);
    // It took 24 s: only three times as long is none of its usual pauses.
    job.counted({ 0: 801, 1: 800, 2: 801, 3: 801 });
    for (let at = 0; at < 8; at++) job.counted({ 0: 801, 1: 800, 2: 801, 3: 801 }).wait(5 * second);
    expect(job.kinds).toHaveLength(2);
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
      const where = 'rank 1 was in forward of step 50 when last heard; ranks 0, 2, 3 wait in all_reduce 50 of group world';
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
  it('that never comes is a hang of the ranks that still run, long after most of them ended', () => {
    const job = new Job({ hangMs: 5 * second }).train(50);
    job.end(0, 2).wait(10 * second);
    job.end(3).wait(49 * second);
    expect(job.kinds).toEqual([]);
    job.wait(3 * second);
    expect(job.kinds).toEqual(['fired hang']);
    expect(job.last).toMatchObject({ severity: 'warning', ranks: [1], onsetStep: 50 });
    expect(job.last.summary).toBe('ranks 0, 2, 3 ended after step 49, and rank 1 still runs, 50.0 s after that');
    const saving = new Job({ hangMs: 5 * second }).train(50).isIn(1, 'save_checkpoint');
    expect(saving.end(0, 2, 3).wait(300 * second).kinds).toEqual([]);
  });

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

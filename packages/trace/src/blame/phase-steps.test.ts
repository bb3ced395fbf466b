// Ranks that send only steps and phases, as they do outside recorded windows.

import { type Nanos, nanos, traceTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { traceEvent, traceHeader, traceLane, traceProcess, unaligned } from '../testing/trace-events.ts';
import { StepBlameSink } from './step-blame-sink.ts';

const ms = 1e6;

/** `lines`: each rank's phases with their ms, `data 4, forward 5`, the same in every step; the first step has only those of `first`. */
function blameOfPhases(lines: readonly string[], steps = 20, first?: readonly string[]) {
  const sink = new StepBlameSink();
  const processes = lines.map((_, rank) => traceProcess({ index: rank + 1, rank }));
  sink.begin(traceHeader(processes));
  for (let step = 0; step < steps; step++) {
    for (const [rank, line] of lines.entries()) {
      const parts = line.split(', ').map((part) => part.split(' ') as [string, string]);
      const shown = parts.filter(([name]) => step > 0 || first === undefined || first.includes(name));
      const phases = new Map(shown.map(([name, time]) => [name, nanos(Number(time) * ms)]));
      const length = nanos([...phases.values()].reduce((sum, phase) => sum + phase, 0));
      const lane = traceLane({ index: rank + 1, kind: 'steps', process: processes[rank] as (typeof processes)[number] });
      sink.event(traceEvent({ kind: 'step', lane, start: traceTime(step * length), length, step, phases }));
    }
  }
  sink.end();
  return sink.blame;
}

it('finds the straggler by the collective that the others are inside of longer', () => {
  const late = 'data 4, forward 14, all_reduce 1, optimizer 2';
  const early = 'data 4, forward 5, all_reduce 10, optimizer 2';
  const blame = blameOfPhases([early, late, early]);
  expect(blame.basis).toBe('phases');
  expect(blame.verdict).toBe('straggler');
  expect(blame.findings[0]).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'forward' });
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(9);
  expect(blame.breakdown[0]).toMatchObject({ transfer: 1 * ms, waits: [{ rank: 1, name: 'all_reduce', length: 9 * ms }] });
});

it('finds it where a phase lets the others catch up, though nothing says that they meet in it', () => {
  const late = 'data 16, forward 5, backward 10, optimizer 2';
  const early = 'data 4, forward 5, backward 22, optimizer 2';
  const blame = blameOfPhases([early, early, late, early]);
  expect(blame.findings[0]).toMatchObject({ kind: 'straggler', ranks: [2], phase: 'data' });
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(12);
});

it('finds it among two ranks, though their first step lacks the phase, as that of a loop without a loader does', () => {
  const blame = blameOfPhases(['forward 1, backward 17, optimizer 1', 'forward 16, backward 2, optimizer 1'], 20, [
    'backward',
    'optimizer',
  ]);
  expect(blame.findings).toMatchObject([{ kind: 'straggler', ranks: [1], phase: 'forward' }]);
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo((15 * 19) / 20);
});

/** `lengths`: not even collectives, but their lengths are among those of the phases. */
type Seen = 'spans and clocks' | 'clocks' | 'nothing' | 'lengths';

const meetings: ReadonlySet<string> = new Set(['backward', 'synchronize', 'all_gather']);

/**
 * Ranks that leave `backward` together, as they do with DDP, `synchronize`, as with messages in a ring, and `all_gather`, of which alone a collective is recorded. `workOf`: what each does, lines as above,
 * `-` a time outside of all phases; `sees`: what is known besides the lengths.
 */
function blameOfWork(workOf: (step: number) => readonly string[], sees: Seen = 'spans and clocks') {
  const sink = new StepBlameSink();
  const metadata = new Map([['phase_role.synchronize', 'collective']]);
  const ranks = workOf(0).map((_, rank) => {
    const process = traceProcess({ index: rank + 1, rank, metadata, ...(sees === 'nothing' && { alignment: unaligned }) });
    const lane = (kind: 'thread' | 'steps', index: number) => traceLane({ index: 2 * rank + index, kind, process });
    return { process, spans: lane('thread', 1), steps: lane('steps', 2), at: 0, phases: new Map<string, Nanos>() };
  });
  sink.begin(traceHeader(ranks.map(({ process }) => process)));
  let sequence = 0;
  for (let step = 0; step < 40; step++) {
    const lines = workOf(step).map((line) => line.split(', ').map((part) => part.split(' ') as [string, string]));
    const starts = ranks.map(({ at }) => at);
    for (const rank of ranks) rank.phases = new Map();
    // Each part up to a meeting, and that with all ranks.
    while (lines.some((parts) => parts.length > 0)) {
      const parts = lines.map((line) => line.splice(0, 1 + line.findIndex(([name]) => meetings.has(name)) || line.length));
      const arrivals = ranks.map(({ at }, rank) => (parts[rank] ?? []).reduce((sum, [, time]) => sum + Number(time) * ms, at));
      for (const [index, rank] of ranks.entries()) {
        for (const [name, time] of parts[index] ?? []) {
          const length = nanos(meetings.has(name) ? Math.max(...arrivals) - rank.at : Number(time) * ms);
          const about = { lane: rank.spans, start: traceTime(rank.at), length };
          if (name !== '-') rank.phases.set(name, nanos((rank.phases.get(name) ?? 0) + length));
          if (name === 'all_gather' && sees !== 'lengths')
            sink.event(traceEvent({ ...about, kind: 'collective', name, group: 'world', sequence }));
          else if (name !== '-' && sees === 'spans and clocks') sink.event(traceEvent({ ...about, category: 'phase', name }));
          rank.at += length;
        }
      }
      sequence++;
    }
    for (const [index, { steps: lane, phases, at }] of ranks.entries()) {
      const start = starts[index] as number;
      sink.event(traceEvent({ kind: 'step', lane, start: traceTime(start), length: nanos(at - start), step, phases }));
    }
  }
  sink.end();
  return sink.blame;
}

const work = 'forward 5, backward 2, optimizer 2';

it.each([
  ['before the forward', '- 10, forward 5, backward 2, optimizer 2'],
  ['between backward and optimizer', 'forward 5, backward 2, - 10, optimizer 2'],
  ['behind the optimizer, so that the step before makes it late', 'forward 5, backward 2, optimizer 2, - 10'],
])('finds time outside of all phases %s, where the others wait inside of backward', (_, late) => {
  for (const lines of [
    [work, late],
    [work, late, work],
    [late, work, work, work],
  ]) {
    const { findings } = blameOfWork(() => lines);
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [lines.indexOf(late)], phase: 'other' }]);
    expect(findings[0]?.costMsPerStep).toBeGreaterThan(8);
    expect(findings[0]?.costMsPerStep).toBeLessThanOrEqual(10);
  }
});

it.each([0, 1])('finds what rank %i alone does every fifth step', (late) => {
  for (const others of [1, 2, 3]) {
    const { findings } = blameOfWork((step) => {
      const lines = new Array<string>(1 + others).fill(work);
      if (step % 5 === 4) lines[late] = `${work}, - 100`;
      return lines;
    });
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [late], phase: 'other', affected: 8 }]);
    expect(findings[0]?.costMsPerStep).toBeCloseTo((8 * 100) / 40);
  }
});

it.each(['clocks', 'nothing'] as const)('blames no other rank for time outside of phases where only %s show it', (sees) => {
  for (const lines of [
    [work, 'forward 5, backward 2, - 10, optimizer 2'],
    [work, 'forward 5, backward 2, optimizer 2, - 10', work],
    ['forward 5, backward 2, optimizer 12', work],
    [work, 'forward 15, backward 2, optimizer 2'],
    [work, work, 'forward 15, backward 2, optimizer 2', 'forward 15, backward 2, optimizer 2'],
  ]) {
    const { findings } = blameOfWork(() => lines, sees);
    const named = findings.flatMap(({ kind, ranks }) => (kind === 'straggler' ? ranks : []));
    expect(named.filter((rank) => lines[rank] === work)).toEqual([]);
  }
});

it('knows from those who catch up in backward that ranks meet there, though collectives are recorded elsewhere', () => {
  const gathers = `${work}, all_gather 1`;
  const lines = [gathers, 'forward 15, backward 2, optimizer 2, all_gather 1'];
  for (const order of [lines, lines.toReversed(), [...lines, gathers]]) {
    const { basis, hidden, findings, breakdown } = blameOfWork(() => order);
    const late = order.findIndex((line) => line !== gathers);
    expect({ basis, hidden }).toEqual({ basis: 'phases', hidden: ['backward'] });
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [late], phase: 'forward' }]);
    expect(findings[0]?.costMsPerStep).toBeCloseTo(10);
    expect(breakdown[late === 0 ? 1 : 0]?.waits).toMatchObject([{ rank: late, name: 'backward', length: 10 * ms }]);
  }
});

it('knows from the unlike times of waits that ranks meet in them, though collectives are recorded elsewhere', () => {
  const waits = 'forward 5, synchronize 0, optimizer 2, all_gather 1';
  const late = waits.replace('forward 5', 'forward 15');
  for (const order of [
    [waits, late],
    [late, waits, waits],
  ]) {
    const { basis, hidden, findings } = blameOfWork(() => order);
    expect({ basis, hidden }).toEqual({ basis: 'phases', hidden: ['synchronize'] });
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [order.indexOf(late)], phase: 'forward' }]);
    expect(findings[0]?.costMsPerStep).toBeCloseTo(10);
  }
});

it.each([2, 4])('takes work for no meeting where one of %i ranks is slow before a phase and the others are, by as much, in it', (count) => {
  const wrong: object[] = [];
  for (let seed = 0; seed < 20; seed++) {
    const random = new Random(seed, 'both');
    const later = random.uniform(9, 12);
    const noisy = (time: number): number => time * Math.exp(random.normal(0, 0.03));
    const { basis, findings } = blameOfWork(() =>
      Array.from({ length: count }, (_, rank) => {
        const [load, forward] = rank === 0 ? [10, 0] : [0, later];
        return `load ${noisy(4) + load}, forward ${noisy(5) + forward}, all_gather 1`;
      }),
    );
    const costs = [0, 1].map((rank) => findings.find(({ ranks }) => ranks.join() === `${rank}`)?.costMsPerStep ?? 0);
    // Each of two ranks costs what it adds; with four, the others' forward is the usual one, and the step is as long without the slow load.
    const expected = count === 2 ? [10, later] : [Math.max(0, 10 - later), 0];
    if (basis !== 'pieces' || costs.some((cost, rank) => Math.abs(cost - (expected[rank] as number)) > 0.8))
      wrong.push({ seed, basis, costs, expected });
  }
  expect(wrong).toEqual([]);
});

it('judges by collectives where they explain who catches up', () => {
  const late = 'forward 5, backward 2, optimizer 12, all_gather 1';
  const { basis, findings } = blameOfWork(() => [`${work}, all_gather 1`, late]);
  expect(basis).toBe('pieces');
  expect(findings).toMatchObject([{ kind: 'straggler', ranks: [1], phase: 'optimizer' }]);
});

it.each(['spans and clocks', 'clocks', 'nothing'] as const)('blames no sound rank of noisy jobs where %s show waits', (sees) => {
  const parts = ['-', 'data', 'forward', '-', 'backward', '-', 'optimizer', '-'];
  const usual = [0.2, 1, 6, 0.3, 8, 0.1, 2, 0.5];
  const wrong: object[] = [];
  for (let seed = 0; seed < 60; seed++) {
    const random = new Random(seed, 'phases');
    const ranks = 2 + random.whole(6);
    const late = { rank: seed % 3 === 0 ? -1 : random.whole(ranks), part: random.whole(parts.length), every: seed % 3 === 1 ? 1 : 4 };
    const { findings } = blameOfWork(
      (step) =>
        Array.from({ length: ranks }, (_, rank) =>
          parts
            .map((name, part) => {
              const more = rank === late.rank && part === late.part && step % late.every === 0 ? 6 * late.every : 0;
              return `${name} ${(usual[part] as number) * Math.exp(random.normal(0, 0.1)) + more}`;
            })
            .join(', '),
        ),
      sees,
    );
    const named = findings.flatMap(({ kind, shareOfStep, ranks: of }) => (kind === 'straggler' && shareOfStep >= 0.02 ? of : []));
    if (named.some((rank) => rank !== late.rank)) wrong.push({ seed, ranks, late, named });
  }
  expect(wrong).toEqual([]);
});

it.each(['spans and clocks', 'clocks', 'nothing', 'lengths'] as const)(
  'names the slow rank of steps with phases that come again, and several collectives, where %s show them (80 seeds)',
  (sees) => {
    const wrong: object[] = [];
    for (let seed = 0; seed < 80; seed++) {
      const random = new Random(seed, 'loops');
      const [ranks, noise] = [2 + random.whole(6), random.uniform(0.01, 0.05)];
      const loop = Array.from({ length: 3 + random.whole(4) }, () => ({
        name: ['load', 'forward', 'loss', 'optimizer', '-'][random.whole(5)] as string,
        ms: random.uniform(1, 9),
        isLast: random.chance(0.45),
      }));
      const step = loop.reduce((sum, { ms }) => sum + ms, 0);
      const late = {
        rank: seed % 4 === 0 ? -1 : random.whole(ranks),
        part: random.whole(loop.length),
        more: step * random.uniform(0.12, 0.4),
      };
      const { findings } = blameOfWork(
        () =>
          Array.from({ length: ranks }, (_, rank) =>
            [...loop, { name: 'all_gather', ms: 1, isLast: false }]
              .flatMap(({ name, ms, isLast }, part) => {
                const more = rank === late.rank && part === late.part ? late.more : 0;
                const own = name === 'all_gather' ? ms : ms * Math.exp(random.normal(0, noise)) + more;
                return [`${name} ${own}`, ...(isLast ? ['all_gather 1'] : [])];
              })
              .join(', '),
          ),
        sees,
      );
      const stragglers = findings.filter(({ kind, shareOfStep }) => kind === 'straggler' && shareOfStep >= 0.02);
      const named = [...new Set(stragglers.flatMap(({ ranks: of, phase }) => of.map((rank) => `${rank} ${phase}`)))];
      const name = loop[late.part]?.name;
      const expected = late.rank < 0 ? [] : [`${late.rank} ${name === '-' ? 'other' : name}`];
      if (named.join() !== expected.join()) wrong.push({ seed, expected, named, loop });
    }
    expect(wrong).toEqual([]);
  },
);

it('says that one of two ranks waits, where neither clocks nor collectives tell which, and finds one among many', () => {
  const late = 'forward 5, backward 2, optimizer 12';
  const { verdict, findings } = blameOfWork(() => [late, work], 'nothing');
  expect(verdict).toBe('inconclusive');
  expect(findings.flatMap(({ evidence }) => evidence)).toEqual([
    'no collectives were recorded in these steps: waiting inside of a phase looks like work in it',
    '52 % of the time is waiting or uneven work: lengths of phases alone do not show which rank waits for which',
  ]);
  for (const [phase, line] of [
    ['optimizer', late],
    ['forward', 'forward 15, backward 2, optimizer 2'],
    ['other', `${work}, - 10`],
  ] as const) {
    const blame = blameOfWork(() => [work, work, line], 'nothing');
    expect(blame.findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase }]);
    expect(blame.findings[0]?.costMsPerStep).toBeGreaterThan(9);
    expect(blame.breakdown[0]?.waits).toMatchObject([{ rank: 2, name: 'backward' }]);
  }
});

it('blames nobody where ranks wait for their devices, and says who waits least', () => {
  const [early, late] = ['synchronize 16, forward 1, backward 2', 'synchronize 1, forward 16, backward 2'];
  const { verdict, findings } = blameOfPhases([early, late, early]);
  expect(verdict).toBe('inconclusive');
  expect(findings.flatMap(({ evidence }) => evidence)).toEqual([
    '58 % of the time is waiting in "synchronize", and lengths of phases do not show for whom: a capture, with collectives and kernels, does',
    'rank 1 waits least, 1.0 ms a step, the others 16.0 ms at the median: they may wait for it',
  ]);
  const even = blameOfPhases([early, early, early]);
  expect(even.findings.flatMap(({ evidence }) => evidence)).toHaveLength(1);
});

it('is balanced where collectives are known, and inconclusive where ranks may wait inside of any phase', () => {
  const even = 'data 2, forward 5, all_reduce 1, optimizer 2';
  expect(blameOfPhases([even, even, even]).verdict).toBe('balanced');
  const hidden = 'data 4, forward 5, backward 10, optimizer 2';
  const blame = blameOfPhases([hidden, hidden, hidden]);
  expect(blame.verdict).toBe('inconclusive');
  expect(blame.findings[0]?.evidence[0]).toMatch(/^no collectives were recorded in these steps/);
});

/**
 * Ranks that accumulate gradients over so many steps, and leave the backward of the last of them together. Each forward begins with a broadcast from rank 0: that
 * waits for rank 1 to come, and each other rank for rank 0. `isRecorded`: an all_gather of all is recorded as well, after each backward in which they meet.
 */
function blameOfAccumulation(ranks: number, accumulated: number, seed: number, slow: number | undefined, isRecorded: boolean) {
  const random = new Random(seed, 'accumulation');
  const noisy = (time: number): number => time * Math.max(0.5, 1 + 0.05 * random.normal(0, 1));
  const sink = new StepBlameSink();
  const lines = Array.from({ length: ranks }, (_, rank) => {
    const process = traceProcess({ index: rank + 1, rank });
    const lane = (kind: 'thread' | 'steps', index: number) => traceLane({ index: 2 * rank + index, kind, process });
    return { process, spans: lane('thread', 1), steps: lane('steps', 2) };
  });
  sink.begin(traceHeader(lines.map(({ process }) => process)));
  let now = lines.map(() => 0);
  for (let step = 0; step < 80; step++) {
    const starts = now;
    const phases = lines.map(() => new Map<string, Nanos>());
    const to = (name: string, ends: readonly number[]): void => {
      for (const [rank, { spans: lane }] of lines.entries()) {
        const [from, until] = [Math.round(now[rank] as number), Math.round(ends[rank] as number)];
        const about = { lane, name, start: traceTime(from), length: nanos(until - from) };
        phases[rank]?.set(name, about.length);
        if (name === 'all_gather') sink.event(traceEvent({ ...about, kind: 'collective', group: 'world', sequence: step }));
        else sink.event(traceEvent({ ...about, category: 'phase' }));
      }
      now = [...ends];
    };
    const root = Math.max(now[0] as number, now[1] as number) + noisy(1 * ms);
    const first = now[0] as number;
    to(
      'broadcast',
      now.map((time, rank) => (rank < 2 ? root : Math.max(time, first) + noisy(1 * ms))),
    );
    to(
      'forward',
      now.map((time, rank) => time + noisy((rank === slow ? 40 : 1.5) * ms)),
    );
    const isLast = step % accumulated === accumulated - 1;
    const backward = now.map((time) => time + noisy(1.5 * ms));
    to(
      'backward',
      backward.map((time) => (isLast ? Math.max(...backward) + noisy(0.5 * ms) : time)),
    );
    if (isLast && isRecorded) to('all_gather', Array(ranks).fill(Math.max(...now) + 0.2 * ms));
    for (const [rank, { steps: lane }] of lines.entries()) {
      const start = Math.round(starts[rank] as number);
      const length = nanos(Math.round(now[rank] as number) - start);
      sink.event(traceEvent({ kind: 'step', lane, start: traceTime(start), length, step, phases: phases[rank] ?? new Map() }));
    }
  }
  sink.end();
  return sink.blame;
}

const accumulations = [2, 3].flatMap((ranks) =>
  [2, 4].flatMap((accumulated) => [1, 2, 3].map((seed) => [ranks, accumulated, seed] as const)),
);

it.each(accumulations)(
  'names the slow one of %i ranks, at its whole cost, that meet in every %i-th step (seed %i)',
  (ranks, accumulated, seed) => {
    for (const slow of Array.from({ length: ranks }, (_, rank) => rank)) {
      const blame = blameOfAccumulation(ranks, accumulated, seed, slow, seed % 2 === 1);
      expect([slow, blame.verdict, blame.findings[0]?.ranks]).toEqual([slow, 'straggler', [slow]]);
      expect(Math.abs((blame.findings[0]?.costMsPerStep ?? 0) - 38.5), `rank ${slow}`).toBeLessThan(3);
      expect(blame.findings.filter(({ ranks: of, costMsPerStep }) => of.some((rank) => rank !== slow) && costMsPerStep > 0.5)).toEqual([]);
    }
  },
);

it.each(accumulations)('names none of %i ranks that are alike and meet in every %i-th step (seed %i)', (ranks, accumulated, seed) => {
  const { findings } = blameOfAccumulation(ranks, accumulated, seed, undefined, seed % 2 === 1);
  expect(findings.filter(({ kind }) => kind === 'straggler')).toEqual([]);
});

/** Ranks that meet in a recorded all_gather inside of their forward, as with FSDP, and wait for each other in `synchronize`, where none is recorded. */
function blameOfGathers(ranks: number, seed: number, slow: number | undefined) {
  const random = new Random(seed, 'gathers');
  const noisy = (time: number): number => time * Math.max(0.5, 1 + 0.05 * random.normal(0, 1));
  const sink = new StepBlameSink();
  const metadata = new Map([['phase_role.synchronize', 'collective']]);
  const lines = Array.from({ length: ranks }, (_, rank) => {
    const process = traceProcess({ index: rank + 1, rank, metadata });
    const lane = (kind: 'thread' | 'steps', index: number) => traceLane({ index: 2 * rank + index, kind, process });
    return { process, spans: lane('thread', 1), steps: lane('steps', 2) };
  });
  sink.begin(traceHeader(lines.map(({ process }) => process)));
  let now = 0;
  for (let step = 0; step < 60; step++) {
    const came = lines.map((_, rank) => now + noisy((rank === slow ? 35 : 5) * ms));
    const gathered = Math.max(...came) + noisy(1 * ms);
    const forward = lines.map(() => gathered + noisy(1 * ms));
    const optimizer = forward.map((time) => time + ms * random.uniform(2, 5));
    const end = Math.max(...optimizer) + noisy(1 * ms);
    for (const [rank, { spans: lane, steps }] of lines.entries()) {
      const phases = new Map<string, Nanos>();
      const add = (name: string, start: number, until: number): void => {
        const about = { lane, name, start: traceTime(Math.round(start)), length: nanos(Math.round(until) - Math.round(start)) };
        if (name === 'all_gather') {
          sink.event(traceEvent({ ...about, kind: 'collective', group: 'world', sequence: step }));
          return;
        }
        phases.set(name, about.length);
        sink.event(traceEvent({ ...about, category: 'phase' }));
      };
      add('forward', now, forward[rank] as number);
      add('all_gather', came[rank] as number, gathered);
      add('optimizer', forward[rank] as number, optimizer[rank] as number);
      add('synchronize', optimizer[rank] as number, end);
      const [from, until] = [Math.round(now), Math.round(end)];
      sink.event(traceEvent({ kind: 'step', lane: steps, start: traceTime(from), length: nanos(until - from), step, phases }));
    }
    now = end;
  }
  sink.end();
  return sink.blame;
}

it.each([2, 3, 4].flatMap((ranks) => [1, 2].map((seed) => [ranks, seed] as const)))(
  'lets recorded collectives tell who of %i ranks is late where ranks wait longer in these than in others (seed %i)',
  (ranks, seed) => {
    const { basis, findings } = blameOfGathers(ranks, seed, ranks - 1);
    expect([basis, findings[0]?.kind, findings[0]?.ranks, findings[0]?.phase]).toEqual(['pieces', 'straggler', [ranks - 1], 'forward']);
    expect(Math.abs((findings[0]?.costMsPerStep ?? 0) - 30)).toBeLessThan(3);
    expect(blameOfGathers(ranks, seed, undefined).findings.filter(({ kind }) => kind === 'straggler')).toEqual([]);
  },
);

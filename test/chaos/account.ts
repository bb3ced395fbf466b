// The judge of a round: recorded spans equal the store's spans plus counted losses, span by span.
//
//   recorded (journal)  =  stored (numbers in the merged trace)  +  counted lost (headers, the recorder's own counts)  +  the tail of a life that was killed or cut off
//
// Invariant: every disagreement is a line; an empty list is the verdict.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '../setup/ranktrace-command.ts';
import { type Dropped, type Life, runName, type Stage, type StatusRank, wasCutOff } from './stage.ts';

/** A rank that is killed or cut off loses its events since the last batch: `flushIntervalMs` and one look at the ring (docs/data-loss.md)… */
const tailMsStated = 220;
/** …if its shipper gets its turn. On a machine that schedules threads late, as the steps' own timers show, that much more. */
const tailTurns = 5;

/** The counts of one incarnation, from `merge --json` and `report --json`. */
interface ReportedLife {
  readonly rank: number;
  readonly pid: number;
  readonly incarnation: string;
  readonly counts: { readonly span: number; readonly step: number };
  readonly recorded?: { readonly span: number; readonly step: number };
  readonly late: number;
  readonly crowded: number;
  readonly missing: number;
  readonly batches: number;
  readonly dropped: Dropped;
  readonly ended: boolean;
}

interface Announcement {
  readonly ranks: readonly ReportedLife[];
  readonly findings: readonly { readonly kind: string; readonly ranks: readonly number[]; readonly text: string }[];
}

export interface Account {
  readonly recorded: number;
  readonly stored: number;
  readonly lost: number;
  /** Recorded by incarnations that were killed or cut off, since their last batch. */
  readonly tail: number;
  readonly tailMs: number;
  readonly disagreements: readonly string[];
}

/** Balances a stage that is over; `status`: the ranks of `/status`, from before the service was asked to end. */
export async function balance(stage: Stage, status: readonly StatusRank[]): Promise<Account> {
  const wrong: string[] = [];
  const store = join(stage.store, runName);
  const spool = join(stage.spool, runName);
  const trace = join(stage.folder, 'trace.json');
  // A run without stored batches has no folder.
  const inputs = [store, spool].filter((path) => hasBatches(path));
  const merged = await stated(['merge', ...inputs, '-o', trace, '--json']);
  const reported = await stated(['report', ...inputs, '--json']);
  const stored = await stated(['merge', store, '-o', join(stage.folder, 'again.pftrace'), '--json']);
  if (JSON.stringify(merged.ranks) !== JSON.stringify(reported.ranks)) wrong.push('merge and report count ranks differently');
  // A service that was restarted and has received nothing of the run since shows none of it, and writes no trace.
  if (status.length > 0 || stage.services.length === 1) {
    checkStatus(status, stored, stage, wrong);
    checkSameTrace(stage, store, wrong);
  }
  const numbers = numbersOf(trace);
  const sum = { recorded: 0, stored: 0, lost: 0, tail: 0, tailMs: 0 };
  for (const life of stage.lives) {
    const of = merged.ranks.find(({ pid }) => pid === life.pid);
    if (of === undefined) {
      wrong.push(`rank ${life.rank} (pid ${life.pid}): the trace has nothing of it, though it made ${stage.journal(life).steps} steps`);
      continue;
    }
    const balanced = balanceLife(stage, life, of, numbers.get(life.pid) ?? noNumbers(), wrong);
    for (const key of ['recorded', 'stored', 'lost', 'tail'] as const) sum[key] += balanced[key];
    sum.tailMs = Math.max(sum.tailMs, balanced.tailMs);
    const isReported = reported.findings.some(({ kind, ranks }) => kind === 'data_loss' && ranks.includes(life.rank));
    if (balanced.lost > 0 && !isReported) wrong.push(`rank ${life.rank}: ${balanced.lost} lost, and no finding reports it`);
  }
  const invented = [...numbers.keys()].filter((pid) => !stage.lives.some((life) => life.pid === pid));
  if (invented.length > 0) wrong.push(`spans of processes that never were: ${invented}`);
  return { ...sum, disagreements: wrong };
}

interface Numbers {
  readonly once: Set<number>;
  doubled: number;
  /** Spans whose arguments did not fit. */
  without: number;
}

const noNumbers = (): Numbers => ({ once: new Set(), doubled: 0, without: 0 });

function balanceLife(
  stage: Stage,
  life: Life,
  of: ReportedLife,
  { once, doubled, without }: Numbers,
  wrong: string[],
): Omit<Account, 'disagreements'> {
  const who = `rank ${life.rank} (pid ${life.pid})`;
  const expect = (holds: boolean, text: string): void => {
    if (!holds) wrong.push(`${who}: ${text}`);
  };
  const { spans, steps, lines } = stage.journal(life);
  const stored = once.size + without;
  const highest = Math.max(-1, ...once);
  const output = life.program.output();
  const saidLost = Number(/batches lost in all: (\d+)/.exec(output)?.[1] ?? 0);
  expect(doubled === 0, `${doubled} spans are there twice`);
  expect(of.late === 0 && of.crowded === 0, `late ${of.late}, crowded ${of.crowded}`);
  expect(of.counts.span === stored, `the trace says ${of.counts.span} spans and has ${stored}`);
  expect(without <= of.dropped.arguments, `${without} spans lack arguments, ${of.dropped.arguments} are counted`);
  expect(of.dropped.names === 0, `${of.dropped.names} names lost`);
  if (!life.killed && !wasCutOff(life, stage.plan)) {
    expect(of.ended, 'it ended well, and is reported as not ended');
    expect(highest < spans, `span ${highest} is there, of ${spans}`);
    expect(of.missing === saidLost, `${of.missing} batches are missing, its sender says ${saidLost}`);
    expect(of.missing === of.dropped.batches, `${of.missing} batches are missing, ${of.dropped.batches} are counted`);
    const given = of.recorded ?? of.counts;
    const total = given.span + given.step + of.dropped.events;
    expect(
      total === spans + steps,
      `${spans} spans and ${steps} steps recorded; given to the shipper ${given.span} and ${given.step}, dropped ${of.dropped.events}`,
    );
    expect(
      of.missing > 0 || given.span === of.counts.span,
      `no batch is missing, yet ${given.span} spans were shipped and ${of.counts.span} arrived`,
    );
    return { recorded: spans, stored, lost: spans - stored, tail: 0, tailMs: 0 };
  }
  // Its last step may be in a batch and not in the journal.
  const most = spans + stage.plan.spansPerStepMax;
  expect(!life.killed || !of.ended, 'it was killed, and is reported as ended');
  expect(highest < most, `span ${highest} is there, of at most ${most}`);
  expect(of.missing === of.dropped.batches, `${of.missing} batches are missing, ${of.dropped.batches} are counted`);
  const holes = highest + 1 - stored;
  expect(
    of.missing > 0 || holes === 0 || holes <= of.dropped.events,
    `${holes} spans before its last one are not there, ${of.dropped.events} are counted`,
  );
  const tail = Math.max(0, spans - (highest + 1));
  const firstLost = lines.find((line) => line.spans > highest + 1);
  const tailMs = tail === 0 ? 0 : (lines.at(-1)?.ms ?? 0) - (firstLost?.ms ?? 0);
  const lateness = Math.max(0, ...lines.map(({ ms }, index) => ms - (lines[index - 1]?.ms ?? ms) - stage.plan.stepMs));
  const bound = tailTurns * (tailMsStated + lateness);
  expect(
    tailMs <= bound,
    `it lost the last ${tailMs.toFixed(0)} ms, ${tail} spans; stated are ${tailMsStated} ms, ${bound.toFixed(0)} ms on this machine`,
  );
  return { recorded: Math.max(spans, highest + 1), stored, lost: holes, tail, tailMs };
}

/** `/status` sums over the incarnations of a rank, and names the last one. */
function checkStatus(status: readonly StatusRank[], stored: Announcement, stage: Stage, wrong: string[]): void {
  for (const rank of new Set(stored.ranks.map(({ rank }) => rank))) {
    const lives = stored.ranks.filter((life) => life.rank === rank);
    const shown = status.find((one) => one.rank === rank);
    if (shown === undefined) {
      wrong.push(`/status does not know rank ${rank}`);
      continue;
    }
    const sum = (of: (life: ReportedLife) => number): number => lives.reduce((total, life) => total + of(life), 0);
    const pairs = [
      ['batches', shown.batches, sum(({ batches }) => batches)],
      ['missing', shown.missing, sum(({ missing }) => missing)],
      ...(['events', 'arguments', 'batches'] as const).map(
        (what) => [`dropped ${what}`, shown.dropped[what], sum(({ dropped }) => dropped[what])] as const,
      ),
    ] as const;
    for (const [what, one, other] of pairs) if (one !== other) wrong.push(`rank ${rank}: /status says ${what} ${one}, the trace ${other}`);
    const last = lives.find(({ pid }) => pid === stage.life(rank).pid);
    if (last === undefined) continue;
    if (shown.incarnation !== last.incarnation)
      wrong.push(`rank ${rank}: /status shows the life ${shown.incarnation}, its last one is ${last.incarnation}`);
    else if (shown.ended !== last.ended) wrong.push(`rank ${rank}: /status says ended ${shown.ended}, the trace ${last.ended}`);
  }
}

/** The trace that the service wrote equals the one that its store gives, to the byte. */
function checkSameTrace(stage: Stage, store: string, wrong: string[]): void {
  const live = readFileSync(join(store, 'trace.pftrace'));
  if (!live.equals(readFileSync(join(stage.folder, 'again.pftrace'))))
    wrong.push('the trace of the service differs from one merged of its store');
}

const hasBatches = (folder: string): boolean =>
  existsSync(folder) && readdirSync(folder, { recursive: true }).some((name) => String(name).endsWith('.seg'));

/** The span numbers of a Chrome JSON trace, by incarnation. */
function numbersOf(path: string): Map<number, Numbers> {
  const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as {
    traceEvents: { ph: string; name: string; pid: number; args?: { n?: number; life?: number; name?: string } }[];
  };
  const lives = new Map<number, Numbers>();
  // The trace numbers its processes; each has some span that holds its incarnation.
  const lifeOf = new Map<number, number>();
  const spans = traceEvents.filter(({ ph, name }) => name === 'numbered' && (ph === 'X' || ph === 'B'));
  for (const { pid, args } of spans) if (args?.life !== undefined) lifeOf.set(pid, args.life);
  for (const { pid, args } of spans) {
    const life = args?.life ?? lifeOf.get(pid) ?? -1;
    const numbers = lives.get(life) ?? noNumbers();
    lives.set(life, numbers);
    if (args?.n === undefined) numbers.without++;
    else if (numbers.once.has(args.n)) numbers.doubled++;
    else numbers.once.add(args.n);
  }
  return lives;
}

async function stated(args: readonly string[]): Promise<Announcement> {
  const { code, stdout, stderr } = await runCommand(args);
  if (code !== 0) throw new Error(`ranktrace ${args.join(' ')} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

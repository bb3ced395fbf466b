// A merge's own gaps, as sentences with remedies: findings of kind `data_loss`, `left_out`, `detail_shed`, `detail_sampled`, `pruned`,
// `rank_lost`, `rank_failed`, `rank_missing`, `rank_twice`, `restarted`, `rank_ended_early`, `stacks_uncertain`, `collectives_miscounted`, `clock_unaligned`,
// `clock_step`, `clock_drift`, `clock_conflict`. Blame for slow steps rests on these: a verdict over incomplete data has to state so.

import {
  exitKey,
  isBeside,
  leftOutKey,
  miscountedKey,
  type Nanos,
  nanosPerMs,
  shedKey,
  stacksKey,
  stillRunningKey,
  stoppedKey,
} from '@ranktrace/protocol';
import { joinParts } from '../merge/pruned-parts.ts';
import { readCounts, readNamedCounts } from '../model/counts-text.ts';
import { limits } from '../model/limits.ts';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { mediansOfOthers } from '../model/robust.ts';
import { shownEnd } from '../model/shown-name.ts';
import type { EventCounts, ProcessTotals, PrunedPart, TraceHeader } from '../model/trace-sink.ts';
import { readSampled } from '../steps/sampled-detail.ts';
import type { LifeSteps, RankSummary } from '../steps/step-summary.ts';
import { failedFindings, isFailed, isOfStopped } from './failed-ranks.ts';
import { hostsText } from './hosts-text.ts';
import { leftOutText } from './left-out.ts';
import { lastLives, restartFindings } from './restarts.ts';

export interface Finding {
  readonly kind:
    | 'data_loss'
    | 'left_out'
    | 'detail_shed'
    | 'detail_sampled'
    | 'pruned'
    | 'rank_lost'
    | 'rank_failed'
    | 'rank_missing'
    | 'rank_twice'
    | 'restarted'
    | 'rank_ended_early'
    | 'stacks_uncertain'
    | 'collectives_miscounted'
    | 'clock_unaligned'
    | 'clock_step'
    | 'clock_drift'
    | 'clock_conflict';
  readonly ranks: readonly number[];
  /** The event, with its place. */
  readonly text: string;
  /** How to prevent it in future. */
  readonly remedy: string;
  /** Whole events or batches are missing in a `data_loss`, and not only parts of events. */
  readonly isOfEvents?: true;
}

/** Summaries of the steps of ranks, and of their lives. */
export interface StepsOfRanks {
  /** As in RunSummary. */
  readonly firstStart?: number | undefined;
  readonly ranks: readonly StepsOfRank[];
  readonly lives: readonly LifeSteps[];
  readonly phaseOrder?: readonly string[] | undefined;
}

type StepsOfRank = Pick<RankSummary, 'rank' | 'steps' | 'last' | 'from' | 'until'>;

const spanKinds: ReadonlySet<string> = new Set(['span', 'collective', 'rpc']);

/** Losses of parts of events. */
const cutArguments = 'arguments cut by a limit, or left out for an invalid value';
const namesWithoutRoom = 'times a name found no room among 65536 others: a stand-in is in its place';

/** The findings of one merged run, in a fixed order. `steps`: default: not known. */
export function findCompleteness(
  header: TraceHeader,
  totals: readonly ProcessTotals[],
  steps: StepsOfRanks = { ranks: [], lives: [] },
): readonly Finding[] {
  const findings: Finding[] = [];
  const shed = new Map<string, { ranks: readonly number[]; why: string }>();
  const sampled = new Map<string, number[]>();
  const own = new Set(totals.filter(({ process }) => !isBeside(process.incarnation)).map(({ process }) => process.rank));
  const lives = lastLives(totals);
  const silent: ProcessTotals[] = [];
  for (const total of totals) {
    const { process, missing, dropped, late, crowded, ended, counts, recorded, pruned } = total;
    const { rank } = process;
    const lost = [
      // Batches that it dropped itself are missing, too.
      [Math.max(0, missing - dropped.batches), 'batches missing in its sequence', 'merge its spool as well, if that is left'],
      [
        dropped.events,
        'events dropped because the ring or another bound was full, or a value was of the wrong type',
        'raise ringBytes, or record fewer events; docs/data-loss.md names the bounds and types',
      ],
      [
        dropped.batches,
        'batches dropped because the spool or its disk was full, or they were refused',
        'the notices of the rank say which: raise spoolBytesMax, make room on that disk, or mend what is refused',
      ],
      [dropped.arguments, cutArguments, 'use fewer or shorter ones, of the types in docs/data-loss.md'],
      [dropped.names, namesWithoutRoom, 'put numbers into arguments, not into names'],
      [late, 'events later than their watermark', 'update the client that recorded them: its batches break their order'],
      [
        crowded,
        `spans that overlap ${limits.lanesPerTrackMax} others on their line are left out`,
        'end what is begun: spans whose promise never settles stay open',
      ],
    ] as const;
    const [kind, ranks] = ['data_loss', [rank]] as const;
    for (const [count, what, remedy] of lost) {
      const isOfEvents = what !== cutArguments && what !== namesWithoutRoom;
      if (count > 0) findings.push({ kind, ranks, text: `rank ${rank}: ${count} ${what}`, remedy, ...(isOfEvents && { isOfEvents }) });
    }
    let left = crowded;
    // Compare with the recorder's own counts: a loss that no counter on the way has seen is the worst kind.
    for (const of of Object.keys(counts) as (keyof EventCounts)[]) {
      const wanted = recorded === undefined ? counts[of] : Math.max(0, recorded[of] - (pruned?.events[of] ?? 0));
      // A span may exist uncounted: it began in detail that was pulled, and ended in detail that was not.
      if (counts[of] === wanted || (counts[of] > wanted && spanKinds.has(of))) continue;
      if (spanKinds.has(of) && wanted - counts[of] <= left) {
        left -= wanted - counts[of];
        continue;
      }
      const text = `rank ${rank}: ${wanted} events of kind ${of} were recorded, ${counts[of]} arrived`;
      findings.push({ kind, ranks, text, remedy: 'merge its spool as well, if that is left', isOfEvents: true });
    }
    for (const [key, why] of process.metadata) {
      if (!key.startsWith(shedKey)) continue;
      const what = key.slice(shedKey.length);
      const before = shed.get(what);
      shed.set(what, { ranks: [...(before?.ranks ?? []), rank], why: before?.why ?? why });
    }
    for (const { what, every } of readSampled(process.metadata)) {
      const text = every === 1 ? `${what} were not recorded in each step` : `${what} are recorded in one step of ${every}`;
      sampled.set(text, [...(sampled.get(text) ?? []), rank]);
    }
    findings.push(...leftOutFindings(rank, process.metadata), ...stackFindings(rank, process.metadata));
    const isRecordedBeside = isBeside(process.incarnation) && own.has(rank);
    const next = lives.get(rank);
    const isFollowed =
      next !== undefined && next !== total && (next.from ?? Number.NEGATIVE_INFINITY) >= (total.until ?? Number.POSITIVE_INFINITY);
    if (!ended && isRecordedBeside) findings.push(...besideFindings(total, totals));
    else if (!ended && !isFollowed && total.goesOn !== true && !process.metadata.has(stillRunningKey)) {
      silent.push(total);
    }
    if (process.alignment.method === 'unaligned') {
      const text = `rank ${rank}: the clock of host ${process.hostName} is not aligned to the others; its times are its wall clock's`;
      findings.push({ kind: 'clock_unaligned', ranks: [rank], text, remedy: 'see `ranktrace doctor` for why no clock ping came through' });
    }
  }
  findings.push(...clockFindings(header, steps.firstStart ?? 0));
  // The ranks of a job do the same work, so they shed the same: report it once for all of them.
  for (const [what, { ranks, why }] of shed) {
    const text = `${what} were not recorded to the end on ${ranksText(ranks)}: ${why}`;
    findings.push({ kind: 'detail_shed', ranks, text, remedy: 'raise overheadBudget, or ask for less detail' });
  }
  for (const [what, ranks] of sampled) {
    const text = `${what} on ${ranksText(ranks)}: recording all of them takes more of the steps than overheadBudget`;
    findings.push({ kind: 'detail_sampled', ranks, text, remedy: 'raise overheadBudget, or record chosen steps with a schedule' });
  }
  findings.push(...twiceFindings(header.run, totals), ...restartFindings(totals, steps.lives), ...earlyFindings(totals, steps));
  findings.push(...prunedFindings(totals), ...miscountFindings(totals));
  const seen = new Set(header.processes.map((process) => process.rank));
  const absent = Array.from({ length: header.worldSize }, (_, rank) => rank).filter((rank) => !seen.has(rank));
  if (absent.length > 0) {
    const remedy = 'merge their files as well, or see whether they started with the same run name and url';
    findings.push({ kind: 'rank_missing', ranks: absent, text: `nothing was heard of ${ranksText(absent)}`, remedy });
  }
  // How the run came to its end is said first: by the ranks that failed and those that fell silent, what came first before what came of it.
  const last = [...lives.values()];
  const failed = failedFindings(last, steps.ranks, steps.phaseOrder);
  const inTime = silent.sort((a, b) => (a.until ?? 0) - (b.until ?? 0));
  const lost = inTime.flatMap((total) => lostFindings(total, totals));
  return [...(isOfStopped(last) ? [...lost, ...failed] : [...failed, ...lost]), ...findings];
}

/** So much earlier, a rank was lost before the others, or before it was asked to end, ns. */
const silentNsMin = 10e9;

/** A rank that ended without a word, with what the command that started it saw of that. */
function lostFindings({ process, until }: ProcessTotals, totals: readonly ProcessTotals[]): Finding[] {
  const { rank, pid, hostName, metadata } = process;
  const who = `rank ${rank} (pid ${pid})`;
  const told = metadata.get(exitKey);
  const how = told === undefined ? undefined : shownEnd(told);
  const [kind, ranks] = ['rank_lost', [rank]] as const;
  const log = `in the kernel's log of host ${hostName}`;
  if (metadata.has(stoppedKey)) {
    const silent = Math.max(...totals.map((one) => one.until ?? 0)) - (until ?? 0);
    if (silent < silentNsMin) return [];
    const text = `nothing was heard of ${who} for the last ${lengthText(silent)}, in which all were asked to end`;
    return [{ kind, ranks, text, remedy: `look for what stopped it, in its output and ${log}` }];
  }
  if (how === undefined) {
    const others = totals.filter(({ process: { rank: other } }) => other !== rank).map((one) => one.until ?? 0);
    const earlier = Math.min(...others) - (until ?? 0);
    const when = others.length > 0 && earlier >= silentNsMin ? `, ${lengthText(earlier)} before any other rank` : '';
    const remedy = `look for its end in its output and ${log}: it was killed, or is still running`;
    return [{ kind, ranks, text: `${who} stopped without saying goodbye${when}`, remedy }];
  }
  const killed = how.includes('SIGKILL') ? `, and ${log}: the kernel ends processes so where memory is short` : '';
  return [{ kind, ranks, text: `${who} ${how} without saying goodbye`, remedy: `look for its end in its output${killed}` }];
}

/** An agent that was last heard of so long before the rank beside it has stopped, ns; it ends some seconds after a rank. */
const agentSilentNsMin = 15e9;

/** An agent's recording beside a rank ends with the rank, whatever the agent itself says. */
function besideFindings({ process, until }: ProcessTotals, totals: readonly ProcessTotals[]): Finding[] {
  const { rank, host, hostName } = process;
  if (until === undefined) return [];
  const ofRank = totals.filter(({ process: one }) => one.rank === rank && one.host === host && !isBeside(one.incarnation));
  const silent = Math.max(...ofRank.map((one) => (one.until ?? until) - until));
  if (!(silent >= agentSilentNsMin)) return [];
  const text = `rank ${rank}: what an agent recorded beside it ends ${(silent / 1e9).toFixed(1)} s before the rank`;
  return [{ kind: 'data_loss', ranks: [rank], text, remedy: `look for the end of ranktrace agent on host ${hostName}` }];
}

/** Ranks with two lives at the same time: two jobs of one name, or two processes of one rank. One finding for all of them. */
function twiceFindings(run: string, totals: readonly ProcessTotals[]): Finding[] {
  const lives = new Map<number, ProcessTotals[]>();
  for (const life of totals)
    if (!isBeside(life.process.incarnation)) lives.set(life.process.rank, [...(lives.get(life.process.rank) ?? []), life]);
  const found: { readonly rank: number; readonly text: string }[] = [];
  for (const [rank, ofRank] of lives) {
    const inTime = ofRank.filter(({ from }) => from !== undefined).sort((a, b) => (a.from as number) - (b.from as number));
    let longest = inTime[0];
    for (const life of inTime.slice(1)) {
      const both = longest === undefined ? 0 : overlap(longest, life);
      if (both > 0 && longest !== undefined) {
        const whose = [longest, life].map(({ process: { pid, hostName } }) => `pid ${pid} on ${hostName}`);
        found.push({ rank, text: `rank ${rank} as ${whose.join(' and ')}, for ${(both / 1e9).toFixed(1)} s` });
        break;
      }
      if ((life.until ?? 0) > (longest?.until ?? 0)) longest = life;
    }
  }
  const [first] = found;
  if (first === undefined) return [];
  const ranks = found.map(({ rank }) => rank);
  const text = `two processes of ${ranksText(ranks)} ran at the same time under the name ${run}, and are shown as lives of one: ${first.text}`;
  return [{ kind: 'rank_twice', ranks, text, remedy: 'give each job a run name of its own, and each process a rank of its own' }];
}

/**
 * An early end is one by more than this share of the steps, and of the time. Ranks that do not meet differ by some steps where they run for a time, and
 * by many where they are interrupted together.
 */
const earlyShareMin = 0.1;
const earlyNamedMax = 4;

/** Ranks whose last life ended in good order long before their peers', those of the same role. One finding for all of them. */
function earlyFindings(totals: readonly ProcessTotals[], { ranks, lives }: Pick<StepsOfRanks, 'ranks' | 'lives'>): Finding[] {
  const roles = new Map<number, string>();
  const isGone = new Set<number>();
  /** Ranks known from files, each of which holds a window of the job: two windows of as many steps are of different steps, and no rank left early. */
  const isOfFile = new Set<number>();
  for (const { process } of totals) {
    roles.set(process.rank, process.metadata.get('role') ?? process.metadata.get('job_role') ?? '');
    if (process.metadata.has('source')) isOfFile.add(process.rank);
    if (process.metadata.has(stillRunningKey)) isGone.add(process.rank);
  }
  const lastOfLife = new Map(lives.map(({ process, last }) => [process, last]));
  const lastOf = new Map<number, number | undefined>();
  for (const { process, ended } of lastLives(totals).values()) {
    if (!ended || isFailed(process)) isGone.add(process.rank);
    lastOf.set(process.rank, lastOfLife.get(process.index));
  }
  const early: { readonly rank: number; readonly last: number; readonly others: string }[] = [];
  const byRole = new Map<string, StepsOfRank[]>();
  for (const rank of ranks) {
    // A life before it may have come further.
    const one = { ...rank, last: lastOf.get(rank.rank) ?? rank.last };
    const role = roles.get(one.rank) ?? '';
    const peers = byRole.get(role);
    if (peers === undefined) byRole.set(role, [one]);
    else peers.push(one);
  }
  for (const peers of byRole.values()) {
    const most = Math.max(0, ...peers.map(({ steps }) => steps));
    const lasts = peers.map(({ last }) => last).sort((a, b) => a - b);
    const ends = mediansOfOthers(Float64Array.from(peers, ({ until }) => until));
    const lasted = Math.max(...peers.map(({ until }) => until)) - Math.min(...peers.map(({ from }) => from));
    for (const [at, { rank, last, until, steps }] of peers.entries()) {
      if (isOfFile.has(rank) && steps >= most - Math.max(1, earlyShareMin * most)) continue;
      // Half of the others came to it, or further; without `last`, which is not above it where it is early.
      const theirs = lasts[lasts.length >> 1] as number;
      if (isGone.has(rank) || theirs - last <= Math.max(1, earlyShareMin * most)) continue;
      const others = theirs === lasts.at(-1) ? `${theirs}` : `${theirs} or later`;
      if ((ends[at] as number) - until > earlyShareMin * lasted) early.push({ rank, last, others });
    }
  }
  if (early.length === 0) return [];
  const named = early
    .slice(0, earlyNamedMax)
    .map(({ rank, last, others }) => `rank ${rank} after step ${last}, most others after ${others}`);
  const more = early.length > earlyNamedMax ? `; and ${early.length - earlyNamedMax} more ranks` : '';
  const text = `the last step came early: ${named.join('; ')}${more}`;
  const files = early.some(({ rank }) => isOfFile.has(rank)) ? ', or its file ends with a shorter window of the profiler' : '';
  const remedy = `see its output: it left its loop, or it was given less to do${files}`;
  return [{ kind: 'rank_ended_early', ranks: early.map(({ rank }) => rank), text, remedy }];
}

/** ns that two lives of a rank certainly ran together: by their watermarks, less the bounds of their clocks. */
function overlap(a: ProcessTotals, b: ProcessTotals): number {
  const [one, other] = [a.process, b.process];
  if (one.host === other.host && one.pid === other.pid) return 0; // two recordings of one process
  const bounds = [one, other].map(({ alignment }) => alignment.bound ?? Number.POSITIVE_INFINITY);
  const until = Math.min(a.until ?? 0, b.until ?? 0);
  return until - Math.max(a.from ?? until, b.from ?? until) - (one.host === other.host ? 0 : (bounds[0] as number) + (bounds[1] as number));
}

/** Contents of the rank's files that the trace lacks. Counts come from outside. */
function leftOutFindings(rank: number, metadata: ReadonlyMap<string, string>): Finding[] {
  const counts = readCounts(
    metadata.get(leftOutKey),
    ['malformed', 'otherKinds', 'arguments', 'metadata'],
    ['values', 'broken', 'flows', 'rest', 'untimed', 'lost'],
  );
  const reported = counts === undefined ? '' : leftOutText(counts);
  if (reported === '') return [];
  const text = `rank ${rank}: left out of its files: ${reported}`;
  return [{ kind: 'left_out', ranks: [rank], text, remedy: 'nothing, unless they matter: what is left is whole' }];
}

/** Stacks reused without a new walk, of which checks found some wrong. Counts come from outside. */
function stackFindings(rank: number, metadata: ReadonlyMap<string, string>): Finding[] {
  let [taken, checked, wrong, expected] = [0, 0, 0, 0];
  for (const [key, text] of metadata) {
    const counts = key.startsWith(stacksKey) ? readCounts(text, ['taken', 'checked', 'wrong', 'wrongExpected']) : undefined;
    if (counts === undefined) continue;
    taken += counts.taken;
    checked += counts.checked;
    wrong += counts.wrong;
    expected += counts.wrongExpected;
  }
  if (wrong === 0) return [];
  const text = `rank ${rank}: ${taken} stacks were taken from the steps before, and ${wrong} of ${checked} that were checked were others: some ${expected} are likely to be wrong; option withStack: 'walk' looks at each`;
  return [{ kind: 'stacks_uncertain', ranks: [rank], text, remedy: "set withStack: 'walk'" }];
}

/** Data removed by retention: no loss, but beyond analysis. One finding for all ranks: they are pruned together. */
function prunedFindings(totals: readonly ProcessTotals[]): Finding[] {
  const found = new Map<PrunedPart['what'], { part: PrunedPart; ranks: number[] }>();
  for (const { process, pruned } of totals) {
    for (const part of pruned?.parts ?? []) {
      const known = found.get(part.what);
      if (known === undefined) found.set(part.what, { part, ranks: [process.rank] });
      else found.set(part.what, { part: joinParts(known.part, part), ranks: [...known.ranks, process.rank] });
    }
  }
  return [...found.values()].map(({ part: { what, steps, on }, ranks }) => {
    const which = steps === undefined ? '' : steps[0] === steps[1] ? `step ${steps[0]}` : `steps ${steps[0]}–${steps[1]}`;
    const text =
      what === 'detail'
        ? `detail of ${which || 'a part without steps'} was pruned on ${on}: the times of its steps and phases are left`
        : `${which || 'a part without steps'} ${which.startsWith('steps') ? 'were' : 'was'} pruned on ${on}: nothing is left`;
    const remedy = 'raise --keep-detail or --keep-steps to keep more of runs to come';
    return { kind: 'pruned', ranks: [...new Set(ranks)], text, remedy };
  });
}

/** Collectives kept as spans because nothing matches them to other ranks': one finding per group. */
function miscountFindings(totals: readonly ProcessTotals[]): Finding[] {
  const groups = new Map<string, { count: number; ranks: number[] }>();
  for (const { process } of totals) {
    for (const [group, count] of readNamedCounts(process.metadata.get(miscountedKey))) {
      const known = groups.get(group) ?? { count: 0, ranks: [] };
      groups.set(group, { count: known.count + count, ranks: [...known.ranks, process.rank] });
    }
  }
  return [...groups].map(([group, { count, ranks }]) => ({
    kind: 'collectives_miscounted',
    ranks,
    text: `${ranksText(ranks)}: ${count} collectives of group ${group} have no number, and counted from the end of the files they contradict those of other ranks: they are shown as spans, and say nothing of waits or clocks`,
    remedy: 'record all kernels from the same steps on every rank; torch 2.2 and newer number their collectives',
  }));
}

/** `zero`: from where times count. Clocks that stepped or drift abnormally, one finding per host, and clocks that contradict each other. */
function clockFindings({ processes, clockConflicts = [] }: TraceHeader, zero: number): Finding[] {
  const findings: Finding[] = [];
  const hosts = new Set<string>();
  for (const { host, hostName, alignment } of processes) {
    const { clockSteps = [], clockJumps = [], driftPpm } = alignment;
    if (hosts.has(host)) continue;
    hosts.add(host);
    const ranks = processes.filter((process) => process.host === host).map(({ rank }) => rank);
    if (clockSteps.length > 0) {
      const jumpOf = (place: number): string => {
        const jump = clockJumps[place];
        return jump === undefined ? '' : ` (${jump > 0 ? '+' : '−'}${formatMilliseconds(Math.abs(jump))} ms)`;
      };
      const times = clockSteps.slice(0, 5).map((time, place) => `${((time - zero) / 1e9).toFixed(1)} s${jumpOf(place)}`);
      const back = Math.max(0, ...clockJumps.map((jump) => -jump));
      const twice = back > 0 ? `, most of all in the ${formatMilliseconds(back)} ms that it showed twice` : '';
      findings.push({
        kind: 'clock_step',
        ranks,
        text: `the clock of host ${hostName} stepped at ${times.join(', ')}: each side is aligned by itself, and events about it may be shown out of order${twice}`,
        remedy: 'let the time service of that host slew its clock instead of stepping it',
      });
    }
    if (driftPpm !== undefined) {
      findings.push({
        kind: 'clock_drift',
        ranks,
        text: `the clock of host ${hostName} runs faster or slower than clocks do (50 ppm): its bound reckons with up to ${driftPpm} ppm`,
        remedy: 'look at the time service of that host, which may be slewing its clock',
      });
    }
  }
  // A conflict left open by a step is reported with the step.
  const conflicts = clockConflicts.filter(({ isAtStep }) => !isAtStep);
  const worst = conflicts.reduce<(typeof clockConflicts)[number] | undefined>(
    (a, b) => (a === undefined || b.slack > a.slack ? b : a),
    undefined,
  );
  if (worst !== undefined) {
    const ranks = processes.filter(({ host }) => worst.hosts.includes(host)).map(({ rank }) => rank);
    const text = `messages contradict each other at ${conflicts.length} times, by up to ${Math.ceil(worst.slack / 1000)} µs among ${hostsText(worst.hosts, processes)}: events are shown later than their clocks say`;
    findings.push({ kind: 'clock_conflict', ranks, text, remedy: 'see `ranktrace doctor` for the clocks of these hosts' });
  }
  return findings;
}

const formatMilliseconds = (length: number): string => (length / nanosPerMs).toFixed(length < nanosPerMs ? 3 : 1);

/** The worst bound of all aligned processes, ns; undefined if none is aligned. */
export function worstBound(header: TraceHeader): Nanos | undefined {
  let worst: Nanos | undefined;
  for (const { alignment } of header.processes) {
    if (alignment.bound !== undefined && (worst === undefined || alignment.bound > worst)) worst = alignment.bound;
  }
  return worst;
}

// Merges a simulated cluster and compares it with its truth: whether each event is shown within its published bound, and which events appear
// before their cause without a warning.
//
// The axis may begin anywhere, so every event limits its origin to an interval; bounds hold if one origin satisfies all of them.

import { type TraceTime, traceTime } from '@ranktrace/protocol';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { apartAt, boundAt } from '../model/epsilon.ts';
import { median } from '../model/robust.ts';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';

export interface JudgedClocks {
  /** ns by which some event is shown beyond its bound; 0: all bounds hold. */
  readonly beyond: number;
  /** ns by which two hosts' times are further apart than is proven of them; 0: all proofs hold. And the median of what is proven, ± ns. */
  readonly apartBeyond: number;
  readonly apart: number;
  /** ns by which a bound over a stretch of time is below one at a time of it; 0: none is. */
  readonly belowWithin: number;
  /** Largest error of an event, ns, and the largest bound of a host. */
  readonly error: number;
  readonly bound: number;
  /** All collectives and calls; those shown reversed; and those of them that no conflict reports. */
  readonly seen: number;
  readonly reversed: number;
  readonly unmarked: number;
  /** Reported clock steps of each host, ns on the axis. */
  readonly steps: readonly (readonly number[])[];
  readonly header: TraceHeader;
}

/** Largest distance of a conflict's reported knot from its events, ns. */
const knotReach = 10e9;
/** Stretches of a run whose bounds are compared with those at their times. */
const stretches = 20;
/** A step warns of swapped events of its host within this distance, ns. */
const stepReach = 4e9;

interface Part {
  readonly process: TraceProcess;
  readonly host: string;
  readonly start: number;
  readonly end: number;
  /** True time of the end; undefined where it is not judged. */
  readonly trueEnd?: number | undefined;
}

/** `seen`: the sources as they reach the merge; default: as they are recorded. */
export function judgeClocks(
  options: ClusterOptions,
  seen: (sources: readonly BatchSource[]) => readonly BatchSource[] = (sources) => sources,
): JudgedClocks {
  const trueTimes = new Map<string, number>();
  const pairs = new Set<string>();
  const { sources } = simulatedCluster(options, {
    collective: ({ group, sequence, op, parts }) => {
      if (op === 'send') return;
      pairs.add(`${group} ${sequence}`);
      for (const { rank, entry, exit, isRecorded } of parts) {
        if (!isRecorded) continue;
        trueTimes.set(`${group} ${sequence} ${rank} start`, entry);
        trueTimes.set(`${group} ${sequence} ${rank} end`, exit);
      }
    },
  });
  let header: TraceHeader | undefined;
  const collectives = new Map<string, Part[]>();
  const calls = new Map<string, Part>();
  const timesOf = new Map<TraceProcess, TraceTime[]>();
  let [all, reversed, unmarked] = [0, 0, 0];
  let [from, until, least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const judge = ({ lane }: TraceEvent, shown: number, trueTime: number): void => {
    const { alignment } = lane.process;
    const bound = (alignment.boundAt?.(shown as Parameters<NonNullable<typeof alignment.boundAt>>[0]) ?? alignment.bound ?? 0) + 1;
    const begin = trueTime - shown;
    [from, until] = [Math.max(from, begin - bound), Math.min(until, begin + bound)];
    [least, most] = [Math.min(least, begin), Math.max(most, begin)];
  };
  const isMarked = (time: number, hosts: readonly string[]): boolean =>
    (header?.clockConflicts ?? []).some(
      (conflict) => Math.abs(conflict.time - time) <= knotReach && hosts.some((host) => conflict.hosts.includes(host)),
    ) ||
    (header?.processes ?? []).some(
      ({ host, alignment }) =>
        hosts.includes(host) &&
        alignment.clockSteps?.some(
          (step, place) => Math.abs(step - time) <= stepReach + 1.5 * Math.abs(alignment.clockJumps?.[place] ?? 0),
        ),
    );
  const order = (cause: Part, causeAt: number, effect: Part, effectAt: number): void => {
    if (causeAt <= effectAt) return;
    reversed++;
    if (!isMarked(effectAt, [cause.host, effect.host])) unmarked++;
  };
  const sink: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: (event) => {
      const { lane, kind, start, length, group, sequence, side, spanId, parentSpanId, state } = event;
      if (state === 'open') return;
      const { process } = lane;
      const times = timesOf.get(process) ?? [];
      timesOf.set(process, times);
      times.push(start, traceTime(start + length));
      const part: Part = { process, host: process.host, start, end: start + length };
      if (kind === 'collective' && pairs.has(`${group} ${sequence}`)) {
        const key = `${group} ${sequence} ${lane.process.rank}`;
        const [entry, exit] = [trueTimes.get(`${key} start`), trueTimes.get(`${key} end`)];
        if (entry !== undefined && exit !== undefined) {
          judge(event, start, entry);
          judge(event, start + length, exit);
        }
        const parts = collectives.get(`${group} ${sequence}`) ?? [];
        parts.push({ ...part, trueEnd: exit });
        collectives.set(`${group} ${sequence}`, parts);
      } else if (kind === 'rpc') {
        const key = side === 'server' ? parentSpanId : spanId;
        const other = calls.get(key);
        calls.set(key, part);
        if (other === undefined) return;
        const [client, server] = side === 'server' ? [other, part] : [part, other];
        all++;
        order(client, client.start, server, server.start);
        order(server, server.end, client, client.end);
      }
    },
    end: () => {},
  };
  for (const _ of mergeRun(seen(sources), sink));
  let apartBeyond = 0;
  const proven: number[] = [];
  for (const parts of collectives.values()) {
    for (const a of parts) {
      for (const b of parts) {
        if (a.host >= b.host || a.trueEnd === undefined || b.trueEnd === undefined) continue;
        const within = apartAt(a.process, traceTime(a.end)) + apartAt(b.process, traceTime(b.end));
        proven.push(within);
        apartBeyond = Math.max(apartBeyond, Math.abs(a.end - a.trueEnd - (b.end - b.trueEnd)) - within - 2);
      }
    }
    all++;
    const last = parts.reduce((a, b) => (b.start > a.start ? b : a));
    const first = parts.reduce((a, b) => (b.end < a.end ? b : a));
    order(last, last.start, first, first.end);
  }
  const reported = header as unknown as TraceHeader;
  return {
    beyond: Math.max(0, from - until),
    apartBeyond,
    apart: median(proven),
    belowWithin: Math.max(...[...timesOf].map(([process, times]) => belowWithinOf(process, times))),
    error: (most - least) / 2,
    bound: Math.max(...reported.processes.map(({ alignment }) => alignment.bound ?? 0)),
    seen: all,
    reversed,
    unmarked,
    steps: reported.processes.map(({ alignment }) => [...(alignment.clockSteps ?? [])]),
    header: reported,
  };
}

/** ns by which a bound over a stretch of these times is below one at one of them. */
function belowWithinOf(process: TraceProcess, all: readonly TraceTime[]): number {
  const { bound = 0, boundWithin = () => bound, apartWithin = () => Number.POSITIVE_INFINITY } = process.alignment;
  const times = all.toSorted((a, b) => a - b);
  const each = Math.ceil(times.length / stretches);
  let below = 0;
  for (let at = 0; at < times.length; at += each) {
    const some = times.slice(at, at + each);
    const [from, until] = [some[0] as TraceTime, some.at(-1) as TraceTime];
    const [most, mostApart] = [boundWithin(from, until), apartWithin(from, until)];
    for (const time of some) {
      below = Math.max(below, (boundAt(process, time) ?? 0) - most);
      if (mostApart < Number.POSITIVE_INFINITY) below = Math.max(below, apartAt(process, time) - mostApart);
    }
  }
  return below;
}

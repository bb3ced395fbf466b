// A run's data for a report's file, from one merge: what the page asks a service for (overview, heat map, tables), without any events.
//
// Invariant: its size is bounded whatever the run holds: the overview has fewer bins with more ranks, tables have their limits.

import { type Overview, otherPhase, type ReportPage, type TraceTime, type ViewProcess } from '@ranktrace/protocol';
import { type RunAnalysis, RunAnalysisSink } from '../analyse/run-analysis.ts';
import type { RunProfiles } from '../analyse/run-profile.ts';
import { displayName } from '../model/shown-name.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { StepBudget, StepHistory } from '../steps/step-history.ts';
import { stepLimits as limits } from '../steps/step-limits.ts';
import { heatCellsOf, overviewOf, type StepsOfProcess } from './overview.ts';

type Process = StepsOfProcess & { from: number; until: number };

/** Trace times already. */
const clock = { toTrace: (time: number): number => time };

export class ReportDataSink implements TraceSink {
  readonly #analysis = new RunAnalysisSink({});
  readonly #budget = new StepBudget();
  readonly #processes = new Map<number, Process>();
  #header: TraceHeader | undefined;
  #totals: readonly ProcessTotals[] = [];
  #known: RunAnalysis | undefined;

  begin(header: TraceHeader): void {
    this.#header = header;
    this.#analysis.begin(header);
    for (const process of header.processes) this.#processOf(process);
  }

  lane(lane: TraceLane): void {
    this.#processOf(lane.process);
    this.#analysis.lane(lane);
  }

  event(event: TraceEvent): void {
    const process = this.#processes.get(event.lane.process.index);
    if (process !== undefined) {
      process.from = Math.min(process.from, event.start);
      process.until = Math.max(process.until, event.start + event.length);
      if (event.kind === 'step') process.steps.add(event.step, event.start, event.length, event.phases);
    }
    this.#analysis.event(event);
  }

  endStretch(): void {
    this.#analysis.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#totals = totals;
    this.#analysis.end(totals);
  }

  /** Tables of each rank; after the merge's end. */
  get profiles(): RunProfiles {
    return this.#analysed.profiles as RunProfiles;
  }

  /** After the merge's end. */
  get data(): Omit<ReportPage, 'run' | 'input' | 'version'> {
    const analysis = this.#analysed;
    const processes = [...this.#processes.values()];
    const bins = Math.max(1, Math.min(limits.reportBinsMax, Math.floor(limits.reportCellsMax / Math.max(1, processes.length))));
    const overview = short(overviewOf(processes, { bins }, analysis, true));
    const phases = overview.phases.filter((name) => name !== otherPhase).slice(0, limits.reportPhasesMax);
    const heat = [
      ...overview.measures.map((measure) => ({ measure, of: { measure } })),
      ...phases.map((phase) => ({ measure: `phase ${phase}`, of: { measure: 'phase' as const, phase } })),
    ].map(({ measure, of }) => {
      const { rows } = heatCellsOf(processes, { bins }, of, analysis);
      return { measure, rows: rows.map(({ process, cells }) => ({ process, cells: cells.map(figures) })) };
    });
    const [from, until] = [Math.min(...processes.map((one) => one.from)), Math.max(...processes.map((one) => one.until))];
    return {
      model: {
        worldSize: Math.max(this.#header?.worldSize ?? 0, new Set(processes.map(({ process }) => process.rank)).size),
        unixEpoch: this.#header?.unixEpoch?.toString() ?? null,
        from: Number.isFinite(from) ? from : 0,
        until: Number.isFinite(until) ? until : 0,
        live: false,
        processes: processes.map((one) =>
          viewProcess(
            one,
            this.#totals.find(({ process }) => process.index === one.process.index),
          ),
        ),
      },
      overview,
      heat,
      profile: analysis.profiles?.of() ?? null,
    };
  }

  get #analysed(): RunAnalysis {
    this.#known ??= this.#analysis.analysis;
    return this.#known;
  }

  #processOf(process: TraceProcess): void {
    if (this.#processes.has(process.index)) return;
    const steps = new StepHistory(this.#budget);
    const range = { from: Number.POSITIVE_INFINITY, until: Number.NEGATIVE_INFINITY };
    this.#processes.set(process.index, { process, index: process.index, clock, steps, ...range });
  }
}

/** Four figures, as a file of a thousand ranks has a hundred thousand cells. */
function figures(value: number | null): number | null {
  return value === null ? null : Number(value.toPrecision(4));
}

const short = (overview: Overview): Overview => ({
  ...overview,
  ranks: overview.ranks.map((rank) => ({ ...rank, cells: rank.cells.map(figures), peaks: rank.peaks.map(figures) })),
});

function viewProcess({ process, until }: Process, totals: ProcessTotals | undefined): ViewProcess {
  const { index, rank, incarnation, host, hostName, pid, alignment } = process;
  const bound = alignment.bound === undefined || !Number.isFinite(alignment.bound) ? null : alignment.bound;
  return {
    ...{ index, rank, incarnation, host: displayName(host), hostName: displayName(hostName), pid },
    ended: totals?.ended ?? false,
    until: (totals?.until as TraceTime | undefined) ?? (Number.isFinite(until) ? until : 0),
    version: 0,
    alignment: { method: alignment.method, bound, bounds: [], clockSteps: [], shifted: [] },
    gaps: [],
    missing: totals?.missing ?? 0,
    droppedEvents: totals?.dropped.events ?? 0,
    metadata: [],
  };
}

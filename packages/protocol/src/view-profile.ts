// Tables of a run for the page and the HTML report: what the TensorBoard plugin showed of one rank, here of one rank or of all together.
//
// Lengths in ns, shares 0 … 1, bandwidths in bytes per second; null where a figure is not known. Names are safe to display.
//
// Invariant: a table holds its lines with most time, and `rest` sums up the others, so that a table adds up to everything.

import type { RunModel } from './view-messages.ts';
import type { HeatCells, Overview } from './view-overview.ts';

/** The longest event behind a line: the place that its link shows. */
export interface ProfilePlace {
  readonly rank: number;
  readonly from: number;
  readonly until: number;
}

export interface ProfileTable<Line> {
  readonly lines: readonly Line[];
  readonly rest: { readonly lines: number; readonly count: number; readonly total: number };
}

/** All calls of one op, on the host and of the work that they launched. */
export interface ProfileOp {
  readonly name: string;
  readonly calls: number;
  readonly hostTotal: number;
  readonly hostSelf: number;
  /** null where no device work was recorded. */
  readonly deviceTotal: number | null;
  readonly deviceSelf: number | null;
  /** Device time of its own on tensor cores. */
  readonly tensorCores: number;
  readonly ranks: number;
  readonly place: ProfilePlace | null;
}

export interface ProfileKernel {
  readonly name: string;
  readonly class: 'compute' | 'communication' | 'memory' | 'other';
  readonly count: number;
  readonly total: number;
  /** Share of the time of all kernels. */
  readonly share: number;
  readonly shortest: number;
  readonly longest: number;
  /** Ranks that run it, and the least and greatest total of one of them. */
  readonly ranks: number;
  readonly leastOfRank: number;
  readonly mostOfRank: number;
  readonly tensorCores: boolean;
  readonly blocksPerSm: number | null;
  readonly occupancy: number | null;
  readonly place: ProfilePlace | null;
}

/** Kernels by what launched them: a module or a phase; '' for kernels launched outside of all. */
export interface ProfileLauncher {
  readonly name: string;
  readonly kernels: number;
  readonly total: number;
  readonly share: number;
  /** Time on tensor cores. */
  readonly tensorCores: number;
  readonly place: ProfilePlace | null;
}

/** Copies and sets of one direction. */
export interface ProfileCopy {
  readonly kind: string;
  readonly count: number;
  readonly total: number;
  readonly bytes: number;
  readonly bandwidth: number | null;
}

/** A sequence of kernels that an op launches again and again. */
export interface ProfileSequence {
  readonly op: string;
  /** Names of its first kernels. */
  readonly first: readonly string[];
  readonly kernels: number;
  readonly count: number;
  readonly total: number;
}

/** Communication of one process group on devices. */
export interface ProfileGroup {
  readonly group: string;
  readonly ranks: number;
  readonly kernels: number;
  readonly total: number;
  /** Behind compute, and alone. */
  readonly overlapped: number;
  readonly exposed: number;
  readonly bytes: number;
  readonly busBandwidth: number | null;
}

/** Idle time of devices by cause and by the host's place meanwhile. */
export interface ProfileIdle {
  readonly cause: 'hostLate' | 'launch' | 'dependency' | 'other';
  readonly phase: string;
  readonly op: string;
  readonly time: number;
  readonly gaps: number;
}

export interface ProfileDevice {
  readonly rank: number;
  readonly device: number;
  readonly utilisation: number;
  readonly smEfficiency: number | null;
  readonly occupancy: number | null;
  /** From the end of a launching call to the start of its work: half of them are shorter, and 95 of 100. */
  readonly launchP50: number | null;
  readonly launchP95: number | null;
  /** Most launches in one stream's queue, and the time in which a full queue blocked the host. */
  readonly queueMost: number;
  readonly blocked: number;
}

/** The memory of one device of one rank, or of the rank's host. */
export interface ProfileMemory {
  readonly rank: number;
  /** Which life of the rank, from 2 on, as the timeline numbers them. Absent: the first. */
  readonly life?: number;
  readonly device: string;
  /** Whether the bytes are those of tensors, as TensorFlow.js counts them, or of the device's allocator. */
  readonly of: 'tensors' | 'allocator';
  readonly peak: number;
  /** Trace time of the peak. */
  readonly peakAt: number;
  readonly allocations: number;
  /** The most that the allocator held; null where that is not recorded. */
  readonly reserved: number | null;
  /** (time, bytes): the greatest of each stretch. */
  readonly curve: readonly (readonly [number, number])[];
  /** Bytes at the peak by category, most first; they add up to it. */
  readonly kinds: readonly (readonly [string, number])[];
  /** What held most of them: category, part of the program, innermost op. */
  readonly holders: readonly ProfileHolder[];
}

/** Bytes of tensors are not all that a device holds. */
export const tensorBytesText =
  'bytes of tensors, as TensorFlow.js makes and frees them: memory that its library reserved is not among them (of a GPU it is in the counter "memory used")';

/** Memory that was live at a peak, by category, part of the program and op of its allocation. */
export interface ProfileHolder {
  readonly kind: string;
  readonly place: string;
  readonly name: string;
  readonly bytes: number;
  readonly allocations: number;
}

/** Memory that the innermost spans of one name allocated. */
export interface ProfileAllocator {
  readonly name: string;
  readonly device: string;
  readonly allocations: number;
  readonly bytes: number;
  readonly largest: number;
  readonly place: ProfilePlace | null;
}

/** A part of the critical path, by rank, name and what binds it. */
export interface ProfilePathLine {
  readonly rank: number;
  readonly bound: string;
  readonly name: string;
  readonly total: number;
  readonly count: number;
}

/** Worth of a part of the work on the critical path, on all ranks together: ns that the step would save. */
export interface ProfileWorth {
  readonly bound: string;
  /** A kernel, a collective or the host's phase ('' outside of phases); null: all that is bound so. */
  readonly name: string | null;
  readonly onPath: number;
  /** If it took half of its time; none. */
  readonly savesAtHalf: number;
  readonly savesAtZero: number;
}

export interface ProfilePath {
  readonly step: number;
  readonly total: number;
  /** By what binds it, in order of time. */
  readonly byBound: readonly (readonly [string, number])[];
  readonly byRank: readonly (readonly [number, number])[];
  readonly lines: readonly ProfilePathLine[];
  /** Worth most first. */
  readonly worth: readonly ProfileWorth[];
  /** It leads across ranks. */
  readonly isAcross: boolean;
}

/** Advice from measured rules (docs/gpu.md). */
export interface ProfileAdvice {
  readonly rule: string;
  readonly ranks: readonly number[];
  /** The evidence in words: `the data loader takes 33.4 % of the time, over 5 %`. */
  readonly evidence: string;
  readonly advice: string;
  /** ns per step at most; null where that is not known, or there are no steps. */
  readonly saves: number | null;
}

/** The tables of one rank, or of all. */
export interface RunProfile {
  /** null: all ranks together. */
  readonly rank: number | null;
  /** Ranks that have tables of their own. */
  readonly ranks: readonly number[];
  /** Those of these ranks that were started again: tables are of the last life of each, only memory is of every life. */
  readonly restarted: readonly number[];
  /** Trace time at which the first step begins, which the page shows as 0; null without steps. */
  readonly firstStep: number | null;
  /** Whether the tables cover all data there is now. */
  readonly analysed: boolean;
  readonly operators: ProfileTable<ProfileOp>;
  readonly kernels: ProfileTable<ProfileKernel>;
  readonly modules: ProfileTable<ProfileLauncher>;
  readonly phases: ProfileTable<ProfileLauncher>;
  readonly copies: readonly ProfileCopy[];
  /** Most time first. */
  readonly sequences: readonly ProfileSequence[];
  readonly groups: readonly ProfileGroup[];
  readonly idle: ProfileTable<ProfileIdle>;
  readonly devices: readonly ProfileDevice[];
  readonly devicesLeftOut: number;
  readonly memory: readonly ProfileMemory[];
  readonly memoryLeftOut: number;
  readonly allocators: ProfileTable<ProfileAllocator>;
  readonly path: ProfilePath | null;
  readonly advice: readonly ProfileAdvice[];
  /** Events that the analyses left out at a limit. */
  readonly leftOut: number;
}

/** Everything that a report's file shows (`ranktrace report --html`). */
export interface ReportPage {
  readonly run: string;
  /** Names of the files or the directory that it is made of. */
  readonly input: string;
  /** Version of ranktrace. */
  readonly version: string;
  readonly model: Pick<RunModel, 'worldSize' | 'unixEpoch' | 'from' | 'until' | 'live' | 'processes'>;
  readonly overview: Overview;
  /** Cells of the heat map by measures beside lengths of steps (`own`, `phase forward`), the most telling one first. */
  readonly heat: readonly { readonly measure: string; readonly rows: HeatCells['rows'] }[];
  readonly profile: RunProfile | null;
}

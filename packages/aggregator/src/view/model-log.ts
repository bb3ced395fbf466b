// The model that pages have of a run: each process, track and group with the revision of its last change, so that a page gets everything that it
// lacks after any pause, and no queue is kept for it.

import type { RunGrowth, RunModel, ViewAlignment, ViewGroup, ViewProcess, ViewTrack } from '@ranktrace/protocol';
import { type Alignment, type BoundStretch, boundStretches } from '@ranktrace/trace';
import type { ProcessTimeline, Timeline } from '@ranktrace/trace/timeline';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { GrowthCursor } from './run-view.ts';

/** A model's fields about the run itself. */
export type RunAbout = Pick<RunModel, 'worldSize' | 'unixEpoch' | 'live' | 'read' | 'total' | 'clockConflicts'>;

interface Noted<Entry> {
  readonly entry: Entry;
  readonly text: string;
  readonly revision: number;
}

export class ModelLog {
  readonly #run: string;
  readonly #epoch: string;
  readonly #timeline: Timeline;
  readonly #processes = new Map<number, Noted<ViewProcess>>();
  readonly #tracks = new Map<number, Noted<ViewTrack>>();
  readonly #groups = new Map<string, Noted<ViewGroup>>();
  #about = '';
  /** Counts changes, from 1. */
  #revision = 0;
  /** Bounds by time, which ranks of one host share, over all of the run so far. */
  readonly #stretches = new WeakMap<Alignment, readonly BoundStretch[]>();

  constructor(run: string, epoch: string, timeline: Timeline) {
    this.#run = run;
    this.#epoch = epoch;
    this.#timeline = timeline;
  }

  /** The whole model at this time. */
  model(about: RunAbout): RunModel {
    this.#note(about);
    const { type, namesFrom, ...model } = this.#since({ names: 0, revision: 0 }, about);
    return model;
  }

  /** Everything that a page with this cursor lacks; undefined when it has everything. */
  growth(cursor: GrowthCursor | undefined, about: RunAbout): { growth: RunGrowth; cursor: GrowthCursor } | undefined {
    this.#note(about);
    const now: GrowthCursor = { names: this.#timeline.names.length, revision: this.#revision };
    if (cursor?.revision === now.revision && cursor.names === now.names) return undefined;
    return { growth: this.#since(cursor ?? { names: 0, revision: 0 }, about), cursor: now };
  }

  #since({ names, revision }: GrowthCursor, about: RunAbout): RunGrowth {
    const newer = <Entry>(noted: Map<unknown, Noted<Entry>>): Entry[] =>
      [...noted.values()].filter((one) => one.revision > revision).map(({ entry }) => entry);
    const { from, until } = this.#timeline;
    return {
      type: 'grown',
      run: this.#run,
      epoch: this.#epoch,
      from: Number.isFinite(from) ? from : 0,
      until: Number.isFinite(until) ? until : 0,
      firstStep: this.#timeline.firstStep ?? null,
      ...about,
      processes: newer(this.#processes),
      tracks: newer(this.#tracks),
      groups: newer(this.#groups),
      namesFrom: names,
      names: Array.from({ length: this.#timeline.names.length - names }, (_, at) => this.#timeline.names.text(names + at)),
    };
  }

  #note(about: RunAbout): void {
    const next = this.#revision + 1;
    let isChanged = false;
    const note = <Key, Entry>(noted: Map<Key, Noted<Entry>>, key: Key, entry: Entry): void => {
      const text = JSON.stringify(entry);
      if (noted.get(key)?.text === text) return;
      noted.set(key, { entry, text, revision: next });
      isChanged = true;
    };
    for (const process of this.#timeline.processes) {
      note(this.#processes, process.index, viewProcess(process, this.#stretchesOf(process.process.alignment)));
      for (const track of process.tracks) note(this.#tracks, track.id, track.shown());
    }
    for (const group of this.#timeline.groups()) note(this.#groups, `${group.axis} ${group.group}`, group);
    const text = JSON.stringify([about, this.#timeline.from, this.#timeline.until, this.#timeline.firstStep]);
    if (text !== this.#about) isChanged = true;
    this.#about = text;
    if (isChanged) this.#revision = next;
  }

  #stretchesOf(alignment: Alignment): readonly BoundStretch[] {
    const { from, until } = this.#timeline;
    const { boundWithin } = alignment;
    if (boundWithin === undefined || !Number.isFinite(from) || !Number.isFinite(until)) return [];
    const known = this.#stretches.get(alignment) ?? [];
    if ((known[0]?.from ?? Number.POSITIVE_INFINITY) <= from && (known.at(-1)?.until ?? Number.NEGATIVE_INFINITY) >= until) return known;
    const stretches = boundStretches(boundWithin, from, until);
    this.#stretches.set(alignment, stretches);
    return stretches;
  }
}

function viewProcess(timeline: ProcessTimeline, stretches: readonly BoundStretch[]): ViewProcess {
  const { process, index, version, ended, clock, until, shownGaps, missing, droppedEvents } = timeline;
  const { rank, incarnation, host, hostName, pid, alignment, metadata } = process;
  return {
    index,
    rank,
    incarnation,
    host,
    hostName,
    pid,
    ended,
    until: Number.isFinite(until) ? clock.toTrace(until) : 0,
    version,
    alignment: viewAlignment(alignment, stretches),
    gaps: shownGaps,
    missing,
    droppedEvents,
    metadata: [...metadata]
      .slice(0, limits.viewMetadataMax)
      .map(([key, value]) => [key, value.length > limits.viewMetadataCharsMax ? `${value.slice(0, limits.viewMetadataCharsMax)}…` : value]),
  };
}

function viewAlignment({ method, bound, clockSteps = [], shifted = [] }: Alignment, stretches: readonly BoundStretch[]): ViewAlignment {
  return {
    method,
    bound: bound ?? null,
    bounds: stretches.map(({ from, most }) => [from, Math.min(most, bound ?? most)]),
    clockSteps: clockSteps.slice(0, limits.viewMarksMax),
    shifted: shifted.slice(0, limits.viewMarksMax),
  };
}

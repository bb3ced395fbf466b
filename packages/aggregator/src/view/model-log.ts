// The model that pages have of a run: each process, track and group with the revision of its last change, so that a page gets everything that it
// lacks after any pause, and no queue is kept for it.

import {
  type RunGrowth,
  type RunModel,
  traceTime,
  type ViewAlignment,
  type ViewGroup,
  type ViewProcess,
  type ViewTrack,
} from '@ranktrace/protocol';
import type { Alignment } from '@ranktrace/trace';
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
      note(this.#processes, process.index, viewProcess(process));
      for (const track of process.tracks) note(this.#tracks, track.id, track.shown());
    }
    for (const group of this.#timeline.groups()) note(this.#groups, `${group.axis} ${group.group}`, group);
    const text = JSON.stringify([about, this.#timeline.from, this.#timeline.until, this.#timeline.firstStep]);
    if (text !== this.#about) isChanged = true;
    this.#about = text;
    if (isChanged) this.#revision = next;
  }
}

function viewProcess(timeline: ProcessTimeline): ViewProcess {
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
    alignment: viewAlignment(alignment, timeline),
    gaps: shownGaps,
    missing,
    droppedEvents,
    metadata: [...metadata]
      .slice(0, limits.viewMetadataMax)
      .map(([key, value]) => [key, value.length > limits.viewMetadataCharsMax ? `${value.slice(0, limits.viewMetadataCharsMax)}…` : value]),
  };
}

function viewAlignment({ method, bound, boundAt, clockSteps = [], shifted = [] }: Alignment, timeline: ProcessTimeline): ViewAlignment {
  const bounds: [number, number][] = [];
  if (boundAt !== undefined && Number.isFinite(timeline.from) && Number.isFinite(timeline.until)) {
    const [from, until] = [timeline.clock.toTrace(timeline.from), timeline.clock.toTrace(timeline.until)];
    const every = Math.max(1, (until - from) / (limits.viewBoundsMax - 1));
    let reported = Number.NaN;
    for (let time = from; time <= until; time += every) {
      const now = boundAt(traceTime(time));
      // Nobody sees a smaller change, and a thousand ranks have a thousand times as many.
      if (Math.abs(now - reported) <= 0.1 * reported) continue;
      bounds.push([Math.round(time), now]);
      reported = now;
    }
  }
  return {
    method,
    bound: bound ?? null,
    bounds,
    clockSteps: clockSteps.slice(0, limits.viewMarksMax),
    shifted: shifted.slice(0, limits.viewMarksMax),
  };
}

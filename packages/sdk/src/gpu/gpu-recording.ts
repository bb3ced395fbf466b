// Recording of this process's own CUDA work: the C library's ring, read by the shipper's thread.
//
// Invariant: whatever is missing, too old or refused is one line, and nothing else changes: recording of the host goes on, and so does training.

import { accessSync, constants, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type GpuLibrary, GpuRows, loadGpuLibrary, RingReader } from '@ranktrace/gpu';
import type { DeviceProgress } from '../collect/device-steps.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { ProfilerActivity, supportedActivities } from '../model/schedule.ts';
import { reasonOf } from '../process/guarded.ts';
import { type EventTarget, GpuEvents } from './gpu-events.ts';

export interface GpuRecordingParts {
  readonly target: EventTarget;
  /** The host's clock at RankTime 0, ns; and ns of the rank's clock in a ns of the monotonic one. */
  readonly epochNs: bigint;
  readonly scale: number;
  /** Identity of this life of the rank: no two rings have one path. */
  readonly incarnation: string;
  readonly spoolFolder: string;
  readonly notice: (line: string) => void;
  /** Recording begins now, or began with the process; or it ends. */
  readonly recording: (from: 'now' | 'begin' | 'never') => void;
  /** After each reading: events lost since the begin, and how far the device has come. */
  readonly drained: (lost: number, progress: DeviceProgress) => void;
}

/** Shared memory: a ring on a disk would be written there again and again. */
const sharedMemory = '/dev/shm';
const beforeWork = "start the profile before the program's first work on a GPU, or the program with ranktrace run --gpu";
/** Further flushes for calls that did not come with the first. */
const flushesMore = 2;
/** Each flush takes CUPTI's time, and is recorded as overhead. */
const flushIntervalMs = 100;

export class GpuRecording {
  readonly #parts: GpuRecordingParts;
  readonly #events: GpuEvents;
  readonly #rows = new GpuRows();
  #library: GpuLibrary | undefined;
  #reader: RingReader | undefined;
  #isOn = true;
  #lostWork = 0;
  #flushedMs = Number.NEGATIVE_INFINITY;
  #hasSaidCalls = false;

  /** Loads the library and starts it; it may take a second. */
  constructor(parts: GpuRecordingParts) {
    this.#parts = parts;
    this.#events = new GpuEvents(parts.target, parts.scale);
    try {
      this.#open();
    } catch (error) {
      this.#end(reasonOf(error));
    }
  }

  /** Adds what has come. `flushes`: now and then also what the device has finished and not reported yet. */
  drain(flushes = false): void {
    const isDue = flushes && performance.now() - this.#flushedMs >= flushIntervalMs;
    this.#guarded((reader) => this.#read(reader, isDue));
  }

  /** Adds all that the device has finished. */
  drainFinished(): void {
    this.#guarded((reader) => {
      this.#read(reader, true);
      for (let more = 0; this.#events.awaitsCalls && more < flushesMore; more++) this.#read(reader, true);
    });
  }

  #guarded(read: (reader: RingReader) => void): void {
    const reader = this.#reader;
    if (reader === undefined) return;
    try {
      read(reader);
      this.#tell(reader);
    } catch (error) {
      this.#end(reasonOf(error));
    }
  }

  #read(reader: RingReader, flushes: boolean): void {
    if (flushes) {
      this.#library?.flush();
      this.#flushedMs = performance.now();
    }
    for (let more = true; more; ) {
      more = reader.read(this.#rows);
      if (this.#rows.length === 0) continue;
      this.#parts.target.catchUp();
      if (this.#isOn) this.#events.add(this.#rows, reader);
    }
  }

  /** While it is off, what comes is left out. */
  toggle(on: boolean): void {
    this.drainFinished();
    this.#finish();
    this.#isOn = on;
    if (this.#reader !== undefined) this.#parts.recording(on ? 'now' : 'never');
  }

  stop(): void {
    try {
      this.#library?.stop();
      this.drain();
      this.#finish();
    } catch (error) {
      this.#end(reasonOf(error));
    }
    this.#reader?.close();
    this.#reader = this.#library = undefined;
  }

  #finish(): void {
    if (this.#reader === undefined) return;
    this.#events.finish(this.#reader);
    this.#tell(this.#reader);
  }

  #tell(reader: RingReader): void {
    const { dropped, droppedRecords, unknownRecords } = reader.state;
    const lostWork = dropped + droppedRecords + reader.malformed + this.#events.lost;
    // Steps around it are not whole. Records of kinds that are not known are no work.
    if (lostWork > this.#lostWork && this.#isOn) for (const from of ['never', 'now'] as const) this.#parts.recording(from);
    this.#lostWork = lostWork;
    if (this.#events.lacksCalls && !this.#hasSaidCalls) {
      this.#hasSaidCalls = true;
      this.#parts.notice(`kernels come without the calls that launched them: ${beforeWork}`);
    }
    this.#parts.drained(lostWork + unknownRecords, { seenUntil: this.#events.workSeenUntil, busyFrom: this.#events.busyFrom });
  }

  #open(): void {
    const { incarnation, spoolFolder, epochNs } = this.#parts;
    const library = loadGpuLibrary();
    if ('missing' in library) {
      this.#end(supportedActivities().has(ProfilerActivity.CUDA) ? library.missing : 'this host shows no NVIDIA GPU');
      return;
    }
    // CUDA's driver may have loaded it before.
    const earlier = library.path();
    const path = earlier === '' ? join(folderFor(spoolFolder), `ranktrace-gpu-${process.pid}-${incarnation}.ring`) : earlier;
    const why = earlier === '' ? library.start(path, recordingLimits.gpuRingRows) : '';
    if (why !== '') {
      remove(path);
      this.#end(why);
      return;
    }
    this.#library = library;
    this.#reader = new RingReader(path, epochNs, process.getuid?.() ?? -1);
    this.#reader.keepInside();
    // Both sides have it open: nobody else needs its name, and nothing is left of it when the process is killed.
    remove(path);
    const { state, message, dropped } = this.#reader.state;
    if (state === 'refused') this.#end(message);
    else this.#parts.recording(earlier === '' || dropped > 0 ? 'now' : 'begin');
  }

  #end(why: string): void {
    this.#parts.notice(`no kernels are recorded: ${why}`);
    this.#parts.recording('never');
    this.#reader?.close();
    this.#reader = this.#library = undefined;
  }
}

function folderFor(spoolFolder: string): string {
  try {
    accessSync(sharedMemory, constants.W_OK);
    return sharedMemory;
  } catch {
    return spoolFolder;
  }
}

function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // It was never made.
  }
}

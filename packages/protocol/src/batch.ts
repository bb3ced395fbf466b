// Batch codec, version 1: a rank's events travel in no other form. docs/batch-format.md describes it in full.
//
//   batch = msgpack map { v, run, rank, …, encoding, size, body }
//   body  = msgpack map { strings: [text…], tables: { spans: { rows, tick, start: bin, length: bin, … }, … } }, deflated (raw) or plain
//
// A batch stands alone: it has its own strings and tracks, so a lost one cannot poison a later one.
// Invariant: decoding hostile bytes ends in bounded time and memory (limits.ts), with a value or a ProtocolError.

import { Packr, Unpackr } from 'msgpackr';
import { z } from 'zod';
import { decodeColumn, encodeColumn, sharedUnit } from './columns.ts';
import { ProtocolError } from './errors.ts';
import {
  allocateColumn,
  type Columns,
  type ColumnType,
  createEventTables,
  EventTable,
  type EventTables,
  elementsPerRow,
  spanState,
  type TableName,
  tableColumns,
  tableNames,
} from './event-tables.ts';
import { limits } from './limits.ts';
import { checkMsgpack } from './strict-msgpack.ts';
import { type RankTime, rankTime } from './units.ts';

export const protocolVersion = 1;

/** Compresses a body (raw deflate, RFC 1951). An argument, because this package runs in browsers too. */
export type Deflate = (body: Uint8Array) => Uint8Array;

/** Reverses `Deflate`; throws when the result would be larger than `bytesMax`. */
export type Inflate = (body: Uint8Array, bytesMax: number) => Uint8Array;

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Losses of the rank since its start (cumulative: a lost batch does not hide a loss). */
export const droppedSchema = z.object({
  /** Events that found the ring full. */
  events: count,
  /** Arguments or parts of text that a limit cut. */
  arguments: count,
  /** Uses of a name that found the name table full, dropped events included. A stand-in replaces the name. */
  names: count,
  /** Batches that found the spool full or were refused. */
  batches: count,
});

/** Counts by kind of event. */
const eventCountsSchema = z.object({ span: count, instant: count, counter: count, step: count, collective: count, rpc: count });

/** Marks a stored batch that pruning shortened, and the batches that it replaces. Only run stores hold such batches; no rank sends them. */
export const prunedSchema = z.object({
  /** First sequence that it replaces; its own is the last. */
  from: count,
  /** `detail`: pruning removed all but the facts of each step as a whole. `steps`: it removed those, too. */
  what: z.enum(['detail', 'steps']),
  /** First and last step affected; absent where there was none. */
  steps: z.tuple([count, count]).optional(),
  /** Day of the pruning, `2026-01-31`. */
  on: z.string().regex(/^\d{4}-\d{2}-\d{2}$/),
  /** Number of events removed. */
  events: eventCountsSchema,
});

const incarnationCharsMax = 32;
const headerSchema = z.object({
  v: z.number().int().min(0).max(65_535),
  run: z
    .string()
    .regex(/^[A-Za-z0-9_-]+$/)
    .max(limits.runNameCharsMax),
  rank: z.number().int().min(0).max(limits.rankMax),
  worldSize: z
    .number()
    .int()
    .min(1)
    .max(limits.rankMax + 1),
  incarnation: z
    .string()
    .regex(/^[a-z0-9-]+$/)
    .max(incarnationCharsMax),
  sequence: count,
  host: z.string().min(1).max(limits.hostCharsMax),
  hostName: z.string().min(1).max(limits.hostCharsMax),
  pid: count,
  epoch: z.string().regex(/^\d{1,20}$/),
  watermark: z.number().int().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
  since: z.number().int().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER).optional(),
  last: z.boolean(),
  dropped: droppedSchema,
  pruned: prunedSchema.optional(),
});

const envelopeSchema = headerSchema.extend({
  encoding: z.enum(['deflate', 'plain']),
  size: z.number().int().min(0).max(limits.bodyBytesMax),
  body: z.instanceof(Uint8Array),
});

/**
 * The beginning of an incarnation that is no life of the rank: of a recorder beside the rank's own, such as the agent's for a rank that sends its steps
 * itself. It sorts before all lives, whose names begin with the time.
 */
const besidePrefix = 'by-';
export const besideOf = (incarnation: string): string => `${besidePrefix}${incarnation}`.slice(0, incarnationCharsMax);
export const isBeside = (incarnation: string): boolean => incarnation.startsWith(besidePrefix);

/** The sender, its clock, and its losses. */
export interface BatchHeader {
  /** Name of the run: letters, digits, `_`, `-`. */
  readonly run: string;
  readonly rank: number;
  readonly worldSize: number;
  /** One life of the rank's process; later lives sort later. */
  readonly incarnation: string;
  /** 0, 1, 2, … without gaps per (run, rank, incarnation). */
  readonly sequence: number;
  /** The clock's identity: ranks with the same `host` read the same monotonic clock (on Linux the boot id). */
  readonly host: string;
  readonly hostName: string;
  readonly pid: number;
  /** Monotonic clock, ns, at RankTime 0: decimal digits. */
  readonly epoch: string;
  /** No later batch of this incarnation holds an event that starts before this, except steps and `close` rows, which end after it. */
  readonly watermark: RankTime;
  /**
   * Present when events of this batch start before an earlier batch's watermark (detail that was held back, spans announced anew): none of
   * them starts before this. The watermarks' promise does not cover such a batch.
   */
  readonly since?: RankTime | undefined;
  /** Whether the incarnation ended here in order. */
  readonly last: boolean;
  readonly dropped: Dropped;
  /** Present when pruning removed events and made one batch of several. */
  readonly pruned?: Pruned | undefined;
}

export type Dropped = z.infer<typeof droppedSchema>;
export type Pruned = z.infer<typeof prunedSchema>;

export interface Batch {
  readonly header: BatchHeader;
  /** Index 0 is always the empty string. */
  readonly strings: readonly string[];
  readonly tables: EventTables;
}

/** Strings and tables as they stand in a batch. */
export interface EncodedBody {
  readonly encoding: 'deflate' | 'plain';
  /** Bytes before `deflate`. */
  readonly size: number;
  readonly body: Uint8Array;
}

const packr = new Packr({ useRecords: false, variableMapSize: true });
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

/**
 * Encodes a batch so that `decodeBatch` accepts it. Throws ProtocolError `oversized` when bytes, rows or strings pass their limit: the
 * caller splits and tries again. `bad_table` (a value its column type cannot hold) and `bad_string` are bugs of the caller.
 */
export function encodeBatch(batch: Batch, deflate: Deflate): Uint8Array {
  return encodeBatchOf(batch.header, encodeBody(batch, deflate));
}

/** Encodes a batch without its header: a batch that is held back has no number yet. Throws as `encodeBatch`. */
export function encodeBody({ strings, tables }: Pick<Batch, 'strings' | 'tables'>, deflate: Deflate): EncodedBody {
  const encoded: Record<string, Record<string, number | Uint8Array>> = {};
  for (const name of tableNames) {
    const table = tables[name];
    if (table.length > limits.rowsPerTableMax) throw oversized(table.length, limits.rowsPerTableMax, `table ${name}`, 'rows');
    if (table.length > 0) encoded[name] = encodeTable(table);
  }
  if (strings.length > limits.stringsPerBatchMax) throw oversized(strings.length, limits.stringsPerBatchMax, 'string table', 'strings');
  checkStrings(strings, 'Cannot encode batch');
  const body = packr.pack({ strings, tables: encoded });
  if (body.length > limits.bodyBytesMax) throw oversized(body.length, limits.bodyBytesMax, 'body');
  const deflated = deflate(body);
  const smaller = deflated.length < body.length;
  return { encoding: smaller ? 'deflate' : 'plain', size: body.length, body: smaller ? deflated : body };
}

/** Adds the header to a body. Throws ProtocolError `oversized`. */
export function encodeBatchOf(header: BatchHeader, body: EncodedBody): Uint8Array {
  const { since, pruned, ...rest } = header;
  const optional = { ...(since === undefined ? {} : { since }), ...(pruned === undefined ? {} : { pruned }) };
  const bytes = packr.pack({ v: protocolVersion, ...rest, ...optional, ...body });
  if (bytes.length > limits.batchBytesMax) throw oversized(bytes.length, limits.batchBytesMax, 'batch');
  return bytes;
}

/** The header alone: enough to store, deduplicate and route a batch. */
export function decodeBatchHeader(bytes: Uint8Array): BatchHeader {
  return readEnvelope(bytes).header;
}

/**
 * Decodes and checks the whole batch: rows, string indexes, states and argument rows are all within their tables. With `only`, it decodes
 * the tables of these names and leaves the others empty: a pass over a store that wants the clock samples pays for no spans.
 */
export function decodeBatch(bytes: Uint8Array, inflate: Inflate, only: readonly TableName[] = tableNames): Batch {
  const { header, envelope } = readEnvelope(bytes);
  const where = `Cannot decode batch ${header.sequence} of rank ${header.rank}`;
  return { header, ...decodeBody(envelope, inflate, only, where) };
}

/** Decodes strings and tables of a body, checked as in `decodeBatch`; every error begins with `where`. */
export function decodeBody(
  { encoding, size, body: encoded }: EncodedBody,
  inflate: Inflate,
  only: readonly TableName[] = tableNames,
  where = 'Cannot decode batch',
): Pick<Batch, 'strings' | 'tables'> {
  let plain = encoded;
  if (encoding === 'deflate') {
    try {
      plain = inflate(encoded, size);
    } catch (cause) {
      throw new ProtocolError('corrupt', `${where}: its body is not a deflate stream of ${size} bytes`, { cause });
    }
  }
  if (plain.length !== size) throw new ProtocolError('corrupt', `${where}: its body must hold ${size} bytes, got ${plain.length}`);
  const body = unpack(plain, where);
  if (!isMap(body) || !Array.isArray(body.strings) || !isMap(body.tables)) {
    throw new ProtocolError('corrupt', `${where}: its body must be a map of strings and tables`);
  }
  const strings = checkStrings(body.strings, where);
  const tables = createEventTables() as { -readonly [N in TableName]: EventTable<N> };
  for (const name of only) {
    const table = body.tables[name];
    if (table !== undefined) (tables as Record<TableName, unknown>)[name] = decodeTable(name, table, strings.length, where);
  }
  if (only === tableNames) checkArguments(tables, where);
  return { strings, tables };
}

function encodeTable(table: EventTable<TableName>): Record<string, number | Uint8Array> {
  const types = tableColumns[table.name] as Record<string, ColumnType>;
  const columns = table.columns as Record<string, Float64Array | Uint32Array | Uint8Array>;
  const timed: Float64Array[] = [];
  for (const column in types) {
    if (types[column] === 'time' || types[column] === 'length') timed.push(columns[column] as Float64Array);
  }
  const unit = timed.length > 0 ? sharedUnit(timed, table.length) : 1;
  const encoded: Record<string, number | Uint8Array> = { rows: table.length, tick: unit };
  for (const column in types) {
    const values = columns[column] as Float64Array;
    const type = types[column] as ColumnType;
    // Omit a column of zeros: most spans have no id, parent or state.
    if (isZero(values, table.length * elementsPerRow(type))) continue;
    encoded[column] = encodeColumn(type, values, table.length, unit, `Cannot encode column ${table.name}.${column}`);
  }
  return encoded;
}

function isZero(values: Float64Array | Uint32Array | Uint8Array, elements: number): boolean {
  for (let index = 0; index < elements; index++) if (!Object.is(values[index], 0)) return false;
  return true;
}

function decodeTable<N extends TableName>(name: N, encoded: unknown, strings: number, where: string): EventTable<N> {
  if (!isMap(encoded)) throw new ProtocolError('bad_table', `${where}: table ${name} must be a map`);
  // `tick`, not `unit`: counters have a column of that name.
  const { rows, tick: unit } = encoded;
  if (typeof rows !== 'number' || !Number.isInteger(rows) || rows < 0 || rows > limits.rowsPerTableMax) {
    throw new ProtocolError('bad_table', `${where}: table ${name} must have 0 to ${limits.rowsPerTableMax} rows, got ${String(rows)}`);
  }
  if (unit !== 1 && unit !== 1000) {
    throw new ProtocolError('bad_table', `${where}: the tick of table ${name} must be 1 or 1000 ns, got ${String(unit)}`);
  }
  const columns: Record<string, Float64Array | Uint32Array | Uint8Array> = {};
  for (const [column, type] of Object.entries(tableColumns[name]) as [string, ColumnType][]) {
    const bytes = encoded[column];
    if (bytes === undefined) {
      columns[column] = allocateColumn(type, rows);
      continue;
    }
    const columnName = `${where}: column ${name}.${column}`;
    if (!(bytes instanceof Uint8Array)) throw new ProtocolError('bad_table', `${columnName} must be bin`);
    const values = decodeColumn(type, bytes, rows, unit, columnName);
    if (type === 'string') checkBelow(values as Uint32Array, strings, 'string_index', columnName);
    if (column === 'state') checkBelow(values as Uint32Array, spanState.close + 1, 'state', columnName);
    columns[column] = values;
  }
  return EventTable.of(name, columns as unknown as Columns<N>, rows);
}

function checkBelow(values: Uint32Array, bound: number, what: 'string_index' | 'state', where: string): void {
  for (let row = 0; row < values.length; row++) {
    if ((values[row] as number) < bound) continue;
    const wanted = what === 'state' ? `a state below ${bound}` : `an index below ${bound} (the batch's strings)`;
    throw new ProtocolError('bad_table', `${where}: row ${row} must be ${wanted}, got ${values[row]}`);
  }
}

function checkArguments(tables: EventTables, where: string): void {
  for (let index = 0; index < tables.ops.length; index++) {
    const row = tables.ops.columns.row[index] as number;
    if (row < tables.spans.length) continue;
    throw new ProtocolError('bad_table', `${where}: ops row ${index} must belong to a row of spans, got row ${row}`);
  }
  for (const name of ['numberArguments', 'stringArguments'] as const) {
    const { columns, length } = tables[name];
    for (let index = 0; index < length; index++) {
      const owner = tableNames[columns.table[index] as number];
      const row = columns.row[index] as number;
      if (owner !== undefined && row < tables[owner].length) continue;
      throw new ProtocolError(
        'bad_table',
        `${where}: ${name} row ${index} must belong to a row of a table, got row ${row} of ${owner ?? 'none'}`,
      );
    }
  }
}

function checkStrings(strings: readonly unknown[], where: string): readonly string[] {
  if (strings.length > limits.stringsPerBatchMax || strings.length === 0 || strings[0] !== '') {
    throw new ProtocolError(
      'bad_string',
      `${where}: it must have 1 to ${limits.stringsPerBatchMax} strings, the first empty, got ${strings.length}`,
    );
  }
  for (const [index, text] of strings.entries()) {
    // A UTF-16 unit is at most 3 bytes of UTF-8, so this never rejects a string of stringBytesMax bytes.
    if (typeof text === 'string' && text.length <= limits.stringBytesMax) continue;
    throw new ProtocolError('bad_string', `${where}: string ${index} must be text of at most ${limits.stringBytesMax} bytes`);
  }
  return strings as readonly string[];
}

function readEnvelope(bytes: Uint8Array): { header: BatchHeader; envelope: z.infer<typeof envelopeSchema> } {
  if (bytes.length > limits.batchBytesMax) {
    throw new ProtocolError('oversized', `Cannot decode batch: it may have ${limits.batchBytesMax} bytes, got ${bytes.length}`);
  }
  const map = unpack(bytes, 'Cannot decode batch');
  if (!isMap(map)) throw new ProtocolError('bad_header', 'Cannot decode batch: it must be a msgpack map');
  if (map.v !== protocolVersion) {
    throw new ProtocolError('wrong_version', `Cannot decode batch: its protocol version must be ${protocolVersion}, got ${quote(map.v)}`);
  }
  const parsed = envelopeSchema.safeParse(map);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new ProtocolError(
      'bad_header',
      `Cannot decode batch: header field "${issue?.path.join('.') ?? ''}": ${issue?.message ?? 'not valid'}`,
    );
  }
  const { v: _v, encoding: _encoding, size: _size, body: _body, ...header } = parsed.data;
  const { since, pruned, ...rest } = header;
  const times = { watermark: rankTime(header.watermark), ...(since === undefined ? {} : { since: rankTime(since) }) };
  return { header: { ...rest, ...times, ...(pruned === undefined ? {} : { pruned }) }, envelope: parsed.data };
}

function unpack(bytes: Uint8Array, where: string): unknown {
  checkMsgpack(bytes, where);
  try {
    return unpackr.unpack(bytes);
  } catch (cause) {
    throw new ProtocolError('corrupt', `${where}: it is not standard msgpack`, { cause });
  }
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

function quote(value: unknown): string {
  return typeof value === 'number' ? String(value) : `a ${typeof value}`;
}

function oversized(got: number, max: number, what: string, unit = 'bytes'): ProtocolError {
  return new ProtocolError('oversized', `Cannot encode batch: its ${what} may have ${max} ${unit}, got ${got}`);
}

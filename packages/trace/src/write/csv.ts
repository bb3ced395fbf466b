// Events as CSV (RFC 4180), a row for each, for spreadsheets, DuckDB and pandas. Columns, always all of them and in this order:
//
//   kind          span, instant, counter, step, collective, rpc
//   rank          number of the rank; incarnation: which life of it, where it has several
//   host, track   names
//   device        1 for a stream or another line of a device, 0 for the host
//   name          shown name; category: as recorded
//   start_ns      trace time; duration_ns: empty for instants, counters, and spans that never ended
//   step, group, sequence, bytes, peer_rank, value, unit      empty where they do not apply
//   arguments     all others, one JSON object, or empty; of a collective without a number of its own: its place (match/collective-number.ts)
//
// Lines end in CR LF; a cell with a comma, a quote or a line end is quoted. Text that a spreadsheet would take for a formula (= + - @, a tab or CR at
// its begin) gets a ' before it. Rows are in order of time; a span announced as open comes when it ends, and at the end if it never does.

import { type CollectiveNumber, collectiveNumberData } from '../match/collective-number.ts';
import { ByteBuffer } from '../model/byte-buffer.ts';
import { type ArgumentVisitor, visitArguments } from '../model/event-arguments.ts';
import { wellFormedJson } from '../model/json-buffer.ts';
import { KeyedStacks } from '../model/keyed-stacks.ts';
import { isDeviceKind } from '../model/lanes.ts';
import type { TraceEvent, TraceSink, WriteBytes } from '../model/trace-sink.ts';
import { writeLimits as limits } from './write-limits.ts';

/** The first line of the file. */
export const csvColumns = [
  ...['kind', 'rank', 'incarnation', 'host', 'track', 'device', 'name', 'category', 'start_ns', 'duration_ns'],
  ...['step', 'group', 'sequence', 'bytes', 'peer_rank', 'value', 'unit', 'arguments'],
] as const;

/** A sink that writes CSV. Chunks of about 256 KiB; the last one at `end`. */
export function csvWriter(write: WriteBytes): TraceSink {
  return new CsvWriter(write);
}

class CsvWriter implements TraceSink {
  readonly #out: ByteBuffer;
  readonly #texts = new Map<string, string>();
  readonly #open = new KeyedStacks<TraceEvent>();
  readonly #arguments = new ArgumentTexts();

  constructor(write: WriteBytes) {
    this.#out = new ByteBuffer(write);
  }

  begin(): void {
    this.#out.utf8(`${csvColumns.join(',')}\r\n`);
  }

  lane(): void {}

  event(event: TraceEvent): void {
    const { kind, state } = event;
    if (kind === 'instant' || kind === 'counter') this.#row(event, '');
    else if (state === 'whole') this.#row(event, lengthOf(event));
    else if (state === 'open') {
      if (this.#open.size >= limits.csvOpenSpansMax) this.#row(event, '');
      else this.#open.push(keyOf(event), { ...event });
    } else {
      const begun = this.#open.pop(keyOf(event));
      if (begun === undefined) return;
      this.#row(event.arguments === undefined ? { ...event, arguments: begun.arguments } : event, lengthOf(event));
    }
  }

  end(): void {
    for (const event of this.#open.values()) this.#row(event, '');
    this.#open.clear();
    this.#out.flush();
  }

  #row(event: TraceEvent, duration: string): void {
    const { kind, lane, start } = event;
    const { process } = lane;
    const isCollective = kind === 'collective';
    const isDevice = isDeviceKind(lane.kind);
    this.#arguments.members = [];
    this.#arguments.without = kind === 'collective' || kind === 'step' ? ownColumns : none;
    visitArguments(event, this.#arguments);
    const { members } = this.#arguments;
    const { sequence, ...place } = isCollective ? collectiveNumberData(event.sequence) : noNumber;
    for (const [key, value] of Object.entries(place)) this.#arguments.number(key, value);
    this.#out.next();
    this.#out.utf8(
      `${[
        ...[kind, process.rank, this.#text(process.incarnation), this.#text(process.hostName), this.#text(lane.name), isDevice ? 1 : 0],
        ...[this.#text(event.name), this.#text(event.category), Math.round(start), duration],
        ...[kind === 'step' ? event.step : '', isCollective ? this.#text(event.group) : '', sequence ?? ''],
        ...[isCollective ? event.bytes : '', isCollective && event.peerRank >= 0 ? event.peerRank : ''],
        ...[kind === 'counter' ? event.value : '', kind === 'counter' ? this.#text(lane.unit) : ''],
        members.length === 0 ? '' : quoted(`{${members.join(',')}}`),
      ].join(',')}\r\n`,
    );
  }

  /** Names repeat: each is escaped once. */
  #text(text: string): string {
    let cell = this.#texts.get(text);
    if (cell === undefined) {
      cell = cellOf(text);
      if (this.#texts.size >= textsMax) this.#texts.clear();
      this.#texts.set(text, cell);
    }
    return cell;
  }
}

/** Rounding start and end, rather than the length, keeps a span inside the one around it. */
const lengthOf = ({ start, length }: TraceEvent): string => String(Math.round(start + length) - Math.round(start));

const textsMax = 16_384;
const keyOf = ({ lane, start, kind, name }: TraceEvent): string => `${lane.index} ${start} ${kind} ${name}`;

/** Arguments that collectives and steps have columns for. */
const ownColumns: ReadonlySet<string> = new Set(['op', 'group', 'sequence', 'bytes', 'peer', 'step']);
const noNumber: CollectiveNumber = { sequence: null };
const none: ReadonlySet<string> = new Set();

class ArgumentTexts implements ArgumentVisitor {
  members: string[] = [];
  without = none;

  number(key: string, value: number): void {
    if (!this.without.has(key))
      this.members.push(`${wellFormedJson(key)}:${Number.isFinite(value) ? value : wellFormedJson(String(value))}`);
  }

  text(key: string, value: string): void {
    if (!this.without.has(key)) this.members.push(`${wellFormedJson(key)}:${wellFormedJson(value)}`);
  }
}

/** A cell of text: no formula, and quoted where it must be. */
function cellOf(text: string): string {
  const plain = text.replaceAll(/\p{Surrogate}|\0/gu, '\ufffd');
  const safe = /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(safe) ? quoted(safe) : safe;
}

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

// A recorded series of step times as text: comma-separated, with a header line, in pieces of any size.
//
//   step,time_ms,context,tag
//   412,228.1,batch=512,
//   413,1904.0,batch=512,checkpoint
//
// Supported from RFC 4180: quoted fields, doubled quotes, LF and CRLF; not: line breaks inside quotes. An invalid row is skipped and counted;
// an invalid file is rejected with one line.
//
// Invariant: memory holds one line and the columns' names, for any length of file.

import { TraceError } from '../model/errors.ts';
import { detectLimits } from './detect-limits.ts';
import { type StepTag, stepTags } from './step-time-finding.ts';

/** The role of a column. */
export type SeriesColumn = 'step' | 'time' | 'context' | 'tag';

/** All roles. */
export const seriesColumns: readonly SeriesColumn[] = ['step', 'time', 'context', 'tag'];

/** Column names other than the usual ones: `step`, `time_ms` (or `step_ms`, `time_s`, …), `context`, `tag`. */
export type SeriesColumnNames = Partial<Readonly<Record<SeriesColumn, string>>>;

/** Receives one row: the time in ms, the context's text ('' if there is none). */
export type SeriesRowVisitor = (step: number, timeMs: number, context: string, tag: StepTag | undefined) => void;

/** Reads a series, piece by piece. */
export class SeriesCsvReader {
  readonly #names: SeriesColumnNames;
  readonly #visit: SeriesRowVisitor;
  #rest = '';
  #line = 0;
  #columns: Readonly<Record<SeriesColumn, number>> | undefined;
  #width = 0;
  #msPerUnit = 1;
  #rows = 0;
  #tagged = 0;
  #skipped = 0;
  #firstSkipped: number | undefined;

  constructor(visit: SeriesRowVisitor, names: SeriesColumnNames = {}) {
    this.#visit = visit;
    this.#names = names;
  }

  /** Rows read. */
  get rows(): number {
    return this.#rows;
  }

  /** Rows read that have a tag. */
  get tagged(): number {
    return this.#tagged;
  }

  /** Rows without a step number or a time. */
  get skipped(): number {
    return this.#skipped;
  }

  /** Line number of the first skipped row; the first line is 1. */
  get firstSkippedLine(): number | undefined {
    return this.#firstSkipped;
  }

  /** Whether the file has step numbers; otherwise rows are counted from 0. */
  get hasSteps(): boolean {
    return this.#columns !== undefined && this.#columns.step >= 0;
  }

  /**
   * Takes the next piece of the file.
   * @throws TraceError `not_csv`, `too_large`
   */
  push(text: string): void {
    const all = this.#rest + text;
    let from = 0;
    for (let to = all.indexOf('\n'); to !== -1; to = all.indexOf('\n', from)) {
      this.#readLine(all.slice(from, to));
      from = to + 1;
    }
    this.#rest = all.slice(from);
    this.#checkLength(this.#rest, this.#line + 1);
  }

  /**
   * Ends the file.
   * @throws TraceError `not_csv` if it had no row
   */
  end(): void {
    if (this.#rest !== '') this.#readLine(this.#rest);
    this.#rest = '';
    if (this.#columns === undefined) throw notCsv('it is empty, a line with the names of columns is wanted');
    if (this.#rows > 0) return;
    const what = this.#skipped === 0 ? 'there is no row in it' : `none of its ${this.#skipped} rows has a step number and a time`;
    throw notCsv(what);
  }

  #readLine(text: string): void {
    this.#line++;
    this.#checkLength(text, this.#line);
    const line = text.endsWith('\r') ? text.slice(0, -1) : text;
    if (this.#columns === undefined) {
      this.#readNames(line);
      return;
    }
    if (line.trim() === '') return;
    const fields = fieldsOf(line);
    const columns = this.#columns;
    const time = fields === undefined ? Number.NaN : numberIn(fields[columns.time]) * this.#msPerUnit;
    const step = columns.step < 0 ? this.#rows + this.#skipped : numberIn(fields?.[columns.step]);
    if (fields === undefined || fields.length !== this.#width || !(time > 0 && time < 1e300) || !Number.isSafeInteger(step)) {
      this.#skipped++;
      this.#firstSkipped ??= this.#line;
      return;
    }
    this.#rows++;
    const tag = tagIn(fields[columns.tag]);
    if (tag !== undefined) this.#tagged++;
    this.#visit(step, time, columns.context < 0 ? '' : (fields[columns.context] as string), tag);
  }

  #readNames(line: string): void {
    const { seriesColumnsMax } = detectLimits;
    const names = fieldsOf(line.replace(/^\uFEFF/, ''))?.map((name) => name.trim());
    if (names === undefined) throw notCsv('a quote in line 1 has no end');
    if (names.length > seriesColumnsMax) throw notCsv(`line 1 names ${names.length} columns, at most ${seriesColumnsMax} are read`);
    const find = (column: SeriesColumn): number => {
      const wanted = this.#names[column];
      if (wanted === undefined) return names.findIndex((name) => usualNames[column].test(name));
      const at = names.indexOf(wanted);
      if (at === -1) throw notCsv(`it has no column ${quoted(wanted)}; ${listOf(names)}`);
      return at;
    };
    const time = find('time');
    if (time === -1) throw notCsv(`it has no column time_ms, nor was one named for the time; ${listOf(names)}`);
    this.#columns = { step: find('step'), time, context: find('context'), tag: find('tag') };
    this.#width = names.length;
    this.#msPerUnit = msPer[/_(ns|us|ms|s)$/i.exec(names[time] as string)?.[1]?.toLowerCase() ?? 'ms'] as number;
  }

  #checkLength(text: string, line: number): void {
    const { seriesLineCharsMax } = detectLimits;
    if (text.length <= seriesLineCharsMax) return;
    throw new TraceError('too_large', `Cannot read a series of step times: line ${line} is longer than ${seriesLineCharsMax} characters`);
  }
}

const usualNames: Readonly<Record<SeriesColumn, RegExp>> = {
  step: /^step$/i,
  time: /^(time|step|duration)_(ns|us|ms|s)$/i,
  context: /^context$/i,
  tag: /^tag$/i,
};

/** ms per unit, by the suffix of the column's name, never by the size of its numbers; without a suffix it is ms. */
const msPer: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3 };

/** The fields of one line; undefined if a quote has no end. */
function fieldsOf(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(',');
  const fields: string[] = [];
  for (let at = 0; ; ) {
    let field = '';
    if (line[at] === '"') {
      for (at++; ; ) {
        const end = line.indexOf('"', at);
        if (end === -1) return undefined;
        field += line.slice(at, end);
        at = end + 1;
        if (line[at] !== '"') break;
        field += '"';
        at++;
      }
    }
    const comma = line.indexOf(',', at);
    fields.push(field + line.slice(at, comma === -1 ? line.length : comma));
    if (comma === -1) return fields;
    at = comma + 1;
  }
}

const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i;

function numberIn(field: string | undefined): number {
  const text = field?.trim() ?? '';
  return text.length <= 40 && decimal.test(text) ? Number(text) : Number.NaN;
}

/** A step is tagged unless the field is empty, `0`, `false`, `no`, `none` or `train`; `1` and unknown words count as `eval`. */
function tagIn(field: string | undefined): StepTag | undefined {
  const text = field?.trim().toLowerCase() ?? '';
  if (/^(|0|0\.0|false|no|none|train)$/.test(text)) return undefined;
  return stepTags.find((tag) => tag === text) ?? 'eval';
}

const quoted = (name: string): string => `"${name.slice(0, 60)}"`;

function listOf(names: readonly string[]): string {
  const shown = names.slice(0, 8).map(quoted).join(', ');
  return `line 1 names ${shown}${names.length > 8 ? ` and ${names.length - 8} more` : ''}`;
}

const notCsv = (what: string): TraceError => new TraceError('not_csv', `Cannot read a series of step times: ${what}`);

// torch.profiler's text table of key averages: columns, order, widths, number formats and footer of torch 2.13's _build_table.
//
// Sort keys are the rows' fields in camelCase. torch's own spellings (`self_cpu_time_total`, `cuda_time_total`) are accepted too; `cuda`,
// `xpu` and `privateuse1` all mean the device.

import { printable, printableLines } from '@ranktrace/protocol';
import { TraceError } from '../model/errors.ts';
import type { FunctionAverage } from './function-averages.ts';
import { formatMemory, formatShare, formatTime, toFixedEven } from './torch-formats.ts';

/** A row of the table: a row of key averages, or a function event. */
export interface AveragesTableRow extends Omit<FunctionAverage, 'inputShapes'> {
  /** Printed text, or the sizes of each input. */
  readonly inputShapes: string | readonly (readonly number[])[];
}

export interface AveragesTableOptions {
  /** Sort key, descending; without one the rows keep their order. */
  readonly sortBy?: string;
  /** Rows printed, -1 for all; default 100. */
  readonly rowLimit?: number;
  /** Widest column in characters, Infinity for no limit; defaults 75, 55 and 80. */
  readonly maxSrcColumnWidth?: number;
  readonly maxNameColumnWidth?: number;
  readonly maxShapesColumnWidth?: number;
  /** Text above the table. */
  readonly header?: string;
  /** Leave out rows nested in another (for key averages: rows with a nested first event). Shares and footer still count all rows. */
  readonly topLevelEventsOnly?: boolean;
  /** Unit of all times; without one each time gets a fitting unit, another one throws TraceError `bad_option`. */
  readonly timeUnit?: 's' | 'ms' | 'us';
  /** Whether memory was recorded; if so, the table has memory columns. */
  readonly profileMemory?: boolean;
  /** Whether floating point operations were recorded. */
  readonly withFlops?: boolean;
  /** The device's name in the headings. */
  readonly device?: string;
}

type SortKey = (typeof sortKeys)[number];

/** Keys to sort a table by: torch's documented ones and their self counterparts. */
export const sortKeys = [
  'cpuTime',
  'deviceTime',
  'cpuTimeTotal',
  'selfCpuTimeTotal',
  'deviceTimeTotal',
  'selfDeviceTimeTotal',
  'cpuMemoryUsage',
  'selfCpuMemoryUsage',
  'deviceMemoryUsage',
  'selfDeviceMemoryUsage',
  'count',
  'flops',
  'key',
] as const;

/** The keys in torch's spelling. */
export const sortKeyNames: readonly string[] = sortKeys.map((key) => key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

/** Whether a name in torch's spelling or ours is a sort key. */
export const isSortKey = (name: string): boolean => keyNamed(name) !== undefined;

/** The sort key for a name in torch's spelling or ours; throws TraceError `bad_option`. */
export function sortKeyOf(name: string): SortKey {
  const found = keyNamed(name);
  if (found === undefined) {
    throw new TraceError('bad_option', `Cannot sort the table: the sort key must be one of ${sortKeys.join(', ')}, got "${name}"`);
  }
  return found;
}

function keyNamed(name: string): SortKey | undefined {
  const camel = name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  const key = camel.replaceAll(/cuda|xpu|privateuse1/g, 'device').replaceAll(/Cuda|Xpu|Privateuse1/g, 'Device');
  return sortKeys.find((candidate) => candidate === key);
}

const sortValue = (row: AveragesTableRow, key: SortKey): number | string => {
  if (key === 'cpuTime') return row.cpuTimeTotal / row.count;
  if (key === 'deviceTime') return row.deviceTimeTotal / row.count;
  return row[key];
};

/** The rows, largest first; equal rows keep their order. */
export function sortAverages<Row extends AveragesTableRow>(rows: readonly Row[], sortBy: string): Row[] {
  const key = sortKeyOf(sortBy);
  return [...rows].sort((a, b) => {
    const left = sortValue(a, key);
    const right = sortValue(b, key);
    return left < right ? 1 : left > right ? -1 : 0;
  });
}

// Line ends are escaped: one in a name, a shape or a frame would start a row of its own.
const nameOf = ({ key }: AveragesTableRow): string => printable(key);
const framesOf = ({ stack }: AveragesTableRow): string[] => stack.map(printable);

/** The table as text, with a line end after its last line; empty without rows. */
export function averagesTable(averages: readonly AveragesTableRow[], options: AveragesTableOptions = {}): string {
  if (averages.length === 0) return '';
  const { rowLimit = 100, maxSrcColumnWidth = 75, maxNameColumnWidth = 55, maxShapesColumnWidth = 80, profileMemory = false } = options;
  const { header, timeUnit, device = 'CUDA', topLevelEventsOnly = false } = options;
  const rows = options.sortBy === undefined ? averages : sortAverages(averages, options.sortBy);

  const hasDeviceTime = rows.some((row) => row.selfDeviceTimeTotal > 0);
  const hasDeviceMemory = rows.some((row) => row.selfDeviceMemoryUsage > 0);
  const hasShapes = rows.some((row) => shapesText(row) !== '' && shapesText(row) !== '[]');
  const hasStack = rows.some((row) => row.stack.length > 0);
  const flopsScale = options.withFlops === true ? scaleOf(rows) : undefined;
  const nameWidth = Math.min(longest(rows.map(nameOf)) + 4, maxNameColumnWidth);
  const shapesWidth = Math.min(longest(rows.map(shapesText)) + 4, maxShapesColumnWidth);
  const sourceWidth = Math.min(longest(rows.flatMap(framesOf)) + 4, maxSrcColumnWidth);

  const selfCpu = total(rows.map((row) => row.selfCpuTimeTotal));
  const selfDevice = total(
    rows.filter((row) => row.deviceType === 'device' && !row.isUserAnnotation).map((row) => row.selfDeviceTimeTotal),
  );
  const time = (micros: number): string => formatTime(micros, timeUnit);

  const columns: Column[] = [
    { heading: 'Name', width: nameWidth, cell: (row) => cutName(nameOf(row), maxNameColumnWidth) },
    plain('Self CPU %', (row) => formatShare(row.selfCpuTimeTotal, selfCpu)),
    plain('Self CPU', (row) => time(row.selfCpuTimeTotal)),
    plain('CPU total %', (row) => (row.isAsync ? '0' : formatShare(row.cpuTimeTotal, selfCpu))),
    plain('CPU total', (row) => time(row.cpuTimeTotal)),
    plain('CPU time avg', (row) => time(row.cpuTimeTotal / row.count)),
  ];
  if (hasDeviceTime) {
    columns.push(
      plain(`Self ${device}`, (row) => time(row.selfDeviceTimeTotal)),
      plain(`Self ${device} %`, (row) => formatShare(row.selfDeviceTimeTotal, selfDevice)),
      plain(`${device} total`, (row) => time(row.deviceTimeTotal)),
      plain(`${device} time avg`, (row) => time(row.deviceTimeTotal / row.count)),
    );
  }
  if (profileMemory) {
    columns.push(
      plain('CPU Mem', (row) => formatMemory(row.cpuMemoryUsage)),
      plain('Self CPU Mem', (row) => formatMemory(row.selfCpuMemoryUsage)),
    );
    if (hasDeviceMemory) {
      columns.push(
        plain(`${device} Mem`, (row) => formatMemory(row.deviceMemoryUsage)),
        plain(`Self ${device} Mem`, (row) => formatMemory(row.selfDeviceMemoryUsage)),
      );
    }
  }
  columns.push(plain('# of Calls', (row) => String(row.count)));
  if (hasShapes) columns.push({ heading: 'Input Shapes', width: shapesWidth, cell: (row) => shapesText(row).slice(0, shapesWidth) });
  if (hasStack) {
    const cell = (row: AveragesTableRow): string => cutPath(framesOf(row)[0] ?? '', sourceWidth);
    columns.push({ heading: 'Source Location', width: sourceWidth, isLeft: true, cell });
  }
  if (flopsScale !== undefined) {
    columns.push(
      plain(`Total ${flopsScale.unit}`, (row) => (row.flops <= 0 ? '--' : toFixedEven(row.flops * flopsScale.factor, 3).padStart(8))),
    );
  }

  const separator = line(columns.map((column) => '-'.repeat(column.width)));
  const format = (cells: readonly string[]): string =>
    line(columns.map(({ width, isLeft }, at) => (isLeft ? (cells[at] ?? '').padEnd(width) : (cells[at] ?? '').padStart(width))));
  const source = columns.findIndex((column) => column.isLeft);

  const lines: string[] = [];
  if (header !== undefined) lines.push('='.repeat(separator.length - 2), printableLines(header));
  if (topLevelEventsOnly) lines.push('='.repeat(separator.length - 2), 'This report only display top-level ops statistics');
  lines.push(separator, format(columns.map((column) => column.heading)), separator);
  const listed = topLevelEventsOnly ? rows.filter((row) => row.isTopLevel) : rows;
  for (const row of rowLimit < 0 ? listed : listed.slice(0, rowLimit)) {
    lines.push(format(columns.map((column) => column.cell(row))));
    if (!hasStack) continue;
    for (const frame of framesOf(row).slice(1)) {
      lines.push(format(columns.map((_, at) => (at === source ? cutPath(frame, sourceWidth) : ''))));
    }
    lines.push(format([]));
  }
  lines.push(separator, `Self CPU time total: ${time(selfCpu)}`);
  if (hasDeviceTime) lines.push(`Self ${device} time total: ${time(selfDevice)}`);
  return `${lines.join('\n')}\n`;
}

interface Column {
  readonly heading: string;
  readonly width: number;
  readonly isLeft?: true;
  readonly cell: (row: AveragesTableRow) => string;
}

const plain = (heading: string, cell: Column['cell']): Column => ({ heading, width: 12, cell });

const line = (cells: readonly string[]): string => cells.map((cell) => `${cell}  `).join('');

const shapesText = ({ inputShapes }: AveragesTableRow): string => {
  if (typeof inputShapes === 'string') return printable(inputShapes);
  return `[${inputShapes.map((sizes) => `[${sizes.join(', ')}]`).join(', ')}]`;
};

const longest = (texts: readonly string[]): number => texts.reduce((most, text) => Math.max(most, text.length), 0);

const total = (micros: readonly number[]): number => micros.reduce((sum, value) => sum + value, 0);

const cutName = (name: string, most: number): string => (name.length >= most - 3 ? `${name.slice(0, most - 3)}...` : name);

/** Cuts a path at its start: the end names the file. */
function cutPath(path: string, most: number): string {
  if (path.length <= most) return path;
  const end = path.slice(path.length - most);
  return end.length > 3 ? `...${end.slice(3)}` : end;
}

/** The unit that fits the smallest count, used for all. */
function scaleOf(rows: readonly AveragesTableRow[]): { readonly unit: string; readonly factor: number } | undefined {
  const least = rows.reduce((least, { flops }) => (flops > 0 ? Math.min(least, flops) : least), Number.POSITIVE_INFINITY);
  if (least === Number.POSITIVE_INFINITY) return undefined;
  const units = ['FLOPs', 'KFLOPs', 'MFLOPs', 'GFLOPs', 'TFLOPs', 'PFLOPs'];
  const step = Math.floor(Math.max(0, Math.min(Math.log10(least) / 3, units.length - 1)));
  return { unit: units[step] as string, factor: 10 ** (-3 * step) };
}

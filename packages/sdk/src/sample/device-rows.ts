// Parses the output of nvidia-smi line by line. A pure core: a line that is not a row gives undefined, and an invalid value is left out.
//
//   --query-gpu=index,uuid,… --format=csv,noheader,nounits    0, GPU-18b2f499, NVIDIA H100 80GB HBM3, 83, 41, 29089, …
//   dmon -s t                                                 # gpu rxpci txpci / # Idx MB/s MB/s / 0 41 8
//   nvlink -gt d                                              GPU 0: NAME (UUID: …) / Link 0: Data Tx: 19241022 KiB
//
// nvidia-smi writes an unknown value as `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `N/A`, `ERR!` or `-`, by driver and command.

import { printable } from './printable.ts';
import { sampleLimits } from './sample-limits.ts';

/** Values of one device at one moment, by counter name; units are in `deviceUnits`. */
export interface DeviceSample {
  /** nvidia-smi's index. */
  readonly device: string;
  /** `GPU-…`; empty if unknown. */
  readonly uuid: string;
  readonly name: string;
  readonly values: Readonly<Record<string, number>>;
}

/** Fields of `--query-gpu` (`nvidia-smi --help-query-gpu`), by counter: name, unit shown, unit that nvidia-smi prints, and the factor. */
const counters = {
  'utilization.gpu': { name: 'gpu utilization', unit: '%', printed: '%', factor: 1 },
  'utilization.memory': { name: 'memory utilization', unit: '%', printed: '%', factor: 1 },
  'memory.used': { name: 'memory used', unit: 'bytes', printed: 'MiB', factor: 1024 * 1024 },
  'memory.total': { name: 'memory total', unit: 'bytes', printed: 'MiB', factor: 1024 * 1024 },
  'clocks.sm': { name: 'sm clock', unit: 'MHz', printed: 'MHz', factor: 1 },
  'clocks.mem': { name: 'memory clock', unit: 'MHz', printed: 'MHz', factor: 1 },
  'power.draw': { name: 'power', unit: 'W', printed: 'W', factor: 1 },
  'temperature.gpu': { name: 'temperature', unit: '°C', printed: 'C', factor: 1 },
  'pcie.link.gen.current': { name: 'pcie generation', unit: '', printed: '', factor: 1 },
  'pcie.link.width.current': { name: 'pcie width', unit: 'lanes', printed: '', factor: 1 },
} as const;

/** Columns of `dmon -s t`. We read its MB as 10⁶ bytes. */
const columns: Readonly<Record<string, string>> = { rxpci: 'pcie rx', txpci: 'pcie tx' };

/** Every counter of a device with its unit. */
export const deviceUnits: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.values(counters).map(({ name, unit }) => [name, unit])),
  'pcie rx': 'bytes/s',
  'pcie tx': 'bytes/s',
  'nvlink rx': 'bytes/s',
  'nvlink tx': 'bytes/s',
};

/** Fields that every driver since 2014 knows. */
export const basicFields: readonly string[] = [
  ...['index', 'uuid', 'name', 'utilization.gpu', 'utilization.memory', 'memory.used', 'memory.total'],
  ...['clocks.sm', 'clocks.mem', 'power.draw', 'temperature.gpu'],
];
export const allFields: readonly string[] = [...basicFields, 'pcie.link.gen.current', 'pcie.link.width.current'];

/** Whether nvidia-smi rejects a field: on standard output, with exit code 2. */
export const isFieldError = (line: string): boolean => /is not a valid field/i.test(line);

/** A row of the query for `fields`; undefined for any other line, or without a value. Skips rows of MIG devices: they have no counters. */
export function readQueryRow(fields: readonly string[], line: string): DeviceSample | undefined {
  const cells = line.split(',', fields.length + 1).map((cell) => cell.trim());
  if (cells.length !== fields.length) return undefined;
  const text = (field: string) => cells[fields.indexOf(field)] ?? '';
  const device = text('index');
  const uuid = text('uuid');
  if (!isIndex(device) || uuid.startsWith('MIG-')) return undefined;
  const values: Record<string, number> = {};
  for (const [place, field] of fields.entries()) {
    const counter = counters[field as keyof typeof counters];
    const value = counter && numberOf(cells[place], counter.printed);
    if (value !== undefined) values[counter.name] = value * counter.factor;
  }
  if (Object.keys(values).length === 0) return undefined;
  const name = printable(text('name'), sampleLimits.nameCharsMax);
  return { device, uuid: /^GPU-[0-9a-fA-F-]{1,64}$/.test(uuid) ? uuid : '', name, values };
}

/** Reads `dmon`, whose header names the columns and repeats; another set of columns may follow. */
export class ThroughputReader {
  #names: readonly string[] = [];
  #units: readonly string[] = [];

  /** Device and values of a row; undefined for any other line. */
  read(line: string): Pick<DeviceSample, 'device' | 'values'> | undefined {
    const cells = line.replace(/^\s*#/, ' ').trim().split(/\s+/, sampleLimits.devicesMax);
    if (/^\s*#/.test(line)) {
      if (cells.includes('gpu')) this.#names = cells;
      else this.#units = cells;
      return undefined;
    }
    const device = cells[this.#names.indexOf('gpu')];
    if (cells.length !== this.#names.length || this.#units.length !== this.#names.length || !isIndex(device)) return undefined;
    const values: Record<string, number> = {};
    for (const [place, column] of this.#names.entries()) {
      const name = Object.hasOwn(columns, column) && this.#units[place] === 'MB/s' ? columns[column] : undefined;
      const value = name === undefined ? undefined : numberOf(cells[place], '');
      if (name !== undefined && value !== undefined) values[name] = value * 1e6;
    }
    return Object.keys(values).length === 0 ? undefined : { device, values };
  }
}

/** Bytes that a device's links carried since the driver started counting. */
export interface LinkTotals {
  readonly device: string;
  readonly rx: number;
  readonly tx: number;
}

/** Whether a line may describe links: the others need not be kept. */
export const isLinkLine = (line: string): boolean => line.length <= 256 && /^\s*(?:GPU|Link) \d/.test(line);

/** Totals by device of one `nvlink -gt d`; devices without links are absent. */
export function readLinkTotals(lines: readonly string[]): readonly LinkTotals[] {
  const totals = new Map<string, { device: string; rx: number; tx: number; counters: number }>();
  let device: string | undefined;
  for (const line of lines) {
    device = /^\s*GPU (\d{1,4}):/.exec(line)?.[1] ?? device;
    const link = /^\s*Link \d{1,3}: Data (Tx|Rx): (\d{1,15}) KiB\s*$/.exec(line);
    if (device === undefined || link === null) continue;
    const total = totals.get(device) ?? { device, rx: 0, tx: 0, counters: 0 };
    if (totals.size >= sampleLimits.devicesMax || total.counters++ >= sampleLimits.linksMax * 2) continue;
    total[link[1] === 'Tx' ? 'tx' : 'rx'] += Number(link[2]) * 1024;
    totals.set(device, total);
  }
  return [...totals.values()].map(({ device, rx, tx }) => ({ device, rx, tx }));
}

/** Rates between two readings, bytes/s. A counter that went back was reset, and gives none. */
export function linkRates(
  before: readonly LinkTotals[],
  after: readonly LinkTotals[],
  seconds: number,
): Pick<DeviceSample, 'device' | 'values'>[] {
  return after.flatMap(({ device, rx, tx }) => {
    const earlier = before.find((total) => total.device === device);
    if (earlier === undefined || rx < earlier.rx || tx < earlier.tx || seconds <= 0) return [];
    return [{ device, values: { 'nvlink rx': (rx - earlier.rx) / seconds, 'nvlink tx': (tx - earlier.tx) / seconds } }];
  });
}

function isIndex(text: string | undefined): text is string {
  return text !== undefined && /^\d{1,4}$/.test(text);
}

/** The number in a cell; accepts the unit `printed` after it, but no other unit. */
function numberOf(cell: string | undefined, printed: string): number | undefined {
  const [, digits, unit] = /^(-?\d{1,12}(?:\.\d{1,9})?)(?: ([A-Za-z%]{1,5}))?$/.exec(cell ?? '') ?? [];
  return digits === undefined || (unit !== undefined && unit !== printed) ? undefined : Number(digits);
}

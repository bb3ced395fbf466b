// Ages and sizes: `7d`, `36h`, `1y`, `200G`, and the options of `serve` and `prune` that take them.

import type { Retention } from '@ranktrace/aggregator';
import { InvalidArgumentError, Option } from 'commander';

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000, y: 365 * 86_400_000 };
const unitBytes: Readonly<Record<string, number>> = { M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 };

/** The values that commander gives for `retentionOptions`. */
export interface RetentionArguments {
  readonly keepDetail?: number;
  readonly keepSteps?: number;
  readonly keepTrace?: number;
  readonly storeMax?: number;
}

/** `--keep-detail`, `--keep-steps`, `--keep-trace`, `--store-max`. */
export function retentionOptions(keepTrace?: readonly [ms: number, text: string]): Option[] {
  const trace = new Option(
    '--keep-trace <age>',
    'remove trace files of whole runs after so long: "ranktrace merge" makes them again',
  ).argParser(ageIn);
  return [
    new Option('--keep-detail <age>', 'keep all events so long (7d, 36h, 1y), then the times of steps and phases alone').argParser(ageIn),
    new Option('--keep-steps <age>', 'keep the times of steps, and traces of captures, so long').argParser(ageIn),
    keepTrace === undefined ? trace : trace.default(...keepTrace),
    new Option(
      '--store-max <size>',
      'keep no more than so much (500M, 200G, 2T): traces go first, then detail, then steps, oldest first',
    ).argParser(sizeIn),
  ];
}

/** The retention in the aggregator's form. */
export function retentionOf({ keepDetail, keepSteps, keepTrace, storeMax }: RetentionArguments): Retention {
  return { keepDetailMs: keepDetail, keepStepsMs: keepSteps, keepTraceMs: keepTrace, storeBytesMax: storeMax };
}

/** ms of `7d`. */
export function ageIn(text: string): number {
  return amountIn(text, unitMs) ?? invalid('It must be a number with m, h, d, w or y, such as 36h, 7d or 1y.');
}

/** Bytes of `200G`. */
export function sizeIn(text: string): number {
  return amountIn(text, unitBytes) ?? invalid('It must be a number with M, G or T, such as 500M or 200G.');
}

function amountIn(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const match = /^(\d{1,6}(?:\.\d{1,3})?)([A-Za-z])$/.exec(text);
  const unit = units[match?.[2] ?? ''];
  const amount = match === null || unit === undefined ? 0 : Math.round(Number(match[1]) * unit);
  return amount > 0 ? amount : undefined;
}

function invalid(message: string): never {
  throw new InvalidArgumentError(message);
}

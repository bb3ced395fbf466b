// Values of the configuration: quantities with units as people write them; errors state what is allowed.
//
// A quantity without its unit is rejected: nobody has to guess whether 30 means seconds. Each error reads on after the key:
// `rules.rank_stopped.after` + `must be a time such as 500ms, 30s, 5m or 1h`.

import { z } from 'zod';
import { deliveryLimits as limits } from './delivery-limits.ts';

const msPerUnit = { ms: 1, s: 1000, m: 60_000, h: 3600_000, d: 24 * 3600_000 } as const;
const bytesPerUnit = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 } as const;
const sharePerUnit = { '%': 0.01 } as const;

/** `500ms`, `30s`, `5m`, `1h`, `1d` as ms. */
export const duration = (minMs: number, maxMs: number) =>
  quantity('a time such as 500ms, 30s, 5m or 1h', msPerUnit, minMs, maxMs, (ms) => durationText(ms));

/** `64KiB`, `1MiB` as bytes. */
export const bytes = (min: number, max: number) =>
  quantity('an amount such as 512KiB, 1MiB or 2GiB', bytesPerUnit, min, max, (value) => {
    const unit = value >= 1024 ** 3 ? 'GiB' : value >= 1024 ** 2 ? 'MiB' : value >= 1024 ? 'KiB' : 'B';
    return `${value / bytesPerUnit[unit]}${unit}`;
  });

/** `3%` as 0.03. */
export const share = (min: number, max: number) =>
  quantity('a share such as 3% or 0.5%', sharePerUnit, min, max, (value) => `${Number((value * 100).toPrecision(6))}%`);

/** Milliseconds in the largest unit that keeps them whole. */
export function durationText(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const)
    if (ms >= msPerUnit[unit] && ms % msPerUnit[unit] === 0) return `${ms / msPerUnit[unit]}${unit}`;
  return `${ms}ms`;
}

export const share100 = (value: number): string => `${Number((value * 100).toPrecision(6))}%`;

function quantity(what: string, units: Readonly<Record<string, number>>, min: number, max: number, written: (value: number) => string) {
  const grammar = /^(\d+(?:\.\d+)?) ?([A-Za-z%]+)$/;
  return z.unknown().transform((given, context): number => {
    const [, digits = '', unit = ''] = (typeof given === 'string' && grammar.exec(given)) || [];
    const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
    if (factor === undefined) context.addIssue({ code: 'custom', message: `must be ${what}`, input: given });
    else {
      // 0.1 % of a share is 0.001, not 0.0010000000000000002.
      const value = Number((Number(digits) * factor).toPrecision(15));
      if (value >= min && value <= max) return value;
      context.addIssue({ code: 'custom', message: `must be ${written(min)} to ${written(max)}`, input: given });
    }
    return z.NEVER;
  });
}

export function whole(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.number(error).int(error).min(min, error).max(max, error);
}

export function numberOf(min: number, max: number) {
  const error = `must be a number from ${min} to ${max}`;
  return z.number(error).min(min, error).max(max, error);
}

export const truth = () => z.boolean('must be true or false');

export function text(what = 'text', pattern: RegExp = /./) {
  const error = `must be ${what} of at most ${limits.configTextCharsMax} characters`;
  return z.string(error).min(1, error).max(limits.configTextCharsMax, error).regex(pattern, `must be ${what}`);
}

/** An http:// or https:// address. */
export const address = () =>
  text('an address').refine((given) => {
    if (!URL.canParse(given)) return false;
    const { protocol, hostname } = new URL(given);
    return /^https?:$/.test(protocol) && hostname !== '';
  }, 'must be an address that begins with http:// or https://');

export function oneOf<const Values extends readonly [string, ...string[]]>(values: Values) {
  return z.enum(values, `must be ${values.length === 1 ? values[0] : `one of ${values.join(', ')}`}`);
}

export function listOf<Item extends z.ZodType>(item: Item, what: string, max: number) {
  const error = `must be a list of ${what}, at most ${max}`;
  return z.array(item, error).max(max, error);
}

/** A map of texts whose keys have the form `key`. */
export function mapOf(key: RegExp, what: string) {
  const error = `must be a map of text by ${what}, at most ${limits.configEntriesMax}`;
  return z
    .record(z.string(), z.string('must be text').max(limits.configTextCharsMax), error)
    .refine((map) => Object.keys(map).length <= limits.configEntriesMax, error)
    .refine((map) => Object.keys(map).every((name) => key.test(name)), error);
}

/** A map with these keys and no other. */
export function section<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const allowed = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? `allowed are ${allowed}` : `must be a map of ${allowed}`),
  });
}

/** A section that is also turned on and off by `true` and `false`. */
export function switchable<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const whole = section({ enabled: truth().optional(), ...shape });
  return z.preprocess((given) => (typeof given === 'boolean' ? { enabled: given } : given), whole).prefault({});
}

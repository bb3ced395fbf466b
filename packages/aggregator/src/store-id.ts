// A name for an output directory that stays with it: JetStream remembers per reader what it delivered, and a new, empty directory must be a
// new reader.

import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorError } from './errors.ts';
import { guard } from './segment-writer.ts';

/** The id of `out`, made at the first call. Throws AggregatorError `store_unreadable` or `store_write_failed`. */
export function storeId(out: string): string {
  const path = join(out, 'store-id');
  let text: string | undefined;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch {
    text = randomBytes(6).toString('hex');
    const line = `${text}\n`;
    guard(path, () => writeFileSync(path, line, { flush: true }));
  }
  if (/^[0-9a-f]{12}$/.test(text)) return text;
  throw new AggregatorError(
    'store_unreadable',
    `Cannot read "${path}": it must be 12 hexadecimal digits, got ${JSON.stringify(text.slice(0, 40))}`,
  );
}

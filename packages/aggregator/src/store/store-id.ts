// A lasting name for an output directory: JetStream keeps the deliveries of each reader, and a new, empty directory must be a new reader.
//
// The file's name has a dot: no run can have that name, so no rank can put a directory in its place.

import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { guard } from './segment-writer.ts';

/** The id of `out`, made at the first call. Throws AggregatorError `store_unreadable`, `store_full` or `store_write_failed`. */
export function storeId(out: string): string {
  const path = join(out, 'store.id');
  const text = readId(path) ?? makeId(path);
  if (/^[0-9a-f]{12}$/.test(text)) return text;
  throw unreadable(path, `it must be 12 hexadecimal digits, got ${JSON.stringify(text.slice(0, 40))}`);
}

function readId(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (cause) {
    if (systemCode(cause) === 'ENOENT') return undefined;
    throw unreadable(path, messageOf(cause), cause);
  }
}

/** Written aside and linked: neither a kill nor a full disk leaves half an id, and two services that begin together both get the same. */
function makeId(path: string): string {
  const id = randomBytes(6).toString('hex');
  const draft = `${path}.${id}`;
  return guard(path, () => {
    try {
      writeFileSync(draft, `${id}\n`, { flush: true });
      linkSync(draft, path);
      return id;
    } catch (error) {
      const other = systemCode(error) === 'EEXIST' ? readId(path) : undefined;
      if (other === undefined) throw error;
      return other;
    } finally {
      rmSync(draft, { force: true });
    }
  });
}

function unreadable(path: string, what: string, cause?: unknown): AggregatorError {
  return new AggregatorError('store_unreadable', `Cannot read "${path}": ${what}`, { cause });
}

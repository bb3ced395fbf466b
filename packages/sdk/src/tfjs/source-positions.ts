// Maps a position in the running JavaScript to the source that a person wrote, by the file's source map
// (https://tc39.es/ecma426/): the map that node holds already (`--enable-source-maps`, or a loader such as tsx that enabled it), else the one
// that the file names in its `//# sourceMappingURL=`, inline or in a file beside it. node's own `SourceMap` class reads it.
//
// Reading a map costs milliseconds and happens once per file, at its first frame.
//
// Invariant: never throws. A map that is missing, broken or over a limit gives the position in the file itself.
// Invariant: it remembers at most `filesMax` files, and parses at most `mappingsCharsMax` characters of mappings (about 25 bytes of heap
// each).

import { readFileSync, statSync } from 'node:fs';
import { findSourceMap, SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

const filesMax = 4096;
const fileBytesMax = 32 * 1024 * 1024;
const mappingsCharsMax = 4 * 1024 * 1024;
const pathCharsMax = 512;

/** A position in a file. */
export interface SourcePosition {
  /** Absolute path, or the unchanged address if that is not a file's. */
  readonly path: string;
  /** Counted from 1. */
  readonly line: number;
}

interface FileMap {
  readonly map: SourceMap;
  /** Base of the map's relative `sources`. */
  readonly base: string;
}

export class SourcePositions {
  readonly #maps = new Map<string, FileMap | undefined>();
  #mappingsChars = 0;

  /**
   * The source position of `line` and `column` (both from 1, as V8 counts) of `script`, which is a path or an address as V8 names it.
   *
   * @example new SourcePositions().locate('file:///app/dist/train.js', 30, 7) // { path: '/app/src/train.ts', line: 42 }
   */
  locate(script: string, line: number, column: number): SourcePosition {
    try {
      const file = this.#mapOf(script);
      const entry = file?.map.findEntry(line - 1, column - 1);
      // The closest entry before may belong to an earlier line: code without a source of its own, such as a compiler's helpers.
      if (file !== undefined && entry !== undefined && 'originalSource' in entry && entry.generatedLine === line - 1) {
        const { originalSource, originalLine } = entry;
        if (typeof originalSource === 'string' && Number.isInteger(originalLine)) {
          return { path: pathOf(new URL(originalSource, file.base).href), line: originalLine + 1 };
        }
      }
    } catch {
      // A damaged map: use the position in the file, below.
    }
    return { path: pathOf(script), line };
  }

  #mapOf(script: string): FileMap | undefined {
    if (this.#maps.has(script)) return this.#maps.get(script);
    if (this.#maps.size >= filesMax) return undefined;
    let map: FileMap | undefined;
    try {
      map = this.#load(script);
    } catch {
      map = undefined; // No such file, no JSON, mappings that cannot be decoded.
    }
    this.#maps.set(script, map);
    return map;
  }

  #load(script: string): FileMap | undefined {
    const known = findSourceMap(script);
    if (known !== undefined) return { map: known, base: rootedAt(script, known.payload) };
    const path = pathOf(script);
    const code = readText(path);
    const address = code === undefined ? undefined : mapAddress(code);
    if (address === undefined) return undefined;
    const url = new URL(address, pathToFileURL(path));
    const text = url.protocol === 'data:' ? dataText(address) : readText(fileURLToPath(url));
    if (text === undefined) return undefined;
    const payload: unknown = JSON.parse(text.startsWith(")]}'") ? text.slice(text.indexOf('\n')) : text);
    if (!this.#fits(payload)) return undefined;
    return { map: new SourceMap(payload), base: rootedAt(url.protocol === 'data:' ? script : url.href, payload) };
  }

  /** Whether `payload` is a map, and small enough to be parsed on a training thread. */
  #fits(payload: unknown): payload is SourceMapPayload {
    const chars = mappingsChars(payload);
    if (this.#mappingsChars + chars > mappingsCharsMax) return false;
    this.#mappingsChars += chars;
    return true;
  }
}

function mappingsChars(payload: unknown): number {
  if (typeof payload !== 'object' || payload === null) return Number.POSITIVE_INFINITY;
  const { mappings, sections } = payload as { mappings?: unknown; sections?: unknown };
  if (typeof mappings === 'string') return mappings.length;
  if (!Array.isArray(sections)) return Number.POSITIVE_INFINITY;
  return sections.reduce((sum: number, section: { map?: unknown }) => {
    const { mappings } = (section.map ?? {}) as { mappings?: unknown };
    return sum + (typeof mappings === 'string' ? mappings.length : Number.POSITIVE_INFINITY);
  }, 0);
}

function rootedAt(address: string, payload: SourceMapPayload): string {
  const url = address.includes('://') ? address : pathToFileURL(address).href;
  const root = payload.sourceRoot;
  if (typeof root !== 'string' || root === '') return url;
  return new URL(root.endsWith('/') ? root : `${root}/`, url).href;
}

function readText(path: string): string | undefined {
  const about = statSync(path, { throwIfNoEntry: false });
  return about?.isFile() && about.size <= fileBytesMax ? readFileSync(path, 'utf8') : undefined;
}

/** The address in the last `//# sourceMappingURL=` of `code`; only on a line of its own, so that one in a string does not count. */
function mapAddress(code: string): string | undefined {
  const at = Math.max(code.lastIndexOf('\n//# sourceMappingURL='), code.lastIndexOf('\n//@ sourceMappingURL='));
  if (at < 0) return undefined;
  const start = code.indexOf('=', at) + 1;
  const end = code.indexOf('\n', start);
  const address = code.slice(start, end < 0 ? undefined : end).trim();
  return address === '' || /["'`\s]/.test(address.slice(0, 256)) ? undefined : address;
}

function dataText(address: string): string | undefined {
  const comma = address.indexOf(',');
  if (comma < 0) return undefined;
  const body = address.slice(comma + 1);
  return address.slice(0, comma).endsWith(';base64') ? Buffer.from(body, 'base64').toString('utf8') : decodeURIComponent(body);
}

/** The path of a script that V8 names by its path or `file:` address; other addresses unchanged, but cut if long. */
export function pathOf(script: string): string {
  try {
    if (script.startsWith('file://')) return fileURLToPath(script.replace(/[?#].*$/s, ''));
  } catch {
    // A file's address of another host: unchanged.
  }
  return script.length <= pathCharsMax ? script : `${script.slice(0, pathCharsMax)}…`;
}

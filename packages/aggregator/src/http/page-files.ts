// The built page: read whole when the service starts, so that a request is a lookup in a map and no path of a request ever reaches the file system.
//
// Names under assets/ carry a digest of their content (vite), so browsers may cache those forever; they revalidate everything else.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';

export interface PageFile {
  readonly bytes: Uint8Array;
  readonly type: string;
  readonly cacheControl: string;
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};

export class PageFiles {
  readonly #files = new Map<string, PageFile>();

  /** Reads everything in and below `directory`, without following links. Throws AggregatorError `bad_option` when it holds no page. */
  constructor(directory: string) {
    let bytes = 0;
    for (const path of pathsBelow(directory)) {
      bytes += statSync(path).size;
      if (this.#files.size >= limits.pageFilesMax || bytes > limits.pageBytesMax) {
        throw noPage(directory, `it may have ${limits.pageFilesMax} files with ${limits.pageBytesMax} bytes, got more`);
      }
      const name = `/${relative(directory, path).replaceAll(sep, '/')}`;
      this.#files.set(encodeURI(name), {
        bytes: readFileSync(path),
        type: types[extname(name)] ?? 'application/octet-stream',
        cacheControl: /^\/assets\/.*-[\w-]{8}\.\w+$/.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache',
      });
    }
    const index = this.#files.get('/index.html');
    if (index === undefined) throw noPage(directory, 'it has no index.html');
    this.#files.set('/', index);
  }

  /** The file behind the path of a request, as it was sent; undefined where there is none. */
  get(path: string): PageFile | undefined {
    return this.#files.get(path);
  }
}

function pathsBelow(directory: string): string[] {
  try {
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  } catch (cause) {
    throw noPage(directory, messageOf(cause), cause);
  }
}

const noPage = (directory: string, what: string, cause?: unknown): AggregatorError =>
  new AggregatorError('bad_option', `Cannot serve the page of ${JSON.stringify(directory)}: ${what}`, { cause });

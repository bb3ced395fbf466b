// The certificate of the port: read at the start, and again when its files change at a renewal. Open connections keep the old one.
//
// Polls the files' times instead of watching: renewal replaces files, and a mounted secret is a link to another folder.

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Server } from 'node:https';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';

export interface TlsFiles {
  /** The certificate, then its issuers' certificates, PEM. */
  readonly cert: string;
  /** Its private key without a passphrase, PEM. */
  readonly key: string;
}

interface Pair {
  readonly cert: string;
  readonly key: string;
}

export class Certificate implements Disposable {
  readonly #files: TlsFiles;
  readonly #onNotice: (notice: string) => void;
  #pair: Pair;
  #seen: string;
  #timer: NodeJS.Timeout | undefined;

  /** Throws AggregatorError `bad_certificate`. */
  constructor(files: TlsFiles, onNotice: (notice: string) => void) {
    this.#files = files;
    this.#onNotice = onNotice;
    this.#seen = stateOf(files);
    this.#pair = readPair(files);
  }

  get pair(): Pair {
    return this.#pair;
  }

  /** Installs every later certificate in `server`, until disposed. */
  follow(server: Pick<Server, 'setSecureContext'>): void {
    this.#timer = setInterval(
      guardedBy(this.#onNotice)('the look at the certificate', () => this.#look(server)),
      limits.certificateLookMs,
    ).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(server: Pick<Server, 'setSecureContext'>): void {
    const state = stateOf(this.#files);
    if (state === this.#seen) return;
    this.#seen = state;
    try {
      this.#pair = readPair(this.#files);
      server.setSecureContext(this.#pair);
      this.#onNotice(`new certificate from "${this.#files.cert}", valid until ${new X509Certificate(this.#pair.cert).validTo}`);
    } catch (error) {
      // Half of the pair may be written already: the next change triggers another look.
      this.#onNotice(`the certificate stays as it was: ${messageOf(error)}`);
    }
  }
}

function stateOf({ cert, key }: TlsFiles): string {
  return [cert, key]
    .map((path) => {
      const stat = statSync(path, { throwIfNoEntry: false });
      return stat === undefined ? 'gone' : `${stat.ino} ${stat.mtimeMs} ${stat.size}`;
    })
    .join(', ');
}

function readPair(files: TlsFiles): Pair {
  const pair = { cert: read(files.cert, 'certificate'), key: read(files.key, 'key') };
  const certificate = parse(files.cert, 'a certificate in PEM', () => new X509Certificate(pair.cert));
  const key = parse(files.key, 'a private key in PEM, without a passphrase', () => createPrivateKey(pair.key));
  if (certificate.checkPrivateKey(key)) return pair;
  throw new AggregatorError('bad_certificate', `Cannot use key "${files.key}": it is not that of the certificate "${files.cert}"`);
}

function read(path: string, what: string): string {
  try {
    if (statSync(path).size > limits.certificateBytesMax) throw new Error(`it may have ${limits.certificateBytesMax} bytes`);
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new AggregatorError('bad_certificate', `Cannot read ${what} "${path}": ${messageOf(cause)}`, { cause });
  }
}

function parse<T>(path: string, wanted: string, reading: () => T): T {
  try {
    return reading();
  } catch (cause) {
    throw new AggregatorError('bad_certificate', `Cannot use "${path}": it must be ${wanted}`, { cause });
  }
}

// A foreign server for one test: its own process and folder, ready when it answers.
//
// Invariant: ending it removes its folder, and nothing outlives the test.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';

const readyWithinMs = 100_000;
const impatientAfterMs = 5000;
const outputCharsMax = 64 * 1024;

export interface ServerCommand {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Whether it answers now; waits a moment if it does not. */
  readonly isReady: () => Promise<boolean>;
}

export class ServerProcess implements AsyncDisposable {
  /** Stays the same over `stop` and `start`. */
  readonly directory: string;
  #log = '';
  #child: ChildProcess | undefined;

  constructor(name: string) {
    this.directory = mkdtempSync(join(tmpdir(), `ranktrace-${name}-`));
  }

  /** Its output so far (the last 64 Ki characters). */
  get output(): string {
    return this.#log;
  }

  /** Resolves when it is ready; throws with its output, and removes everything, when it is not within 100 s. */
  async start({ name, command, args, isReady }: ServerCommand): Promise<void> {
    const child = spawn(command, args, { cwd: this.directory, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    // A test that is killed must not leave a server behind.
    const endWithTest = () => child.kill('SIGKILL');
    process.once('exit', endWithTest);
    child.once('exit', () => process.off('exit', endWithTest));
    child.once('error', ({ message }) => this.#said(`${message}\n`));
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => this.#said(text));
    const deadline = performance.now() + readyWithinMs;
    while (!(await isReady())) {
      if (isRunning(child) && performance.now() < deadline) continue;
      await this[Symbol.asyncDispose]();
      throw new Error(`Cannot start ${name}: it must be ready within ${readyWithinMs} ms; it said:\n${this.#log}`);
    }
  }

  /** Sends SIGHUP; resolves when it has printed `done` since. */
  async reload(done: RegExp): Promise<void> {
    const before = this.#log;
    this.#child?.kill('SIGHUP');
    const deadline = performance.now() + readyWithinMs;
    while (!done.test(this.#log.startsWith(before) ? this.#log.slice(before.length) : this.#log)) {
      if (performance.now() > deadline) throw new Error(`It must say ${done} after SIGHUP; it said:\n${this.#log}`);
      await wait(20);
    }
  }

  /** SIGSTOP freezes it, SIGCONT lets it continue. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(name);
  }

  /** Resolves when it is gone. */
  async stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || !isRunning(child)) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    const impatience = setTimeout(() => child.kill('SIGKILL'), impatientAfterMs);
    await gone;
    clearTimeout(impatience);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop('SIGTERM');
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }

  #said(text: string): void {
    this.#log = (this.#log + text).slice(-outputCharsMax);
  }
}

const isRunning = ({ pid, exitCode, signalCode }: ChildProcess): boolean => pid !== undefined && exitCode === null && signalCode === null;

let nextPort = Math.floor(Math.random() * 1000);

/**
 * A port of 127.0.0.1 without a listener, below those that systems give to outgoing connections and to listeners without a port of their own (from 32768
 * on Linux): so none of them takes it before, or between, the uses of a test. Nor does a test beside this one: each worker has a range
 * of its own, and takes no port twice.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + 1000 * (Number(process.env.VITEST_POOL_ID ?? 0) % 10) + (nextPort++ % 1000);
    const probe = createServer().listen(port, '127.0.0.1');
    const isFree = await once(probe, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}

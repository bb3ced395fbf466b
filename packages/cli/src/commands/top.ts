// `ranktrace top`: shows an active run on a terminal; prints a line now and then if stdout is none.
//
//   terminal      other screen on ──► read ──► draw ──► wait: a second, a key, or another size ──► … ──► other screen off
//   no terminal   read ──► one line ──► wait ──► …                                                until the run is over
//
// Invariant: the terminal is restored, however this ends.

import { setTimeout as sleep } from 'node:timers/promises';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { print } from '../terminal/output.ts';
import { keysIn } from './top-keys.ts';
import { type TopScreen, topLine, topLines } from './top-screen.ts';
import { TopSource, type TopState } from './top-source.ts';

export interface TopOptions {
  readonly url: string;
  readonly token?: string | undefined;
  readonly run?: string | undefined;
  /** Seconds between two looks. */
  readonly interval: number;
  /** One look. */
  readonly once?: boolean;
  /** Environment: colour (NO_COLOR), characters (LC_ALL, LC_CTYPE, LANG), abilities of the terminal (TERM). */
  readonly environment: NodeJS.ProcessEnv;
}

const enterScreen = '\u001b[?1049h\u001b[?25l';
const leaveScreen = '\u001b[?25h\u001b[?1049l';
const [plainColumns, plainRows] = [80, 24];

/** Number of tries of `--once`, and the wait between them, for a run that the service has not read yet. */
const onceTries = 20;
const onceTryMs = 250;

export async function top(options: TopOptions): Promise<number> {
  using interrupt = abortOnInterrupt();
  // A terminal in raw mode sends keys, not signals; and a reader such as `| head` ends by closing the pipe.
  const left = new AbortController();
  const signal = AbortSignal.any([interrupt.signal, left.signal]);
  const leave = (): void => left.abort();
  process.stdout.once('error', leave);
  using source = new TopSource({ url: options.url, token: options.token, signal });
  const isTerminal = process.stdout.isTTY === true && options.environment.TERM !== 'dumb' && options.once !== true;
  try {
    return isTerminal ? await onTerminal(source, options, signal, leave) : await asLines(source, options, signal);
  } catch (error) {
    if (signal.aborted) return 0;
    throw error;
  } finally {
    process.stdout.off('error', leave);
  }
}

async function asLines(source: TopSource, { run, interval, once = false }: TopOptions, signal: AbortSignal): Promise<number> {
  let reported = '';
  for (let isFirst = true; ; isFirst = false) {
    let state = await source.read(run);
    // A service reads a run on request: `--once` waits until it has.
    for (let tries = 0; once && state !== undefined && state.overview?.allRead !== true && tries < onceTries; tries++) {
      await sleep(onceTryMs, undefined, { signal });
      state = await source.read(run);
    }
    if (once && state === undefined) throw new CliError('bad_input', 'There is no run that is open');
    const line = state === undefined ? 'no run yet' : topLine(state);
    if (isFirst || line !== reported) print(`${once ? '' : `${clock()}  `}${line}`);
    reported = line;
    const isOver = state !== undefined && state.ranks.length >= state.worldSize && state.ranks.every(({ ended }) => ended);
    if (once || isOver) return 0;
    await sleep(1000 * interval, undefined, { signal });
  }
}

/** `leave` aborts `signal`. */
async function onTerminal(source: TopSource, options: TopOptions, signal: AbortSignal, leave: () => void): Promise<number> {
  const { stdin, stdout } = process;
  const { environment, interval } = options;
  const blocks = /utf-?8/i.test(environment.LC_ALL || environment.LC_CTYPE || environment.LANG || '');
  const colour = !environment.NO_COLOR;
  let { run } = options;
  let [state, problem, scroll]: [TopState | undefined, string | undefined, number] = [undefined, undefined, 0];
  let wake = new AbortController();

  const draw = (): void => {
    // A terminal of unknown size reports 0.
    const [columns, rows] = [stdout.columns || plainColumns, stdout.rows || plainRows];
    const screen: TopScreen = { columns, rows, colour, blocks, scroll, now: new Date(), problem };
    const lines = topLines(state, screen).map((line) => `${line}\u001b[K`);
    stdout.write(`\u001b[H${lines.join('\r\n')}\u001b[J`);
  };
  const onKey = (key: string): void => {
    if (key === 'q' || key === '\u0003' || key === '\u001b') leave();
    else if (key === '\u001b[A' || key === 'k') scroll = Math.max(0, scroll - 1);
    else if (key === '\u001b[B' || key === 'j') scroll = Math.min(Math.max(0, (state?.ranks.length ?? 1) - 1), scroll + 1);
    else if (key === 'n' && state !== undefined) {
      run = state.runs[(state.runs.indexOf(state.run) + 1) % state.runs.length];
      scroll = 0;
      wake.abort();
    }
  };
  const onKeys = (bytes: Buffer): void => {
    for (const key of keysIn(bytes.toString('latin1'))) onKey(key);
    if (!signal.aborted && !wake.signal.aborted) draw();
  };

  const hasKeys = stdin.isTTY === true;
  stdout.write(enterScreen);
  if (hasKeys) stdin.setRawMode(true).on('data', onKeys).resume();
  stdout.on('resize', draw);
  try {
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      wake = new AbortController();
      try {
        state = await source.read(run);
        problem = undefined;
      } catch (error) {
        // On the first request an error is fatal: the address may be wrong. Later ones wait for a restarting service.
        if (isFirst || !(error instanceof CliError)) throw error;
        problem = error.message;
      }
      if (signal.aborted) break;
      draw();
      await sleep(1000 * interval, undefined, { signal: AbortSignal.any([signal, wake.signal]) }).catch(() => undefined);
    }
    return 0;
  } finally {
    stdout.off('resize', draw);
    if (hasKeys) stdin.setRawMode(false).off('data', onKeys).pause();
    stdout.write(leaveScreen);
  }
}

const clock = (): string => new Date().toTimeString().slice(0, 8);

// `ranktrace capture --steps N | --seconds S`: the trace of the same steps, or of one window of time, on all ranks, recorded now. The service coordinates it
// and keeps the file.

import { type CaptureResult, captureResultSchema, printable } from '@ranktrace/protocol';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { print, printData, say } from '../terminal/output.ts';
import { askService } from '../terminal/service-request.ts';

export interface CaptureOptions {
  readonly steps?: number;
  readonly seconds?: number;
  readonly atStep?: number;
  readonly last?: boolean;
  readonly url: string;
  readonly run?: string;
  readonly json?: boolean;
  readonly token?: string | undefined;
}

/** 0: all ranks recorded all of the steps; 1: some did not. */
export async function capture({ steps, seconds, atStep, last, url, run, json, token }: CaptureOptions): Promise<number> {
  if ((steps === undefined) === (seconds === undefined)) throw new CliError('bad_usage', 'capture needs either --steps or --seconds');
  using interrupt = abortOnInterrupt();
  const body = {
    ...(steps !== undefined && { steps }),
    ...(seconds !== undefined && { seconds }),
    ...(atStep !== undefined && { fromStep: atStep }),
    ...(last === true && { last }),
    ...(run !== undefined && { run }),
  };
  const which =
    seconds !== undefined
      ? `${seconds} s`
      : last === true
        ? `the last ${steps} steps`
        : `${steps} steps${atStep === undefined ? '' : ` from step ${atStep} on`}`;
  if (json !== true) say(`asking ${url} for ${which} (Ctrl-C gives up)`);
  const answer = await askService({ url, method: 'POST', path: '/v1/capture', token, body, signal: interrupt.signal });
  if (answer.code !== 200) throw refusal(answer.text);
  const result = captureResultSchema.safeParse(parsed(answer.text)).data;
  if (result === undefined)
    throw new CliError('bad_input', `${url} answered with something else: is it a ranktrace service of this version?`);
  if (json === true) printData(result);
  else print(textOf(result));
  return result.late.length + result.dead.length === 0 ? 0 : 1;
}

function textOf({ run, path, fromStep, toStep, window, ranks, notes }: CaptureResult): string {
  const who = ranks.length === 0 ? 'no rank has all of them' : `rank${ranks.length === 1 ? '' : 's'} ${ranges(ranks)}`;
  const what =
    window === undefined
      ? `steps ${fromStep} to ${toStep} of ${who}`
      : `${window.seconds} s from ${new Date(window.unixMs).toISOString()} of ${who}, which share ${Math.round(1000 * window.overlap) / 10} % of it`;
  const lines = [`run ${run}: ${what}`, ...notes, `trace: ${path}`];
  return lines.map(printable).join('\n');
}

/** `0-3, 5`. */
function ranges(ranks: readonly number[]): string {
  const found: [from: number, to: number][] = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === rank - 1) last[1] = rank;
    else found.push([rank, rank]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(', ');
}

/** `bad_usage` or `failed`, with the service's reason. */
function refusal(text: string): CliError {
  const { error, message } = (parsed(text) ?? {}) as { error?: unknown; message?: unknown };
  const isInput = error === 'bad_option' || error === 'store_missing' || error === undefined;
  return new CliError(isInput ? 'bad_input' : 'failed', typeof message === 'string' ? message : `The service refuses: ${text.trim()}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

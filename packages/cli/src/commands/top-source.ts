// Fetches the state for `ranktrace top` from a service: ranks (`/status`), alerts (`/v1/alerts`), and the last steps (`/v1/view`, as a page requests
// it).

import { ViewClient, ViewError } from '@ranktrace/aggregator';
import {
  type Alert,
  alertSchema,
  decodeMessage,
  type LiveMessage,
  liveMessageSchema,
  type Overview,
  ProtocolError,
  type RankStatus,
  type RunModel,
} from '@ranktrace/protocol';
import { CliError } from '../terminal/errors.ts';
import { askService } from '../terminal/service-request.ts';

/** A run in its current state. */
export interface TopState {
  readonly run: string;
  /** Names of all runs that are open, in order of the service. */
  readonly runs: readonly string[];
  readonly worldSize: number;
  readonly ranks: readonly RankStatus[];
  /** Overview of the last steps; undefined while the service has not read the run. */
  readonly overview: Overview | undefined;
  /** Alerts of the run, newest first; undefined where the service has none to offer. */
  readonly alerts: readonly Alert[] | undefined;
}

export interface TopSourceOptions {
  readonly url: string;
  readonly token: string | undefined;
  readonly signal: AbortSignal;
}

/** Number of last steps behind the figures, whatever the size of the terminal: more than most can draw. */
const stepsRead = 480;
/** The longest wait for an answer, ms: then the service counts as one that does not answer. */
const answerMsMax = 10_000;

export class TopSource implements Disposable {
  readonly #options: TopSourceOptions;
  #client: ViewClient | undefined;
  #opened: string | undefined;

  constructor(options: TopSourceOptions) {
    this.#options = options;
  }

  /**
   * The run called `wanted`, or the first active one, with its last steps. Undefined while there is no run.
   * @throws CliError `bad_usage`, `bad_input` where the service does not answer, or the run is missing; the signal's reason once that is aborted
   */
  async read(wanted: string | undefined): Promise<TopState | undefined> {
    const { runs } = await this.#status();
    const isGoing = (isSo: (rank: RankStatus) => boolean) => runs.find(({ ranks }) => ranks.some(isSo));
    const goesOn = isGoing(({ state }) => state === 'live') ?? isGoing(({ ended }) => !ended);
    const found = wanted === undefined ? (goesOn ?? runs.at(-1)) : runs.find(({ run }) => run === wanted);
    if (found === undefined) {
      if (wanted === undefined) return undefined;
      const there = runs.length === 0 ? 'no run that is open' : runs.map(({ run }) => run).join(', ');
      throw new CliError('bad_input', `There is no run "${wanted}" at ${this.#options.url}: there is ${there}`);
    }
    const { run, worldSize, ranks } = found;
    const alerts = await this.#alerts(run);
    const overview = await this.#overview(run, firstStep(ranks, stepsRead), stepsRead);
    return { run, runs: runs.map(({ run }) => run), worldSize, ranks, overview, alerts };
  }

  [Symbol.dispose](): void {
    this.#client?.[Symbol.dispose]();
  }

  async #status(): Promise<LiveMessage> {
    const { url, token, signal } = this.#options;
    const { code, text } = await askService({ url, token, signal, answerMsMax, method: 'GET', path: '/status' });
    try {
      if (code === 200) return decodeMessage(liveMessageSchema, text);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
    }
    throw new CliError('bad_input', `What answers at ${url} is no service of ranktrace, or one of another version: code ${code}`);
  }

  async #alerts(run: string): Promise<readonly Alert[] | undefined> {
    const { url, token, signal } = this.#options;
    const { code, text } = await askService({
      url,
      token,
      signal,
      answerMsMax,
      method: 'GET',
      path: `/v1/alerts?run=${encodeURIComponent(run)}`,
    });
    if (code !== 200) return undefined;
    const answer = jsonIn(text);
    const list = Array.isArray(answer) ? answer : ((answer as { alerts?: unknown } | undefined)?.alerts ?? []);
    const alerts = (Array.isArray(list) ? list : []).flatMap((one): Alert[] => {
      const parsed = alertSchema.safeParse(one);
      return parsed.success && parsed.data.run === run ? [parsed.data] : [];
    });
    return alerts.sort((a, b) => (a.firedAt < b.firedAt ? 1 : a.firedAt > b.firedAt ? -1 : 0));
  }

  async #overview(run: string, fromStep: number, bins: number): Promise<Overview | undefined> {
    const { url, token, signal } = this.#options;
    // A connection that is cut rejects whatever was asked on it.
    const late = setTimeout(() => this.#client?.[Symbol.dispose](), answerMsMax);
    try {
      if (this.#client?.isOpen !== true) {
        this.#client = await ViewClient.connect(url, { token, signal });
        this.#opened = undefined;
      }
      if (this.#opened !== run) {
        if (this.#opened !== undefined) await this.#client.ask({ type: 'close', run: this.#opened });
        await this.#client.ask<RunModel>({ type: 'open', run });
        this.#opened = run;
      }
      const overview = await this.#client.ask<Overview>({ type: 'overview', run, fromStep, bins });
      return overview.ranks.length === 0 ? undefined : overview;
    } catch (error) {
      if (!(error instanceof ViewError)) throw error;
      // The service has no page, or has just dropped the run: the status suffices until it is back.
      this.#opened = undefined;
      return undefined;
    } finally {
      clearTimeout(late);
    }
  }
}

/** First of the last `steps` steps of all ranks, or of four times as many if some are that far behind; ignores a rank that stopped long ago. */
function firstStep(ranks: readonly RankStatus[], steps: number): number {
  const last = ranks.map(({ step }) => step);
  if (last.length === 0) return 0;
  return Math.max(0, Math.min(...last) - steps + 1, Math.max(...last) - 4 * steps + 1);
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

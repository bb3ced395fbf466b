// One page: its requests are checked, take turns with all other pages, and are answered; its runs' growth is sent unasked.
//
//   message ──► check ──► under way ──► room in the outlet ──► turn ≤ viewSliceMs ──► …again… ──► answer
//                │ too many, not valid: an error at once                  │ cancelled, run closed, page gone: given up
//
// Invariant: the cost of a page is bounded by its requests under way, its open runs, and its outlet, whatever it sends and however little it reads. A
// request is cancelled only between turns, so a view is never disposed while it works.

import {
  decodeMessage,
  encodeTiles,
  type Tile,
  type TileKey,
  tileBytes,
  type ViewErrorCode,
  type ViewMessage,
  type ViewRequest,
  viewRequestSchema,
} from '@ranktrace/protocol';
import type { ViewProgress } from '@ranktrace/trace/timeline';
import type { RawData, WebSocket } from 'ws';
import { closeReason } from '../model/close-reason.ts';
import { messageOf } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { answerQuestion, checkTracks } from './answer-question.ts';
import { diffRuns } from './diff-runs.ts';
import { FollowedRuns } from './followed-runs.ts';
import { PageOutlet } from './page-outlet.ts';
import type { RunView, ViewRuns } from './run-view.ts';
import { StateFeed } from './state-feed.ts';
import type { Turns } from './turns.ts';
import { ViewError } from './view-error.ts';

export interface ViewSocketOptions {
  readonly socket: WebSocket;
  readonly runs: ViewRuns;
  readonly turns: Turns;
  /** Receives one line about each request that failed. */
  readonly onNotice: (notice: string) => void;
}

/** A request that takes one turn, or several. */
type TakenRequest = Exclude<ViewRequest, { type: 'cancel' | 'close' }>;

interface Underway {
  readonly id: number;
  /** The runs of the request. */
  readonly runs: readonly string[];
  isGivenUp: boolean;
}

export class ViewSocket {
  readonly #options: ViewSocketOptions;
  readonly #outlet: PageOutlet;
  readonly #underway = new Map<number, Underway>();
  readonly #runs: FollowedRuns;
  #list: StateFeed | undefined;
  #heardAt = performance.now();

  constructor(options: ViewSocketOptions) {
    this.#options = options;
    const { socket, runs, onNotice } = options;
    this.#outlet = new PageOutlet(socket);
    this.#runs = new FollowedRuns({
      runs,
      feed: (make, listen) => this.#feed(make, listen),
      onClose: (run) => this.#giveUp((underway) => underway.runs.includes(run)),
    });
    const guarded = guardedBy(onNotice);
    const onMessage = (data: RawData, isBinary: boolean): void => this.#receive(data, isBinary);
    socket.on('message', guarded('the message of a page', onMessage));
    const onPing = (data: Buffer): void => {
      if (socket.bufferedAmount < limits.viewSendBufferBytesMax) socket.pong(data);
    };
    socket.on('ping', guarded('the ping of a page', onPing));
    const onPong = (): void => {
      this.#heardAt = performance.now();
    };
    socket.on('pong', guarded('the pong of a page', onPong));
    const onError = (error: Error): void => onNotice(`A page was closed: ${error.message}`);
    socket.on('error', guarded('the error of a page', onError));
    const onClose = (): void => this.#end();
    socket.on('close', guarded('the end of a page', onClose));
  }

  /** Time of the last sign that the page reads, `performance.now()`. */
  get readAt(): number {
    return Math.max(this.#heardAt, this.#outlet.tookAt);
  }

  #receive(data: RawData, isBinary: boolean): void {
    const { socket } = this.#options;
    if (socket.readyState !== socket.OPEN) return;
    // A page's request is no sign that it reads the messages that wait for it.
    if (this.#outlet.buffered === 0) this.#heardAt = performance.now();
    if (isBinary) {
      socket.close(1003, 'only text');
      return;
    }
    const request = this.#decode(String(data));
    if (request === undefined) return;
    const { id } = request;
    if (request.type === 'cancel') this.#giveUp((underway) => underway.id === request.request);
    else if (this.#underway.has(id)) this.#refuse(id, 'bad_request', `Cannot take request ${id}: another with this number is under way`);
    else if (request.type === 'close') {
      this.#runs.close(request.run);
      this.#report({ id, type: 'answer', answer: {} });
    } else if (this.#underway.size < limits.viewRequestsPerPageMax) void this.#take(request);
    else this.#refuse(id, 'too_many', `Cannot take request ${id}: ${limits.viewRequestsPerPageMax} are under way`);
  }

  /** A valid request; undefined for anything else, which gets an error as its answer. */
  #decode(text: string): ViewRequest | undefined {
    try {
      return decodeMessage(viewRequestSchema, text);
    } catch (error) {
      const id = idIn(text);
      if (id === undefined) this.#options.socket.close(1008, closeReason(messageOf(error)));
      else this.#refuse(id, 'bad_request', messageOf(error));
      return undefined;
    }
  }

  async #take(request: TakenRequest): Promise<void> {
    const { id, type } = request;
    const runs = 'run' in request ? [request.run, ...('other' in request ? [request.other] : [])] : [];
    const underway: Underway = { id, runs, isGivenUp: false };
    this.#underway.set(id, underway);
    try {
      const answer = (await this.#answer(request, underway)) ?? null;
      this.#report({ id, type: 'answer', answer });
    } catch (error) {
      if (error instanceof ViewError) this.#refuse(id, error.code, error.message);
      else {
        const message = `Cannot answer "${type}"${runs.length === 0 ? '' : ` about run "${runs.join('", "')}"`}: ${messageOf(error)}`;
        this.#options.onNotice(message);
        this.#refuse(id, 'failed', message);
      }
    }
    this.#underway.delete(id);
  }

  async #answer(request: TakenRequest, underway: Underway): Promise<unknown> {
    switch (request.type) {
      case 'runs':
        return await this.#openList(underway);
      case 'open':
        return await this.#runs.open(request.run, () => this.#turn(underway));
      case 'tiles':
        return await this.#tiles(await this.#runs.view(request.run), request.tiles, underway);
      case 'diff': {
        const [a, b] = await Promise.all([this.#runs.view(request.run), this.#runs.view(request.other)]);
        return await this.#inTurns(diffRuns(a, b, request), underway);
      }
      default:
        return await this.#inTurns(answerQuestion(await this.#runs.view(request.run), request), underway);
    }
  }

  async #openList(underway: Underway): Promise<unknown> {
    await this.#turn(underway);
    const { runs } = this.#options;
    const list = runs.list();
    if (this.#list === undefined) {
      let reported = JSON.stringify(list);
      const make = (): ViewMessage | undefined => {
        const runs = this.#options.runs.list();
        const text = JSON.stringify(runs);
        if (text === reported) return undefined;
        reported = text;
        return { type: 'runs', runs };
      };
      this.#list = this.#feed(make, (listener) => runs.onChange(listener));
    }
    return list;
  }

  #feed(make: () => ViewMessage | undefined, listen: (changed: () => void) => () => void): StateFeed {
    const { socket, onNotice } = this.#options;
    const onError = (error: unknown): void => {
      onNotice(`A page was closed: its updates cannot be sent: ${messageOf(error)}`);
      socket.close(1011, 'the updates of this page cannot be sent');
    };
    return new StateFeed({ outlet: this.#outlet, turn: () => this.#turn(), make, listen, onError });
  }

  async #tiles(view: RunView, keys: readonly TileKey[], underway: Underway): Promise<unknown> {
    checkTracks(
      view.timeline,
      keys.map(({ track }) => track),
    );
    let next = 0;
    while (next < keys.length) {
      await this.#turn(underway);
      const until = performance.now() + limits.viewSliceMs;
      const tiles: Tile[] = [];
      let bytes = 0;
      while (next < keys.length && performance.now() < until) {
        const tile = view.timeline.tile(keys[next] as TileKey);
        next++;
        if (tile === undefined) continue;
        if (tiles.length > 0 && bytes + tileBytes(tile) > limits.viewFrameBytesMax) this.#sendTiles(underway, tiles.splice(0));
        bytes = tiles.length === 0 ? tileBytes(tile) : bytes + tileBytes(tile);
        tiles.push(tile);
      }
      this.#sendTiles(underway, tiles);
    }
    return {};
  }

  #sendTiles({ id }: Underway, tiles: readonly Tile[]): void {
    if (tiles.length > 0) void this.#outlet.send(encodeTiles(id, tiles));
  }

  /** Runs `steps` in turns of this page, and reports their progress. */
  async #inTurns(steps: Generator<ViewProgress, unknown>, underway: Underway): Promise<unknown> {
    let reportedAt = performance.now();
    try {
      for (;;) {
        await this.#turn(underway);
        const until = performance.now() + limits.viewSliceMs;
        let step = steps.next();
        while (step.done !== true && performance.now() < until) step = steps.next();
        if (step.done === true) return step.value;
        if (performance.now() - reportedAt < limits.viewProgressIntervalMs) continue;
        reportedAt = performance.now();
        this.#report({ id: underway.id, type: 'progress', done: step.value.done, total: step.value.total });
      }
    } finally {
      steps.return(undefined);
    }
  }

  /** Begins a turn of this page: the code up to the next `await` has the thread. Throws ViewError `cancelled` when `underway` is cancelled. */
  async #turn(underway?: Underway): Promise<void> {
    do {
      await this.#outlet.drained();
      await this.#options.turns.turn(this);
      if (underway?.isGivenUp === true) throw new ViewError('cancelled', `Request ${underway.id} was given up`);
    } while (this.#outlet.isFull);
  }

  #giveUp(which: (underway: Underway) => boolean): void {
    for (const underway of this.#underway.values()) if (which(underway)) underway.isGivenUp = true;
  }

  #refuse(id: number, code: ViewErrorCode, message: string): void {
    this.#report({ id, type: 'error', code, message });
  }

  /** Sends a message; stops reading from a page that does not read its answers, until it does. */
  #report(message: ViewMessage): void {
    const { socket } = this.#options;
    void this.#outlet.send(JSON.stringify(message));
    if (socket.isPaused || this.#outlet.buffered < 2 * limits.viewSendBufferBytesMax) return;
    socket.pause();
    void this.#outlet.drained().then(() => socket.resume());
  }

  #end(): void {
    this.#outlet.end();
    this.#giveUp(() => true);
    this.#list?.[Symbol.dispose]();
    this.#runs.end();
  }
}

/** The number of an invalid request, so that its answer finds the requester. */
function idIn(text: string): number | undefined {
  try {
    const { id } = JSON.parse(text) as { id?: unknown };
    return typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < 2 ** 32 ? id : undefined;
  } catch {
    return undefined;
  }
}

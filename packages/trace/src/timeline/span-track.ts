// A line of spans and instants: events in blocks, levels of detail above them, and open spans.
//
//   event ─► nesting (depth) ─► span log ──full block──► levels
//                 open ──────► open spans ──close──────► row patched, levels
//
// Levels get an event once its block is finished; the unfinished block is read row by row, and open events are shown from the list of open
// spans alone.
//
// Frames of Python have lines of their own (`frameLine` and below), so that a page can leave them out; they are around the ops all the same
// (enclosing.ts).

import { frameLine, pairOf, type SpanTile, type TileKey, tileWidth } from '@ranktrace/protocol';
import { hasArguments, visitArguments } from '../model/event-arguments.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import type { IndexParts } from './index-parts.ts';
import { levelFor } from './level-grains.ts';
import { Nesting } from './nesting.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import { SpanLevels, spanItem } from './span-levels.ts';
import { asyncBit, farSideBit, instantKind, kindIndex, kindMask, pairBit, SpanLog } from './span-log.ts';
import { type OpenItem, spanTile } from './span-tile.ts';
import { timelineLimits } from './timeline-limits.ts';
import { TrackTimeline } from './track-timeline.ts';

interface OpenSpanItem extends OpenItem {
  /** Its line in the nesting, which may be deeper than shown; −1 if it was not remembered. */
  readonly line: number;
  readonly isFrame: boolean;
}

/** Finished blocks searched for the depth of a late event. */
const lateBlocks = 8;
/** Margin around a window on the own clock, ns: the inverse of a clock is exact up to rounding. */
const slackNs = 4;

/** Category of torch.profiler's frames of Python. */
const frameCategory = 'python_function';

const flow64 = new BigUint64Array(1);
const flow32 = new Uint32Array(flow64.buffer);

export class SpanTrack extends TrackTimeline {
  log: SpanLog;
  #levels: SpanLevels;
  #nesting = new Nesting();
  #frameNesting = new Nesting();
  #open: OpenSpanItem[] = [];
  #depth = 1;
  #frameDepth = 0;
  /** Start of the last event, and of the last frame, that came in order. */
  #last = Number.NEGATIVE_INFINITY;
  #lastFrame = Number.NEGATIVE_INFINITY;
  /** Latest end that is known. */
  #end = Number.NEGATIVE_INFINITY;

  constructor(id: number, process: ProcessTimeline, lane: TraceLane, parts: IndexParts) {
    super(id, process, lane, parts);
    this.log = new SpanLog(parts.cache);
    this.#levels = new SpanLevels(parts.cache);
  }

  override get events(): number {
    return this.log.length;
  }

  override get depth(): number {
    return this.#depth;
  }

  override get frameDepth(): number {
    return this.#frameDepth;
  }

  override get range(): readonly [number, number] {
    return [0, 0];
  }

  /** Open events, in order of start. */
  get open(): readonly OpenItem[] {
    return this.#open;
  }

  override add(event: TraceEvent): void {
    const start: number = event.start;
    const given: number = event.length;
    const size = given > 0 && given < Number.MAX_VALUE ? given : 0;
    if (event.state === 'close' && this.#close(event, size)) return;
    const { names } = this.parts;
    const isInstant = event.kind === 'instant';
    const isOpen = event.state === 'open' && this.#open.length < timelineLimits.timelineOpenSpansMax;
    const name = event.kind === 'step' ? names.ofStep(event.name, event.step) : names.indexOf(event.name);
    const isAltered = names.isAltered;
    names.count(name, 1, isOpen ? 0 : size);
    if (event.kind === 'collective') this.#noteAlias(name, event);
    const end = isOpen ? Number.POSITIVE_INFINITY : start + size;
    const isFrame = event.category === frameCategory;
    const nesting = isFrame ? this.#frameNesting : this.#nesting;
    const last = isFrame ? this.#lastFrame : this.#last;
    const line = start < last ? this.#lateLine(start, end, isFrame) : nesting.at(start);
    if (start > last) {
      if (isFrame) this.#lastFrame = start;
      else this.#last = start;
    }
    const isRemembered = !isInstant && end > Math.max(last, start) && nesting.push(line, end);
    const ownDepth = Math.min(line, timelineLimits.timelineDepthMax);
    if (isFrame) this.#frameDepth = Math.max(this.#frameDepth, ownDepth + 1);
    else if (ownDepth >= this.#depth) this.#depth = ownDepth + 1;
    const depth = isFrame ? frameLine + ownDepth : ownDepth;
    const { log } = this;
    const row = log.next();
    const { columns } = log;
    const kind = this.#kindOf(event);
    columns.start[row] = start;
    columns.length[row] = isOpen ? Number.NaN : size;
    columns.name[row] = name;
    columns.category[row] = this.parts.categories.indexOf(event.category);
    columns.depth[row] = depth;
    columns.kind[row] = kind;
    columns.detail[row] = isAltered || hasArguments(event) ? this.#report(event, isAltered) : 0;
    this.#setFlow(row, event.flow);
    this.#setLaunch(row, event);
    log.cover(start, isOpen ? start : end);
    if (!isOpen && end > this.#end) this.#end = end;
    if (isOpen) {
      log.openRows++;
      const number = log.length;
      this.#open.push({ start, name, event: number, depth, kind: kind & kindMask, line: isRemembered ? line : -1, isFrame });
    }
    if (++log.rows >= this.parts.blockRows) this.#finishBlock();
  }

  override tile(key: TileKey): SpanTile {
    const { process } = this;
    const { clock } = process;
    const from = key.index * tileWidth(key.level);
    const until = from + tileWidth(key.level);
    const items = this.parts.items;
    items.begin(clock.toOwn(from) - slackNs, clock.toOwn(until) + slackNs);
    this.#collect(clock.toOwn(from) - slackNs, clock.toOwn(until) + slackNs, 2 ** key.level);
    return spanTile(key, items, clock, process.version, this.#isCompleteUntil(until), this.#open, process.now);
  }

  override clear(): void {
    const { log } = this;
    for (let block = 0; block < log.blocks; block++) {
      const { name, length } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) this.parts.names.count(name[row] as number, -1, -((length[row] as number) || 0));
    }
    this.log = new SpanLog(this.parts.cache);
    this.#levels = new SpanLevels(this.parts.cache);
    this.#nesting = new Nesting();
    this.#frameNesting = new Nesting();
    this.#open = [];
    this.#last = this.#lastFrame = this.#end = Number.NEGATIVE_INFINITY;
  }

  /** Puts the events that overlap a window into `items`, merged to at most `grain`. */
  #collect(from: number, until: number, grain: number): void {
    const { items } = this.parts;
    const level = this.#levels.coarsestWithin(grain);
    if (level !== undefined) {
      const log = this.#levels.log(level);
      for (let block = 0; log !== undefined && block < log.blocks; block++) {
        if (log.from(block) < until && log.until(block) >= from) items.addItems(log.read(block), log.rowsOf(block));
      }
      this.#levels.visitHeld(level, items.take);
    }
    const { log } = this;
    for (let block = 0; block < log.blocks; block++) {
      if (log.from(block) >= until || log.until(block) < from) continue;
      if (level === undefined || log.entryOf(block) > level) items.addSpans(log.read(block), log.rowsOf(block), log.first(block));
    }
  }

  /** Steps come at their end: the next one begins where the last one ended. */
  #isCompleteUntil(time: number): boolean {
    const { process } = this;
    if (this.lane.kind !== 'steps' || process.isOver) return process.isCompleteUntil(time);
    return process.isCompleteUntil(time) && process.clock.toTrace(this.#end) >= time;
  }

  #kindOf(event: TraceEvent): number {
    let kind = kindIndex[event.kind];
    if (event.isAsync) kind |= asyncBit;
    if (event.kind === 'rpc' && event.side === 'server') kind |= farSideBit;
    if (event.kind === 'collective' && event.peerRank >= 0) {
      const { rank } = this.process.process;
      kind |= pairBit | (pairOf(rank, event.peerRank, event.name)?.[1] === rank ? farSideBit : 0);
    }
    return kind;
  }

  #report(event: TraceEvent, isAltered: boolean): number {
    const { details } = this.parts;
    details.begin();
    if (isAltered) details.text('name', event.name);
    visitArguments(event, details);
    return details.end();
  }

  #setFlow(row: number, flow: bigint | undefined): void {
    const { columns } = this.log;
    if (flow === undefined) {
      columns.flowHigh[row] = columns.flowLow[row] = 0;
      return;
    }
    flow64[0] = flow;
    columns.flowLow[row] = flow32[0] as number;
    columns.flowHigh[row] = flow32[1] as number;
    this.log.flowRows++;
  }

  /** A collective is shown by its op; its file calls it by its kernel. */
  #noteAlias(name: number, event: TraceEvent): void {
    const given = event.arguments?.get('event');
    if (typeof given === 'string' && given !== event.name) this.parts.names.alias(name, given);
  }

  #setLaunch(row: number, event: TraceEvent): void {
    const given = event.arguments?.get('correlation');
    const launch = typeof given === 'number' && given > 0 && given < 2 ** 32 && Number.isInteger(given) ? given : 0;
    this.log.columns.launch[row] = launch;
    if (launch > 0) this.log.sawLaunch(launch);
  }

  /** A line free of remembered overlaps, for an event that comes after later ones. */
  #lateLine(start: number, end: number, isFrame: boolean): number {
    const { log } = this;
    const base = isFrame ? frameLine : 0;
    const [last, nesting] = isFrame ? [this.#lastFrame, this.#frameNesting] : [this.#last, this.#nesting];
    let line = end > last ? nesting.at(last) : 0;
    for (let block = log.blocks - 1; block >= 0 && block >= log.finished - lateBlocks; block--) {
      if (log.from(block) >= end) continue;
      const { start: starts, length, depth, kind } = log.read(block);
      for (let row = log.rowsOf(block) - 1; row >= 0; row--) {
        const own = (depth[row] as number) - base;
        if (own < line || own >= frameLine || (starts[row] as number) >= end || ((kind[row] as number) & kindMask) === instantKind)
          continue;
        if (!((starts[row] as number) + (length[row] as number) <= start)) line = own + 1;
      }
    }
    return line;
  }

  /** Feeds the unfinished block to the levels, and writes it. */
  #finishBlock(): void {
    const { log } = this;
    const level = levelFor((log.greatest - log.least) / log.rows);
    const finest = this.#levels.level(level);
    this.#levels.blockRows = Math.max(16, this.parts.blockRows >> 3);
    const { start, length, name, depth, kind } = log.columns;
    const first = log.first(log.finished);
    const item = spanItem();
    for (let row = 0; row < log.rows; row++) {
      const size = length[row] as number;
      if (Number.isNaN(size)) continue;
      const from = start[row] as number;
      item.start = from;
      item.end = from + size;
      item.busy = item.longest = size;
      item.count = 1;
      item.name = name[row] as number;
      item.event = first + row;
      item.depth = depth[row] as number;
      item.kind = (kind[row] as number) & kindMask;
      finest.add(item);
    }
    log.finishInto(level);
  }

  /** Sets the end of an open span; returns false if there is none that matches. */
  #close(event: TraceEvent, size: number): boolean {
    const kind = kindIndex[event.kind];
    const name = this.parts.names.indexOf(event.name);
    const isAltered = this.parts.names.isAltered;
    const isStart = (open: OpenSpanItem): boolean => open.start === event.start && open.kind === kind;
    let at = this.#open.findLastIndex((open) => isStart(open) && open.name === name);
    if (at < 0) at = this.#open.findLastIndex(isStart);
    const open = this.#open[at];
    if (open === undefined) return false;
    this.#open.splice(at, 1);
    this.parts.names.count(open.name, 0, size);
    const end = open.start + size;
    if (open.line >= 0) (open.isFrame ? this.#frameNesting : this.#nesting).setEnd(open.line, end);
    const { log } = this;
    const block = log.blockOf(open.event);
    const row = open.event - log.first(block);
    const known = log.read(block).detail[row] as number;
    log.patch(block, row, 'length', size);
    // The end may carry more: a call's result, and further arguments.
    if (event.kind === 'rpc' || (event.arguments?.size ?? 0) > 0)
      log.patch(block, row, 'detail', this.#reportMore(event, isAltered, known));
    log.extend(block, end);
    if (block < log.finished) {
      this.#levels.level(log.entryOf(block)).add({ ...open, end, busy: size, longest: size, count: 1 });
    } else log.openRows--;
    return true;
  }

  /** Writes details from a span's end, beside those of its begin. */
  #reportMore(event: TraceEvent, isAltered: boolean, known: number): number {
    const reported = this.#report(event, isAltered);
    if (known === 0) return reported;
    const { details } = this.parts;
    const merged = new Map([...details.details(known), ...details.details(reported)]);
    details.begin();
    for (const [key, value] of merged) {
      if (typeof value === 'number') details.number(key, value);
      else details.text(key, value);
    }
    return details.end();
  }
}

// Recently shown tiles, and requests for the next ones. A frame names the slots that it draws; the cache draws available tiles at once, coarser or
// finer ones while the right ones are on their way, so that the picture never flashes.
//
//   begin() ── parts(slot) …, want(slot) … ── end() ──► requests, nearest first ──► tiles ──► onChange ──► the next frame
//
//   slot missing:  the children, when both are there   ┐  drawn clipped to
//                  else the nearest coarser tile       ┘  the slot
//
// Invariant: at most `bytesMax` of tiles are kept beyond those of the last frame, none undrawn for longer than `keptMs`; a slot has at most one request at a time; after an answer that is
// not newer than the known tile, the next request waits until the run has grown.

import type { Tile, TileKey } from '@ranktrace/protocol';
import { copyTile, tileBytes, tileWidth } from '@ranktrace/protocol';

/** The origin of tiles: RunClient. */
export interface TileSource {
  tiles(tiles: readonly TileKey[], onTiles: (tiles: readonly Tile[]) => void, abort?: AbortSignal): Promise<void>;
}

/** Current state of a track: tiles of another version are void, incomplete ones are requested again when `stamp` has changed. */
export interface TrackState {
  readonly track: number;
  readonly version: number;
  readonly stamp: number;
}

export interface Entry {
  tile: Tile | undefined;
  /** Cache of a painter beside the tile (span-line.ts `linesOf`). */
  lines: Uint32Array | undefined;
  bytes: number;
  usedAt: number;
  wantedAt: number;
  batch: Batch | undefined;
  /** Version of the track at the last request. */
  askedVersion: number;
  askedStamp: number;
}

/** A tile, and the times between which it is drawn. */
export interface Part {
  readonly entry: Entry;
  readonly from: number;
  readonly until: number;
}

interface Batch {
  readonly abort: AbortController;
  readonly entries: Set<Entry>;
}

interface Wanted {
  readonly key: TileKey;
  readonly entry: Entry;
  readonly state: TrackState;
  readonly urgency: number;
}

export const tileCacheLimits = {
  /** A laptop's page should stay below 200 MB; half of it for tiles. */
  bytesMax: 96 * 2 ** 20,
  /** Small enough that the first tiles come at once, large enough that a screen is a few requests. */
  batchTilesMax: 96,
  /** The service takes 32 per page; other requests run at the same time. */
  batchesMax: 4,
  /** Slots of one frame: enough for a wall of displays; more is a bug. */
  wantedMax: 8192,
  retryMs: 1000,
  /** A tile that was not drawn for so long is dropped: a page that follows a live run for days must not fill up with its past. */
  keptMs: 120_000,
  /** Between two looks for such tiles. */
  lookMs: 10_000,
} as const;

/** Approximate memory of an entry without a tile. */
const entryBytes = 256;
/** Memory of a tile beside its values: eight arrays, each with a buffer (measured in V8: 2.2 KB). */
const tileObjectBytes = 2048;
const coarserMax = 24;
const finerMax = 2;

export interface TileCacheOptions {
  readonly bytesMax?: number;
  /** ms of any steady clock. */
  readonly now?: () => number;
}

export class TileCache {
  readonly #source: TileSource;
  readonly #onChange: () => void;
  readonly #bytesMax: number;
  readonly #now: () => number;
  readonly #tracks = new Map<number, Map<number, Entry>>();
  #wanted: Wanted[] = [];
  #batches = new Set<Batch>();
  #bytes = 0;
  #frame = 0;
  /** Some earlier frames and their times, ms, oldest first. */
  #frames: { readonly frame: number; readonly at: number }[] = [];
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(
    source: TileSource,
    onChange: () => void,
    { bytesMax = tileCacheLimits.bytesMax, now = () => performance.now() }: TileCacheOptions = {},
  ) {
    this.#source = source;
    this.#onChange = onChange;
    this.#bytesMax = bytesMax;
    this.#now = now;
  }

  /** Bytes of the tiles that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether any wanted tile is still on its way. */
  get isLoading(): boolean {
    return this.#batches.size > 0;
  }

  begin(): void {
    this.#frame++;
    this.#wanted = [];
  }

  /** Adds the available tiles for a slot to `into`, and notes that it is wanted; lower `urgency` is requested first. */
  parts(state: TrackState, level: number, index: number, urgency: number, into: Part[]): void {
    const entry = this.#want(state, level, index, urgency);
    if (entry.tile !== undefined) {
      into.push(partOf(entry, level, index));
      return;
    }
    const kept = this.#tracks.get(state.track) as Map<number, Entry>;
    if (this.#finer(kept, level, index, finerMax, into)) return;
    for (let up = 1; up <= coarserMax && level + up <= 52; up++) {
      const at = Math.floor(index / 2 ** up);
      const coarser = kept.get(slotKey(level + up, at));
      if (coarser?.tile === undefined) continue;
      coarser.usedAt = this.#frame;
      into.push(partOf(coarser, level, index));
      return;
    }
  }

  /** Notes that a slot will be wanted soon. */
  want(state: TrackState, level: number, index: number, urgency: number): void {
    this.#want(state, level, index, urgency);
  }

  /** Requests the missing tiles of the frame; cancels those no longer wanted. */
  end(): void {
    for (const batch of this.#batches) {
      let isWanted = false;
      for (const entry of batch.entries) if (entry.wantedAt === this.#frame) isWanted = true;
      if (isWanted) continue;
      this.#batches.delete(batch);
      released(batch);
      batch.abort.abort(new DOMException('no longer visible', 'AbortError'));
    }
    this.#ask();
    if (this.#bytes > this.#bytesMax) this.#evict(this.#bytesMax * 0.8);
    this.#dropOld(this.#now());
  }

  /** Drops everything: another run, or another epoch of it. */
  clear(): void {
    for (const batch of this.#batches) batch.abort.abort(new DOMException('void', 'AbortError'));
    this.#batches = new Set();
    this.#tracks.clear();
    this.#wanted = [];
    this.#bytes = 0;
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  #want(state: TrackState, level: number, index: number, urgency: number): Entry {
    let kept = this.#tracks.get(state.track);
    if (kept === undefined) {
      kept = new Map();
      this.#tracks.set(state.track, kept);
    }
    const slot = slotKey(level, index);
    let entry = kept.get(slot);
    if (entry === undefined) {
      entry = {
        tile: undefined,
        lines: undefined,
        bytes: entryBytes,
        usedAt: 0,
        wantedAt: 0,
        batch: undefined,
        askedVersion: -1,
        askedStamp: Number.NaN,
      };
      kept.set(slot, entry);
      this.#bytes += entryBytes;
    }
    entry.usedAt = this.#frame;
    if (entry.wantedAt === this.#frame) return entry;
    entry.wantedAt = this.#frame;
    if (entry.batch === undefined && !isFresh(entry, state) && this.#wanted.length < tileCacheLimits.wantedMax) {
      this.#wanted.push({ key: { track: state.track, level, index }, entry, state, urgency });
    }
    return entry;
  }

  #finer(kept: Map<number, Entry>, level: number, index: number, down: number, into: Part[]): boolean {
    if (down === 0 || level === 0) return false;
    const before = into.length;
    for (const child of [2 * index, 2 * index + 1]) {
      const entry = kept.get(slotKey(level - 1, child));
      if (entry?.tile !== undefined) {
        entry.usedAt = this.#frame;
        into.push(partOf(entry, level - 1, child));
      } else if (!this.#finer(kept, level - 1, child, down - 1, into)) {
        into.length = before;
        return false;
      }
    }
    return true;
  }

  #ask(): void {
    if (this.#wanted.length === 0 || this.#retry !== undefined) return;
    this.#wanted.sort((a, b) => a.urgency - b.urgency);
    while (this.#wanted.length > 0 && this.#batches.size < tileCacheLimits.batchesMax) {
      this.#send(this.#wanted.splice(0, tileCacheLimits.batchTilesMax));
    }
  }

  #send(asked: readonly Wanted[]): void {
    const batch: Batch = { abort: new AbortController(), entries: new Set() };
    const byKey = new Map<string, Entry>();
    for (const { key, entry, state } of asked) {
      entry.batch = batch;
      entry.askedVersion = state.version;
      entry.askedStamp = state.stamp;
      batch.entries.add(entry);
      byKey.set(`${key.track} ${key.level} ${key.index}`, entry);
    }
    this.#batches.add(batch);
    const onTiles = (tiles: readonly Tile[]): void => {
      if (!this.#batches.has(batch)) return;
      for (const tile of tiles) {
        const entry = byKey.get(`${tile.track} ${tile.level} ${tile.index}`);
        if (entry === undefined) continue;
        const bytes = tileBytes(tile) + tileObjectBytes + entryBytes;
        this.#bytes += bytes - entry.bytes;
        // A tile of a message keeps the whole message in memory.
        entry.tile = copyTile(tile);
        entry.lines = undefined;
        entry.bytes = bytes;
        entry.batch = undefined;
        batch.entries.delete(entry);
      }
      this.#onChange();
    };
    this.#source
      .tiles(
        asked.map(({ key }) => key),
        onTiles,
        batch.abort.signal,
      )
      .then(
        () => this.#finished(batch),
        () => this.#failed(batch),
      );
  }

  #finished(batch: Batch): void {
    if (!this.#batches.delete(batch)) return;
    // A slot without a tile in the answer has none: it is requested again when the run has grown.
    for (const entry of batch.entries) entry.batch = undefined;
    this.#onChange();
  }

  // Rejected, or the line broke: no immediate retry, as the reason may last.
  #failed(batch: Batch): void {
    if (!this.#batches.delete(batch)) return;
    released(batch);
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#onChange();
    }, tileCacheLimits.retryMs);
  }

  #dropOld(now: number): void {
    if (now - (this.#frames.at(-1)?.at ?? Number.NEGATIVE_INFINITY) < tileCacheLimits.lookMs) return;
    this.#frames.push({ frame: this.#frame, at: now });
    const young = this.#frames.findIndex(({ at }) => now - at < tileCacheLimits.keptMs);
    const last = this.#frames.splice(0, young).at(-1);
    if (last !== undefined) this.#evict(0, last.frame);
  }

  // Evicts the least recently used tiles, down to `bytesLeft`; tiles of the last frame stay, and those of frames after `upTo`.
  #evict(bytesLeft: number, upTo: number = this.#frame - 1): void {
    const entries: { readonly kept: Map<number, Entry>; readonly slot: number; readonly entry: Entry }[] = [];
    for (const kept of this.#tracks.values()) {
      for (const [slot, entry] of kept) {
        if (entry.usedAt <= upTo && entry.batch === undefined) entries.push({ kept, slot, entry });
      }
    }
    entries.sort((a, b) => a.entry.usedAt - b.entry.usedAt);
    for (const { kept, slot, entry } of entries) {
      if (this.#bytes <= bytesLeft) break;
      kept.delete(slot);
      this.#bytes -= entry.bytes;
    }
  }
}

function partOf(entry: Entry, level: number, index: number): Part {
  const width = tileWidth(level);
  return { entry, from: index * width, until: (index + 1) * width };
}

const slotKey = (level: number, index: number): number => index * 64 + level;

// The request was not sent after all.
function released({ entries }: Batch): void {
  for (const entry of entries) {
    entry.batch = undefined;
    entry.askedVersion = -1;
    entry.askedStamp = Number.NaN;
  }
}

function isFresh({ tile, askedVersion, askedStamp }: Entry, { version, stamp }: TrackState): boolean {
  const isAnswered = askedVersion === version && askedStamp === stamp;
  if (tile === undefined) return isAnswered;
  return (tile.version === version || askedVersion === version) && (tile.complete || isAnswered);
}

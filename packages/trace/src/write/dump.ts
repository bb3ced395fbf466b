// A trace as text for people, golden files and `diff`: a line per fact, fields two spaces apart.
//
//   run NAME  world size 2  unix epoch 1766000000.000000000 s
//   process 1  rank 0 · host-a  pid 4242  incarnation a-1  clock exact  {torch="2.9"}
//   lane 1  rank 0  main  thread  tid 77
//         12.345678 ms  rank 0  main  SPAN forward  1.234000 ms  [cpu]  {batch=32}  flow 0x1f
//         12.500000 ms  rank 0  main  OPEN backward
//         13.000000 ms  rank 0  main  CLOSE backward  0.500000 ms           at its end; the length implies its start
//         13.000000 ms  rank 0  main  INSTANT checkpoint
//         13.000000 ms  rank 0  memory  COUNTER memory  42 MB
//   totals  rank 0  batches 3  missing 0  late 0  ended yes  dropped events 0, …  counts span 4, …
//
// Times are ms of TraceTime with six decimals, printed from whole ns and right-aligned to 16 columns. The second life of rank 3 is
// `rank 3 restart 1`. Names that are not plain words (control characters, quotes, brackets, several spaces) are JSON strings, so a
// line is always one line. Category, arguments and flow appear only where there are some.

import { nanosPerMs, nanosPerSecond, printableJson } from '@ranktrace/protocol';
import { ByteBuffer } from '../model/byte-buffer.ts';
import { type ArgumentVisitor, hasArguments, visitArguments } from '../model/event-arguments.ts';
import type {
  ProcessPlace,
  ProcessTotals,
  TraceEvent,
  TraceHeader,
  TraceLane,
  TraceProcess,
  TraceSink,
  WriteBytes,
} from '../model/trace-sink.ts';
import { alignmentText, countRestarts } from './process-names.ts';

/** A sink that writes readable text. Chunks of about 256 KiB; the last one at `end`. */
export function dumpWriter(write: WriteBytes): TraceSink {
  return new DumpWriter(write);
}

const verbs = { whole: 'SPAN', open: 'OPEN', close: 'CLOSE' } as const;

class DumpWriter implements TraceSink {
  readonly #out: ByteBuffer;
  readonly #arguments = new TextArguments();
  /** `rank 3  main` of every lane, by index. */
  readonly #places: string[] = [];
  readonly #ranks = new Map<TraceProcess, string>();

  constructor(write: WriteBytes) {
    this.#out = new ByteBuffer(write);
  }

  begin(header: TraceHeader): void {
    const { unixEpoch } = header;
    const epoch = unixEpoch === undefined ? 'unix epoch unknown' : `unix epoch ${seconds(unixEpoch)} s`;
    this.#line(`run ${quoted(header.run)}`, `world size ${header.worldSize}`, epoch);
    for (const [process, restart] of countRestarts(header)) {
      const rank = restart > 0 ? `rank ${process.rank} restart ${restart}` : `rank ${process.rank}`;
      this.#ranks.set(process, rank);
      const { index, hostName, pid, incarnation, alignment, metadata } = process;
      const life = [`pid ${pid}`, `incarnation ${quoted(incarnation)}`, alignmentText(alignment)];
      this.#line(
        `process ${index}`,
        `${rank} · ${quoted(hostName)}`,
        ...life,
        ...braced([...metadata].map(([key, value]) => pair(key, value))),
      );
    }
  }

  lane(lane: TraceLane): void {
    const place = `${this.#ranks.get(lane.process) ?? `rank ${lane.process.rank}`}  ${quoted(lane.name)}`;
    this.#places[lane.index] = place;
    const more = [lane.kind as string];
    if (lane.tid > 0) more.push(`tid ${lane.tid}`);
    if (lane.overflow > 0) more.push(`overflow ${lane.overflow}`);
    if (lane.unit !== '') more.push(`unit ${quoted(lane.unit)}`);
    this.#line(`lane ${lane.index}`, place, ...more);
  }

  event(event: TraceEvent): void {
    const start = Math.round(event.start);
    const end = Math.round(event.start + event.length);
    const spanLike = event.kind !== 'instant' && event.kind !== 'counter';
    const time = spanLike && event.state === 'close' ? end : start;
    const verb = spanLike ? verbs[event.state] : event.kind.toUpperCase();
    const parts = [`${milliseconds(time).padStart(16)} ms`, this.#places[event.lane.index] ?? '', `${verb} ${quoted(event.name)}`];
    if (event.kind === 'counter') parts.push(`${event.value}${event.lane.unit === '' ? '' : ` ${quoted(event.lane.unit)}`}`);
    else if (spanLike && event.state !== 'open') parts.push(`${milliseconds(end - start)} ms`);
    if (event.category !== '') parts.push(`[${quoted(event.category)}]`);
    if (hasArguments(event)) {
      this.#arguments.pairs = [];
      visitArguments(event, this.#arguments);
      parts.push(...braced(this.#arguments.pairs));
    }
    if (event.flow !== undefined) parts.push(`flow 0x${event.flow.toString(16)}`);
    this.#line(...parts);
  }

  end(totals: readonly ProcessTotals[]): void {
    for (const { process, batches, missing, late, ended, place, dropped, counts } of totals) {
      const parts = [`batches ${batches}`, `missing ${missing}`, `late ${late}`, `ended ${ended ? 'yes' : 'no'}`];
      if (place !== undefined) parts.push(`in ${placeText(place)}`);
      this.#line('totals', this.#ranks.get(process) ?? '', ...parts, `dropped ${listed(dropped)}`, `counts ${listed(counts)}`);
    }
    this.#out.flush();
  }

  #line(...parts: string[]): void {
    this.#out.next();
    this.#out.utf8(`${parts.join('  ')}\n`);
  }
}

class TextArguments implements ArgumentVisitor {
  pairs: string[] = [];

  number(key: string, value: number): void {
    this.pairs.push(pair(key, value));
  }

  text(key: string, value: string): void {
    this.pairs.push(pair(key, value));
  }
}

const pair = (key: string, value: string | number): string =>
  `${quoted(key)}=${typeof value === 'number' ? String(value) : printableJson(value)}`;

const braced = (pairs: readonly string[]): string[] => (pairs.length === 0 ? [] : [`{${pairs.join(', ')}}`]);

/** `step 300, forward, all_reduce world#300`. */
function placeText({ step, phase, collective }: ProcessPlace): string {
  const parts = [`step ${step}`];
  if (phase !== undefined) parts.push(quoted(phase.name));
  if (collective !== undefined) parts.push(quoted(`${collective.op} ${collective.group}#${collective.sequence}`));
  return parts.join(', ');
}

const listed = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([key, count]) => `${key} ${count}`)
    .join(', ');

/** Text as it is where it cannot be mistaken for the layout, a JSON string otherwise. */
function quoted(text: string): string {
  return /^[^\p{C}\p{Z}"{}[\]=]+( [^\p{C}\p{Z}"{}[\]=]+)*$/u.test(text) ? text : printableJson(text);
}

function milliseconds(ns: number): string {
  const rest = Math.abs(ns);
  const whole = Math.floor(rest / nanosPerMs);
  return `${ns < 0 ? '-' : ''}${whole}.${String(rest - whole * nanosPerMs).padStart(6, '0')}`;
}

function seconds(ns: bigint): string {
  const digits = String(ns).padStart(10, '0');
  const point = digits.length - String(nanosPerSecond).length + 1;
  return `${digits.slice(0, point)}.${digits.slice(point)}`;
}

// A dump of PyTorch's Flight Recorder: the last collectives of one rank, as a pickle (TORCH_NCCL_DEBUG_INFO_TEMP_FILE) or as JSON. Versions 2.x, from torch 2.4 on.
//
// Times are of the rank's wall clock, ns since 1970. An entry is over when its state is `completed` or it is `retired`; when it ended is known only where
// the watchdog saw it. Stacks and shapes beyond the size of the payload are not read.
//
// Ops between the begin and the end of a coalesced call (batch_isend_irecv, an all_gather of uneven sizes) stay `scheduled`: torch follows the call alone,
// whose entry comes after theirs under the same number:
//
//   send 0->1          #7  scheduled ──┐
//   recv 0<-1          #7  scheduled ──┤  sends and receives name their peers: they stay, and end with the call
//   coalesced          #7  completed ──┘
//   _broadcast_oop     #3  scheduled ──┐
//   ALLGATHER_coalesced #3 completed ──┘  a number is one collective: the call, with the payload of its ops

import { decodeUtf8, withoutByteOrderMark } from '../model/decode-utf8.ts';
import { TraceError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import { ranksText } from '../model/ranks-text.ts';
import { elementBytes } from './element-bytes.ts';
import { looksLikePickle, readPickle } from './pickle.ts';

/** One collective, or one send or receive, of one rank. */
export interface DumpedCollective {
  /** `world` for the group of all ranks, else its name with its description. */
  readonly group: string;
  /** 1, 2, … of the group. */
  readonly sequence: number;
  /** `all_reduce`; `send 0->1` for one side of a send. */
  readonly op: string;
  readonly isSend: boolean;
  /** Its payload on this rank; 0 where the file does not say it. */
  readonly bytes: number;
  readonly created: bigint;
  readonly isOver: boolean;
  /** When the watchdog saw its end, at the latest moment that it can have ended; undefined: unknown. */
  readonly ended: bigint | undefined;
}

export interface FlightRecorderDump {
  readonly version: string;
  /** Ranks of the group of all, where the file lists them: the highest, and one. */
  readonly worldSize: number;
  /** Ranks of the groups other than that of all, where the file lists them. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
  /** Whether no entry was dropped for a newer one. */
  readonly isWhole: boolean;
  /** In order of creation. */
  readonly collectives: readonly DumpedCollective[];
  /** Entries that are none. */
  readonly malformed: number;
}

/** The name of a group that others of its name are told from: split_group gives one name to groups of different ranks. */
export const groupOfRanks = (group: string, ranks: readonly number[]): string => `${group} of ${ranksText(ranks)}`;

const everyone = 'world';
/** The groups of a large job come before the first entry, and are a list where torch.profiler has them. */
const ownKeys = /"(?:collective_seq_id|pg_status)"\s*:|"pg_config"\s*:\s*\{/;

/** Whether a file that begins so is a dump; `text`: the same bytes as text. */
export const looksLikeFlightRecorder = (bytes: Uint8Array, text: string): boolean =>
  looksLikePickle(bytes) || (/^\s*\{/.test(text) && ownKeys.test(text) && !text.includes('"traceEvents"'));

/** @throws TraceError where it is no dump, or too large */
export function readFlightRecorder(bytes: Uint8Array): FlightRecorderDump {
  const root = looksLikePickle(bytes) ? readPickle(bytes) : readJson(bytes);
  const entries = field(root, 'entries');
  if (!Array.isArray(entries))
    throw new TraceError('no_events', 'Cannot read the dump: it has no list of entries, as a dump of Flight Recorder has');
  if (entries.length > limits.dumpedCollectivesMax) {
    throw new TraceError('too_large', `Cannot read the dump: it has over ${limits.dumpedCollectivesMax} entries`);
  }
  const read = entries.map(collectiveOf).filter((entry) => entry !== undefined);
  const collectives = joinedCalls(read).sort((a, b) => (a.created < b.created ? -1 : a.created > b.created ? 1 : 0));
  return {
    version: textOf(field(root, 'version')) ?? '',
    worldSize: worldSizeOf(root),
    groups: groupsOf(root),
    isWhole: entries.length === 0 || field(entries[0], 'record_id') === 0,
    collectives,
    malformed: entries.length - read.length,
  };
}

function readJson(bytes: Uint8Array): unknown {
  // Times do not fit a double: as texts they keep their last digits.
  const text = withoutByteOrderMark(decodeUtf8(bytes, 0, bytes.length)).replaceAll(
    /(?<!\\)"(time_\w{1,40}_ns)"\s*:\s*(\d{16,20})\b/g,
    '"$1":"$2"',
  );
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TraceError('not_json', `Cannot read the dump: ${(cause as Error).message}`, { cause });
  }
}

/** A member of a dictionary, of either form of the file. */
function field(of: unknown, name: string): unknown {
  if (of instanceof Map) return of.get(name);
  return typeof of === 'object' && of !== null && Object.hasOwn(of, name) ? (of as Record<string, unknown>)[name] : undefined;
}

function collectiveOf(entry: unknown): DumpedCollective | undefined {
  const created = timeOf(field(entry, 'time_created_ns'));
  const profiled = textOf(field(entry, 'profiling_name'));
  const isSend = field(entry, 'is_p2p') === true;
  const sequence = countOf(field(entry, isSend ? 'p2p_seq_id' : 'collective_seq_id'));
  if (created === undefined || profiled === undefined || sequence === undefined) return undefined;
  const ended = timeOf(field(entry, 'time_discovered_completed_ns'));
  const isOver = field(entry, 'state') === 'completed' || field(entry, 'retired') === true;
  return {
    group: groupOf(field(entry, 'process_group')),
    sequence,
    op: profiled.slice(profiled.indexOf(':') + 1) || profiled,
    isSend,
    bytes: bytesOf(field(entry, 'input_sizes'), field(entry, 'input_dtypes')),
    created,
    isOver,
    ended: isOver && ended !== undefined && ended >= created ? ended : undefined,
  };
}

/**
 * `entries`, in the order of the file, with each coalesced call and its ops made one: the ops right before the call, among those of its group. Other entries
 * of its number are of another life of the group, which one process may make several times.
 */
function joinedCalls(entries: readonly DumpedCollective[]): DumpedCollective[] {
  const opsOf = new Map<DumpedCollective, DumpedCollective[]>();
  const callOf = new Map<DumpedCollective, DumpedCollective>();
  const open = new Map<string, DumpedCollective>();
  for (const entry of entries.toReversed()) {
    const group = `${entry.isSend} ${entry.group}`;
    const call = open.get(group);
    if (entry.op.endsWith('coalesced')) {
      open.set(group, entry);
      callOf.set(entry, entry);
    } else if (call?.sequence === entry.sequence && !entry.isOver) {
      const ops = opsOf.get(call) ?? [];
      opsOf.set(call, ops);
      ops.push(entry);
      callOf.set(entry, call);
    } else open.delete(group);
  }
  for (const ops of opsOf.values()) ops.reverse();
  return entries.flatMap((entry) => {
    const call = callOf.get(entry);
    if (call === undefined) return entry;
    const ops = opsOf.get(call);
    const [first] = ops ?? [];
    if (ops === undefined || first === undefined) return entry;
    if (call.isSend) return entry === call ? [] : { ...entry, isOver: call.isOver, ended: call.ended };
    if (entry !== call) return [];
    const isOneOp = call.op === 'coalesced' && ops.every(({ op }) => op === first.op);
    const bytes = ops.reduce((sum, op) => sum + op.bytes, call.bytes);
    return { ...call, op: isOneOp ? first.op : call.op, bytes: Number.isSafeInteger(bytes) ? bytes : 0, created: first.created };
  });
}

function groupOf(pair: unknown): string {
  const [name, description] = Array.isArray(pair) ? pair : [];
  if (description === 'default_pg') return everyone;
  return [textOf(name) ?? '?', ...(description === 'undefined' ? [] : [textOf(description) ?? ''])].filter((part) => part !== '').join(' ');
}

function bytesOf(sizes: unknown, types: unknown): number {
  if (!Array.isArray(sizes) || !Array.isArray(types)) return 0;
  let bytes = 0;
  for (let at = 0; at < sizes.length; at++) {
    const shape: unknown = sizes[at];
    const size = elementBytes(String(types[at]));
    // A payload that is known in part would have too small a number.
    if (!Array.isArray(shape) || size === undefined) return 0;
    bytes += shape.reduce((product: number, length) => product * (countOf(length) ?? 0), size);
  }
  return Number.isSafeInteger(bytes) ? bytes : 0;
}

/** By the ranks of the default group, as `"[0, 1, 2, 3]"`. */
const worldSizeOf = (root: unknown): number =>
  configuredGroups(root)
    .flatMap(ranksOf)
    .reduce((most, rank) => Math.max(most, rank + 1), 0);

const groupsOf = (root: unknown): ReadonlyMap<string, readonly number[]> =>
  new Map(
    configuredGroups(root)
      .map((group) => [groupOf([field(group, 'name'), field(group, 'desc')]), ranksOf(group)] as const)
      .filter(([group, ranks]) => group !== everyone && ranks.length > 0),
  );

function configuredGroups(root: unknown): readonly unknown[] {
  const config = field(root, 'pg_config');
  if (config instanceof Map) return [...config.values()];
  return typeof config === 'object' && config !== null ? Object.values(config) : [];
}

const ranksOf = (group: unknown): number[] =>
  textOf(field(group, 'ranks'))
    ?.match(/\d{1,7}/g)
    ?.map(Number) ?? [];

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const countOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** ns since 1970; undefined for none, which JSON writes as 0. */
function timeOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value > 0n && value < 2n ** 63n ? value : undefined;
  if (typeof value === 'string') return /^\d{1,19}$/.test(value) ? timeOf(BigInt(value)) : undefined;
  const count = countOf(value);
  return count === undefined || count === 0 ? undefined : BigInt(count);
}

// How far the ranks of this host came in their collectives, for the service's rule about hangs: asked for once it suspects one.
//
//   report_collectives ──► NCCL's RAS, once for all ranks of the host ──┐
//                     └──► Flight Recorder of each rank ────────────────┴──► metadata `collectivesKey` of that rank
//
// Beside rank 0 the agent asks NCCL by itself, too: where no rank reports steps, only counts that stop can raise a suspicion.
// Invariant: one request of a run is in progress at a time, and a source that fails is named once.

import { networkInterfaces } from 'node:os';
import { type CollectiveReport, collectivesKey, limits as protocolLimits } from '@ranktrace/protocol';
import { reasonOf } from '@ranktrace/sdk/shipping';
import { type FlightRecorderDump, groupOfRanks } from '@ranktrace/trace/torch';
import { nearestAmong, numbersOf } from '../ranks/process-table.ts';
import type { SeenRank } from '../ranks/rank-finder.ts';
import type { RankSession } from '../ship/rank-session.ts';
import { askRas, type LaunchCount, type RasAddress } from './nccl-ras.ts';
import { requestDump } from './requested-dump.ts';

/** A rank of this host, and where its reports go. */
export interface ReportingRank {
  readonly seen: SeenRank;
  readonly session: RankSession;
}

export interface CollectiveReportsParts {
  /** The ranks of a run that go on. */
  readonly ranksOf: (run: string) => readonly ReportingRank[];
  /** Where NCCL's RAS listens; undefined: it is not asked. */
  readonly ras: RasAddress | undefined;
  readonly notice: (line: string) => void;
  readonly signal: AbortSignal;
}

type Group = CollectiveReport['groups'][number];

export class CollectiveReports {
  readonly #parts: CollectiveReportsParts;
  readonly #busy = new Set<string>();
  readonly #said = new Set<string>();

  constructor(parts: CollectiveReportsParts) {
    this.#parts = parts;
  }

  /** A request of the service. */
  request(run: string): void {
    void this.#once(`request ${run}`, async () => {
      const ranks = this.#parts.ranksOf(run);
      await Promise.all([this.#reportCounts(ranks), ...ranks.map((rank) => this.#reportDump(rank))]);
    });
  }

  /** NCCL's counts, unasked. */
  look(run: string): void {
    void this.#once(`look ${run}`, () => this.#reportCounts(this.#parts.ranksOf(run)));
  }

  async #once(what: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#busy.has(what)) return;
    this.#busy.add(what);
    try {
      await work();
    } catch (error) {
      this.#say(reasonOf(error));
    } finally {
      this.#busy.delete(what);
    }
  }

  async #reportCounts(ranks: readonly ReportingRank[]): Promise<void> {
    const { ras, signal } = this.#parts;
    if (ras === undefined || ranks.length === 0) return;
    try {
      const counts = (await askRas(ras, signal)) ?? [];
      const here = new Set(Object.values(networkInterfaces()).flatMap((addresses) => addresses?.map(({ address }) => address) ?? []));
      const local = counts.filter(({ host }) => here.has(host));
      const processes = new Set(ranks.map(({ seen }) => seen.life.pid));
      for (const rank of ranks) send(rank, 'nccl_ras', groupsOfCounts(local, rank.seen, processes));
    } catch (error) {
      this.#say(reasonOf(error));
    }
  }

  async #reportDump(rank: ReportingRank): Promise<void> {
    const { place, uid } = rank.seen;
    if (place.dumps === undefined) return;
    try {
      const dump = await requestDump({ ...place.dumps, uid }, this.#parts.signal);
      send(rank, 'flight_recorder', groupsOfDump(dump, BigInt(Date.now()) * 1_000_000n));
    } catch (error) {
      if (!this.#parts.signal.aborted) this.#say(`rank ${place.options.rank} of run "${place.options.run}": ${reasonOf(error)}`);
    }
  }

  #say(line: string): void {
    if (this.#said.has(line) || this.#said.size >= 1024) return;
    this.#said.add(line);
    this.#parts.notice(line);
  }
}

/**
 * A rank's counts by communicator. `ranks`: the processes of all ranks here. A process has a number of its own in a container, and one that the rank started
 * has another. Where two of a communicator have the number, as processes of two containers may, nothing is known of the rank.
 */
export function groupsOfCounts(
  counts: readonly LaunchCount[],
  { life, ownPid }: Pick<SeenRank, 'life' | 'ownPid'>,
  ranks: ReadonlySet<number>,
): Group[] {
  const own = new Map([life.pid, ownPid, ...numbersOf(life.pid)].map((pid) => [pid, true]));
  const groups = new Map<string, Group | undefined>();
  for (const { communicator, pid, launched } of counts) {
    const isOwn = own.get(pid) ?? nearestAmong(ranks, pid) === life.pid;
    own.set(pid, isOwn);
    if (isOwn) groups.set(communicator, groups.has(communicator) ? undefined : { group: communicator, entered: launched });
  }
  return [...groups.values()].filter((group) => group !== undefined);
}

/** Each group's last collective, and the first one that is not over. A group is named with its ranks, for other ranks may have another one of that name. */
export function groupsOfDump({ collectives, groups: ranksOf }: FlightRecorderDump, nowNs: bigint): Group[] {
  const groups = new Map<string, Group>();
  for (const { group: name, sequence, op, created, isOver, isSend } of collectives) {
    if (isSend) continue;
    const ranks = ranksOf.get(name);
    const group = ranks === undefined ? name : groupOfRanks(name, ranks);
    const known = groups.get(group);
    const open = isOver ? undefined : { op, sequence, insideMs: Math.max(0, Number(nowNs - created) / 1e6) };
    const first = known?.open === undefined || (open !== undefined && open.sequence < known.open.sequence) ? open : known.open;
    groups.set(group, { group, entered: Math.max(known?.entered ?? 0, sequence), ...(first !== undefined && { open: first }) });
  }
  return [...groups.values()];
}

/** Sends the report, as many groups as a fact has room for: those with something open first. */
function send({ session }: ReportingRank, source: CollectiveReport['source'], groups: readonly Group[]): void {
  if (groups.length === 0) return;
  const byOpen = groups.toSorted((a, b) => Number(b.open !== undefined) - Number(a.open !== undefined));
  for (let count = Math.min(groups.length, protocolLimits.runningGroupsMax); count > 0; count--) {
    const report: CollectiveReport = { source, groups: byOpen.slice(0, count) };
    const text = JSON.stringify(report);
    if (Buffer.byteLength(text) > protocolLimits.stringBytesMax) continue;
    session.addFact(collectivesKey, text);
    session.flush();
    return;
  }
}

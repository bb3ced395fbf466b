// Hosts with events in common, looked up by event instead of by comparing every pair: 15 000 hosts would make 225 million
// comparisons.

import type { Host } from './hosts.ts';
import { stepsOf } from './message-pings.ts';

/** Kinds of the two sides of a message: one host has it under the first, another under the second. */
const pairs = [
  ['collectives', 'collectives'],
  ['clients', 'servers'],
  ['servers', 'clients'],
  ['sends', 'receives'],
  ['receives', 'sends'],
] as const;

type Kind = (typeof pairs)[number][0];

/** Hosts by the events that they share with others: collectives, calls, sends. */
export class MetHosts {
  readonly #hosts: readonly Host[];
  /** By kind and key, the hosts that have it, ascending. */
  readonly #having = new Map<Kind, Map<string, number[]>>(pairs.map(([kind]) => [kind, new Map()]));

  constructor(hosts: readonly Host[]) {
    this.#hosts = hosts;
    for (const [index, { ranks }] of hosts.entries()) {
      for (const [kind, having] of this.#having) {
        for (const { shared } of ranks) {
          for (const [key] of shared?.[kind] ?? []) {
            const held = having.get(key);
            if (held === undefined) having.set(key, [index]);
            else if (held.at(-1) !== index) held.push(index);
          }
        }
      }
    }
  }

  /** Hosts that may share something with the one at `index`, ascending; no other host does. */
  of(index: number): readonly number[] {
    const met = new Set<number>();
    const { ranks, attempt } = this.#hosts[index] as Host;
    for (const [own, theirs] of pairs) {
      const having = this.#having.get(theirs);
      for (const { shared } of ranks) {
        for (const [key] of shared?.[own] ?? []) for (const host of having?.get(key) ?? []) met.add(host);
      }
    }
    met.delete(index);
    return [...met].filter((host) => this.#hosts[host]?.attempt === attempt).sort((a, b) => a - b);
  }
}

/** By attempt and step, the first added host that has it. */
export class FirstsOfSteps {
  readonly #first = new Map<number, Map<number, number>>();

  add(index: number, host: Host): void {
    const first = this.#first.get(host.attempt) ?? new Map<number, number>();
    this.#first.set(host.attempt, first);
    for (const step of stepsOf(host).keys()) first.set(step, Math.min(first.get(step) ?? index, index));
  }

  /** The first added host that shares a step with `host`; undefined when none does. */
  of(host: Host): number | undefined {
    let first: number | undefined;
    for (const step of stepsOf(host).keys()) {
      const having = this.#first.get(host.attempt)?.get(step);
      if (having !== undefined && (first === undefined || having < first)) first = having;
    }
    return first;
  }
}

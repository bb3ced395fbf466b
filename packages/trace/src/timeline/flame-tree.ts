// The spans of an area as a call tree: each under its enclosing span, those of one name and one parent merged, over all tracks.
//
// The tree may be split below its root: a node for each rank, for each device (the hosts' threads are one), or for each device of each rank.
//
// Invariant: a node's total is its self time plus the totals of its children; time cut off by the area's edge counts with what is inside.

import type { FlameNode, FlameSplit } from '@ranktrace/protocol';
import { displayName } from '../model/shown-name.ts';
import type { TraceLane } from '../model/trace-sink.ts';
import { Enclosing } from './enclosing.ts';
import type { IndexParts } from './index-parts.ts';
import { kindIndex, kindMask } from './span-log.ts';
import { SpanTrack } from './span-track.ts';
import type { ViewProgress } from './timeline.ts';
import { timelineLimits } from './timeline-limits.ts';
import { TrackWindow } from './track-rows.ts';
import type { TrackTimeline } from './track-timeline.ts';

class Node {
  readonly name: number;
  total = 0;
  self = 0;
  count = 0;
  readonly children = new Map<number, Node>();
  /** Shown instead of a name, on nodes that split the tree. */
  readonly label: string | undefined;

  constructor(name: number, label?: string) {
    this.name = name;
    this.label = label;
  }
}

/** Steps are left out unless all tracks hold steps: they lie beside the calls, not above them. */
export function* flameTree(
  parts: IndexParts,
  tracks: readonly TrackTimeline[],
  from: number,
  until: number,
  split?: FlameSplit,
): Generator<ViewProgress, FlameNode> {
  const spans = tracks.filter((track) => track instanceof SpanTrack);
  const calls = spans.filter(({ lane }) => lane.kind !== 'steps');
  const windows = (calls.length === 0 ? spans : calls).map((track) => new TrackWindow(track, from, until));
  const total = windows.reduce((sum, window) => sum + window.rows, 0);
  const root = new Node(-1);
  const groups = new Groups(root, split);
  let [done, nodes] = [0, 0];
  for (const window of windows) {
    const { log } = window.track;
    const base = groups.of(window.track);
    const around = new Enclosing<{ node: Node; until: number }>();
    for (let block = 0; block < log.blocks; block++) {
      if (!window.holds(block)) continue;
      window.visit(block, (columns, row, _event, start, end) => {
        if (((columns.kind[row] as number) & kindMask) === kindIndex.instant) return;
        const depth = columns.depth[row] as number;
        const outer = around.around(depth, start);
        const parent = outer !== undefined && outer.until > start ? outer.node : base;
        const name = columns.name[row] as number;
        let node = parent.children.get(name);
        if (node === undefined) {
          // Too many nodes: it stays part of its parent, and its children go there, too.
          if (nodes >= timelineLimits.timelineFlameNodesMax) {
            around.put(depth, { node: parent, until: end });
            return;
          }
          nodes++;
          node = new Node(name);
          parent.children.set(name, node);
        }
        const size = outer === undefined || parent === base ? end - start : Math.min(end, outer.until) - start;
        node.count++;
        node.total += size;
        node.self += size;
        parent.self -= size;
        around.put(depth, { node, until: end });
      });
      done += log.rowsOf(block);
      yield { done, total };
    }
  }
  groups.sum();
  return reported(parts, root);
}

/** The nodes that split a tree. */
class Groups {
  readonly #root: Node;
  readonly #split: FlameSplit;
  /** By label, below their parents. Their names are numbers below that of the root. */
  readonly #nodes = new Map<string, Node>();

  constructor(root: Node, split: FlameSplit) {
    this.#root = root;
    this.#split = split;
  }

  /** The node that a track's outermost spans lie in. */
  of({ lane, process }: SpanTrack): Node {
    const rank = this.#split === 'rank' || this.#split === 'both' ? this.#below(this.#root, `rank ${process.process.rank}`) : this.#root;
    return this.#split === 'device' || this.#split === 'both' ? this.#below(rank, deviceOf(lane)) : rank;
  }

  /** Adds up the groups and the root: their spans were taken off their own time. */
  sum(): void {
    for (const node of [...this.#nodes.values()].reverse()) {
      node.total = [...node.children.values()].reduce((sum, { total }) => sum + total, 0);
      node.self = 0;
    }
    this.#root.total = [...this.#root.children.values()].reduce((sum, { total }) => sum + total, 0);
    this.#root.self = 0;
  }

  #below(parent: Node, label: string): Node {
    const key = `${parent.label ?? ''}\0${label}`;
    let node = this.#nodes.get(key);
    if (node === undefined) {
      node = new Node(-2 - this.#nodes.size, label);
      this.#nodes.set(key, node);
      parent.children.set(node.name, node);
    }
    return node;
  }
}

/** `GPU 0`, or `host`. */
const deviceOf = ({ kind, name }: TraceLane): string =>
  kind === 'thread' || kind === 'steps' ? 'host' : (/^GPU \S+/.exec(displayName(name))?.[0] ?? 'device');

function reported(parts: IndexParts, node: Node): FlameNode {
  const children = [...node.children.values()].map((child) => reported(parts, child));
  return {
    name: node.name < 0 ? (node.label ?? '') : parts.names.text(node.name),
    total: node.total,
    self: Math.max(0, node.self),
    count: node.count,
    children: children.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1)),
  };
}

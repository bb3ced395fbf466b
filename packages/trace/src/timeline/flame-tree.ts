// The spans of an area as a call tree: each under its enclosing span, those of one name and one parent merged, over all tracks.
//
// Invariant: a node's total is its self time plus the totals of its children; time cut off by the area's edge counts with what is inside.

import type { FlameNode } from '@ranktrace/protocol';
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

  constructor(name: number) {
    this.name = name;
  }
}

/** Steps are left out unless all tracks hold steps: they lie beside the calls, not above them. */
export function* flameTree(
  parts: IndexParts,
  tracks: readonly TrackTimeline[],
  from: number,
  until: number,
): Generator<ViewProgress, FlameNode> {
  const spans = tracks.filter((track) => track instanceof SpanTrack);
  const calls = spans.filter(({ lane }) => lane.kind !== 'steps');
  const windows = (calls.length === 0 ? spans : calls).map((track) => new TrackWindow(track, from, until));
  const total = windows.reduce((sum, window) => sum + window.rows, 0);
  const root = new Node(-1);
  let [done, nodes] = [0, 0];
  for (const window of windows) {
    const { log } = window.track;
    const around = new Enclosing<{ node: Node; until: number }>();
    for (let block = 0; block < log.blocks; block++) {
      if (!window.holds(block)) continue;
      window.visit(block, (columns, row, _event, start, end) => {
        if (((columns.kind[row] as number) & kindMask) === kindIndex.instant) return;
        const depth = columns.depth[row] as number;
        const outer = around.around(depth, start);
        const parent = outer !== undefined && outer.until > start ? outer.node : root;
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
        const size = outer === undefined || parent === root ? end - start : Math.min(end, outer.until) - start;
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
  root.total = 0 - root.self;
  root.self = 0;
  return reported(parts, root);
}

function reported(parts: IndexParts, node: Node): FlameNode {
  const children = [...node.children.values()].map((child) => reported(parts, child));
  return {
    name: node.name < 0 ? '' : parts.names.text(node.name),
    total: node.total,
    self: Math.max(0, node.self),
    count: node.count,
    children: children.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1)),
  };
}

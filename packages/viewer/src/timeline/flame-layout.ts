// Lays out the nodes of a flame graph (icicle: the root on top).
//
//   depth 0  │ all                                             │
//   depth 1  │ forward         │ backward                 │ ·  │     children side by side, the largest first; what of the
//   depth 2  │ linear  │ gelu  │ linear        │ ·             │     parent they do not cover stays free at its right
//
// Zoomed to a node, that node and its ancestors take the whole width, and only its descendants are shown below.
//
// Invariant: children never reach beyond their parent, though rounding (or a hostile trace) may make them larger than it in sum.
// Invariant: at most `framesMax` nodes are drawn, the widest; depth is not bounded by the stack of calls.

import type { FlameNode } from '@ranktrace/protocol';
import { formatDuration, formatMany, formatPercent } from '../controls/format.ts';

/** The tree in an array, parents before children. A node's place in it is its number. */
export interface FlameTree {
  readonly nodes: readonly FlameNode[];
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  /** Left edge and width as parts of the root's. */
  readonly left: Float64Array;
  readonly width: Float64Array;
  /** First child in order of size, and the next child of the same parent; −1 where there is none. */
  readonly firstChild: Int32Array;
  readonly nextSibling: Int32Array;
}

/** A node as it is drawn: `left` and `width` as parts of the whole width. */
export interface FlameFrame {
  readonly node: number;
  readonly depth: number;
  readonly left: number;
  readonly width: number;
}

/** Nodes drawn at once. */
const framesMax = 3000;

export function flameTree(root: FlameNode): FlameTree {
  const nodes: FlameNode[] = [root];
  const parents: number[] = [-1];
  // Grows during the walk: children are appended, largest first.
  const firsts: number[] = [];
  const nexts: number[] = [-1];
  for (let at = 0; at < nodes.length; at++) {
    const children = [...(nodes[at] as FlameNode).children].filter(({ total }) => total > 0).sort((a, b) => b.total - a.total);
    firsts.push(children.length === 0 ? -1 : nodes.length);
    children.forEach((child, index) => {
      nodes.push(child);
      parents.push(at);
      nexts.push(index + 1 < children.length ? nodes.length : -1);
    });
  }
  const [depth, left, width] = [new Int32Array(nodes.length), new Float64Array(nodes.length), new Float64Array(nodes.length)];
  width[0] = 1;
  for (let at = 0; at < nodes.length; at++) {
    let sum = 0;
    for (let child = firsts[at] as number; child !== -1; child = nexts[child] as number) sum += (nodes[child] as FlameNode).total;
    const scale = (width[at] as number) / Math.max((nodes[at] as FlameNode).total, sum, Number.MIN_VALUE);
    let x = left[at] as number;
    for (let child = firsts[at] as number; child !== -1; child = nexts[child] as number) {
      depth[child] = (depth[at] as number) + 1;
      left[child] = x;
      width[child] = (nodes[child] as FlameNode).total * scale;
      x += width[child] as number;
    }
  }
  return {
    nodes,
    parent: Int32Array.from(parents),
    depth,
    left,
    width,
    firstChild: Int32Array.from(firsts),
    nextSibling: Int32Array.from(nexts),
  };
}

/** The frames at a zoom to `zoom`, in order of depth; none narrower than `leastWidth` (a part of the whole width). */
export function flameFrames(tree: FlameTree, zoom: number, leastWidth: number): readonly FlameFrame[] {
  const frames: FlameFrame[] = ancestorsOf(tree, zoom).map((node) => ({ node, depth: tree.depth[node] as number, left: 0, width: 1 }));
  const [zoomLeft, zoomWidth] = [tree.left[zoom] ?? 0, Math.max(tree.width[zoom] ?? 1, Number.MIN_VALUE)];
  // By depth, so that frames left out of too many are deep.
  let row = [zoom];
  while (row.length > 0 && frames.length < framesMax) {
    const next: number[] = [];
    for (const node of row) {
      const width = Math.min(1, (tree.width[node] as number) / zoomWidth);
      if (width < leastWidth || frames.length >= framesMax) continue;
      frames.push({ node, depth: tree.depth[node] as number, left: ((tree.left[node] as number) - zoomLeft) / zoomWidth, width });
      for (let child = tree.firstChild[node] as number; child !== -1; child = tree.nextSibling[child] as number) next.push(child);
    }
    row = next;
  }
  return frames;
}

/** The ancestors of a node, the root first, without itself. */
export function ancestorsOf(tree: FlameTree, node: number): readonly number[] {
  const path: number[] = [];
  for (let at = tree.parent[node] ?? -1; at !== -1; at = tree.parent[at] as number) path.push(at);
  return path.reverse();
}

/** Nodes whose name contains `text`, case-insensitive, and the share of the root within them (nothing counted twice). */
export function flameMatches(tree: FlameTree, text: string): { readonly nodes: ReadonlySet<number>; readonly part: number } {
  const nodes = new Set<number>();
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return { nodes, part: 0 };
  const inside = new Uint8Array(tree.nodes.length);
  let part = 0;
  tree.nodes.forEach((node, at) => {
    const parent = tree.parent[at] as number;
    const isInside = parent !== -1 && inside[parent] === 1;
    const isMatch = node.name.toLowerCase().includes(wanted);
    if (isMatch) nodes.add(at);
    if (isMatch && !isInside) part += tree.width[at] as number;
    inside[at] = Number(isMatch || isInside);
  });
  return { nodes, part };
}

/** The frame that an arrow key moves to from `node`, among the drawn ones; itself where there is none. */
export function nextFrame(
  tree: FlameTree,
  frames: readonly FlameFrame[],
  node: number,
  direction: 'up' | 'down' | 'left' | 'right',
): number {
  const at = frames.find((frame) => frame.node === node);
  if (at === undefined) return frames[0]?.node ?? 0;
  if (direction === 'up') return Math.max(tree.parent[node] as number, 0);
  if (direction === 'down') return frames.find((frame) => tree.parent[frame.node] === node)?.node ?? node;
  const row = frames.filter(({ depth }) => depth === at.depth).sort((a, b) => a.left - b.left);
  return row[row.indexOf(at) + (direction === 'left' ? -1 : 1)]?.node ?? node;
}

/** A node aloud: `forward: 1.2 ms, 40 %, self 300 µs, 12 times`; the root and the nodes of a split have no times. */
export function nodeText(tree: FlameTree, at: number): string {
  const node = tree.nodes[at];
  if (node === undefined) return '';
  const times = node.count > 0 ? `, ${formatMany(node.count, 'time')}` : '';
  const share = formatPercent(tree.width[at] ?? 0);
  return `${at === 0 ? 'all' : node.name}: ${formatDuration(node.total)}, ${share}, self ${formatDuration(node.self)}${times}`;
}

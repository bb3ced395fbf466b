// Clock skew of one distributed trace, corrected as Jaeger does it (cmd/jaeger …/adjuster/clockskew.go): compatible to the letter, for
// traces that come without any clock evidence, and for comparison. Not part of the one time axis of a run.
//
//   parent   ├──────────────────────────────┤          the child of another host is put into the middle of its parent:
//   child             ├──────────┤                     the way there is taken to be as long as the way back
//
// It knows nothing but one trace: a child that is longer than its parent, async ones among them, is only moved to its parent's start, and
// another trace of the same two hosts gets another answer. Raw times are kept beside the new ones.

/** One span; times in ns on its own host's clock, relative to any one epoch. */
export interface SkewSpan {
  readonly id: string;
  /** '' for a root. */
  readonly parentId: string;
  readonly start: number;
  readonly length: number;
  /** Which clock; '' for unknown, which is taken to be another's than its parent's. */
  readonly host: string;
  /** Times of what is noted inside of it. */
  readonly events: readonly number[];
}

/** A span where the adjustment puts it. */
export interface AdjustedSpan {
  /** As it was given. */
  readonly raw: SkewSpan;
  readonly start: number;
  readonly events: readonly number[];
  /** Why it stays where it is, in Jaeger's words; undefined when nothing is amiss. */
  readonly warning: string | undefined;
}

interface Node {
  readonly raw: SkewSpan;
  readonly children: Node[];
  start: number;
  /** Added to every time; 0 where the adjustment was too large to be applied. */
  applied: number;
  warning: string | undefined;
}

/** What a host's clock is off by, found at the span where the trace came to that host. */
interface Skew {
  readonly host: string;
  readonly delta: number;
}

/**
 * The spans of one trace, in their order, each where it belongs. Adjustments above `maxAdjustNs` are told in a warning and not applied; with
 * 0, none are. Spans that cannot be reached from a root (their parent is missing, or they are their own ancestors) stay as they are.
 *
 * @example adjustSpanSkew(spans, 1e9).map(({ start }) => start);
 */
export function adjustSpanSkew(spans: readonly SkewSpan[], maxAdjustNs: number): readonly AdjustedSpan[] {
  const nodes = spans.map((raw): Node => ({ raw, children: [], start: raw.start, applied: 0, warning: undefined }));
  for (const root of rootsOf(nodes)) {
    // Depth first, and no recursion: how deep a trace is, its writer decides.
    const stack = root.children.map((node) => ({ node, parent: root, skew: { host: root.raw.host, delta: 0 } }));
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const { node, parent } = next;
      const { host } = node.raw;
      const skew: Skew = host === '' || host !== next.skew.host ? { host, delta: skewOf(node, parent) } : next.skew;
      shift(node, skew.delta, maxAdjustNs);
      for (const child of node.children) stack.push({ node: child, parent: node, skew });
    }
  }
  return nodes.map(({ raw, start, applied, warning }) => ({ raw, start, events: raw.events.map((time) => time + applied), warning }));
}

/** Joins children to parents, gives those without one. */
function rootsOf(nodes: readonly Node[]): readonly Node[] {
  const byId = new Map<string, Node>();
  for (const node of nodes) {
    if (byId.has(node.raw.id)) node.warning = 'duplicate span IDs; skipping clock skew adjustment';
    else byId.set(node.raw.id, node);
  }
  const roots: Node[] = [];
  for (const node of byId.values()) {
    const { parentId } = node.raw;
    const parent = byId.get(parentId);
    if (parentId === '') roots.push(node);
    else if (parent !== undefined) parent.children.push(node);
    else node.warning = `parent span ID=${parentId} is not in the trace; skipping clock skew adjustment`;
  }
  return roots;
}

/** What to add to the child's times so that it lies inside of its parent, which is in its place already. */
function skewOf({ raw, start }: Node, parent: Node): number {
  const room = parent.raw.length - raw.length;
  // Longer than its parent: async, or the parent gave up waiting. All that is sure is that it did not start before it.
  if (room < 0) return Math.max(0, parent.start - start);
  const fits = start >= parent.start && start + raw.length <= parent.start + parent.raw.length;
  return fits ? 0 : parent.start + Math.trunc(room / 2) - start;
}

function shift(node: Node, delta: number, maxAdjustNs: number): void {
  if (Math.abs(delta) > maxAdjustNs) {
    const limit = `max clock skew adjustment delta of ${goDuration(maxAdjustNs)} exceeded`;
    node.warning = `${maxAdjustNs === 0 ? 'clock skew adjustment disabled' : limit}; not applying calculated delta of ${goDuration(delta)}`;
    return;
  }
  node.start += delta;
  node.applied = delta;
}

/** As Go prints a `time.Duration` of so many ns: `35ms`, `-1.5s`, `1h0m0s`. */
function goDuration(ns: number): string {
  const size = Math.abs(ns);
  const sign = ns < 0 ? '-' : '';
  if (size < 1e3) return size === 0 ? '0s' : `${sign}${size}ns`;
  if (size < 1e6) return `${sign}${size / 1e3}µs`;
  if (size < 1e9) return `${sign}${size / 1e6}ms`;
  const [hours, minutes] = [Math.floor(size / 3600e9), Math.floor(size / 60e9) % 60];
  const seconds = `${(size % 60e9) / 1e9}s`;
  return `${sign}${hours > 0 ? `${hours}h${minutes}m` : minutes > 0 ? `${minutes}m` : ''}${seconds}`;
}

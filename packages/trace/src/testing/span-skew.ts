// Clock skew of one distributed trace, corrected exactly as Jaeger does it (cmd/jaeger …/adjuster/clockskew.go): the peer that tests compare
// alignment with.
//
//   parent   ├──────────────────────────────┤          a child on another host is centred in its parent:
//   child             ├──────────┤                     both directions are taken to be equally long
//
// It knows only one trace: a child longer than its parent, async ones included, is only moved to its parent's start, and
// another trace of the same two hosts gets another answer. Raw times are kept beside the new ones.

/** One span; times in ns on its own host's clock, relative to any one epoch. */
export interface SkewSpan {
  readonly id: string;
  /** '' for a root. */
  readonly parentId: string;
  readonly start: number;
  readonly length: number;
  /** Name of its clock; '' for unknown, which is taken to differ from its parent's. */
  readonly host: string;
  /** Times of the events noted inside it. */
  readonly events: readonly number[];
}

/** A span where the adjustment puts it. */
export interface AdjustedSpan {
  /** The span as given. */
  readonly raw: SkewSpan;
  readonly start: number;
  readonly events: readonly number[];
  /** Why it was not moved, in Jaeger's words; undefined when nothing is amiss. */
  readonly warning: string | undefined;
}

interface Node {
  readonly raw: SkewSpan;
  readonly children: Node[];
  start: number;
  /** Shift added to every time; 0 where the adjustment was too large to be applied. */
  applied: number;
  warning: string | undefined;
}

/** Offset of a host's clock, found at the span where the trace entered that host. */
interface Skew {
  readonly host: string;
  readonly delta: number;
}

/**
 * The spans of one trace, in their order, each in its adjusted place. Adjustments above `maxAdjustNs` are reported as a warning and not applied;
 * with 0, none are. Spans that cannot be reached from a root (their parent is missing, or they are their own ancestors) stay as they are.
 *
 * @example adjustSpanSkew(spans, 1e9).map(({ start }) => start);
 */
export function adjustSpanSkew(spans: readonly SkewSpan[], maxAdjustNs: number): readonly AdjustedSpan[] {
  const nodes = spans.map((raw): Node => ({ raw, children: [], start: raw.start, applied: 0, warning: undefined }));
  for (const root of rootsOf(nodes)) {
    // Depth first without recursion: the trace's writer decides its depth.
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

/** Joins children to parents, returns those without one. */
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

/** The shift that puts a child inside its parent, which is already in place. */
function skewOf({ raw, start }: Node, parent: Node): number {
  const room = parent.raw.length - raw.length;
  // Longer than its parent: async, or the parent gave up waiting. It surely did not start before its parent.
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

/** Formats ns as Go prints a `time.Duration`: `35ms`, `-1.5s`, `1h0m0s`. */
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

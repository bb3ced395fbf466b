// Lines between two clouds of points, in exact integers: the geometry of convex-hull clock synchronisation (Duda 1987; Trace Compass).
//
//   y    u   u     u        upper points: the line passes below each    margin(s) = lowest of (u − s·x) − highest of (l − s·x)
//   |   ─────────────────
//   |  l    l    l    l     lower points: above each                    s: slope of the line
//
// margin(s) is concave and piecewise linear in s; at a given s only one vertex of each hull matters. Walking both hulls in order of the
// slopes of their edges visits every such pair of vertices once: O(n) after the sort that a hull begins with.
// Rationals of bigints: epoch ns (61 bits) times run lengths overflow a double and even 64-bit integers.

export interface Point {
  readonly x: bigint;
  readonly y: bigint;
}

/** Invariant: denominator > 0. Not reduced. */
export interface Rational {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** y = slope · x + offset */
export interface ExactLine {
  readonly slope: Rational;
  readonly offset: Rational;
}

export interface SeparatingLines {
  /** The line farthest from both clouds; where the clouds cross, the one that passes the fewest ns on the wrong side. */
  readonly widest: ExactLine;
  /** The lines of least and of greatest slope that still pass between the clouds; undefined when none does. */
  readonly extremes: { readonly flattest: ExactLine; readonly steepest: ExactLine } | undefined;
}

/** A message between two clocks, in ns of the clock of each side. */
export interface ClockMessage {
  readonly sender: 'reference' | 'other';
  readonly sent: bigint;
  readonly received: bigint;
}

/**
 * Trace Compass's answer (SyncAlgorithmFullyIncremental): the mean of the two extreme lines, as the line from the other clock to the
 * reference, reference = slope · other + offset. Undefined when the messages contradict one line, or go one way only.
 */
export function hullLine(messages: readonly ClockMessage[]): ExactLine | undefined {
  // x is the reference's clock, y the other's: a message out arrives above the line, one back left below it.
  const upper = messages.filter(({ sender }) => sender === 'reference').map(({ sent, received }) => ({ x: sent, y: received }));
  const lower = messages.filter(({ sender }) => sender === 'other').map(({ sent, received }) => ({ x: received, y: sent }));
  const extremes = separatingLines(upper, lower)?.extremes;
  if (extremes === undefined) return undefined;
  const { flattest, steepest } = extremes;
  const slope = middle(flattest.slope, steepest.slope);
  const offset = middle(flattest.offset, steepest.offset);
  if (slope.numerator <= 0n) return undefined;
  return {
    slope: { numerator: slope.denominator, denominator: slope.numerator },
    offset: { numerator: -offset.numerator * slope.denominator, denominator: offset.denominator * slope.numerator },
  };
}

/** Undefined when nothing bounds the slope on one side (all lower points left of all upper ones, or the other way round, or none). */
export function separatingLines(upper: readonly Point[], lower: readonly Point[]): SeparatingLines | undefined {
  if (upper.length === 0 || lower.length === 0) return undefined;
  const cells = cellsOf(hullBelow(upper), hullAbove(lower).reverse());
  const rising = cells.findLastIndex(({ above, below }) => below.x > above.x);
  const peak = cells[rising]?.to;
  const top = cells[rising + 1];
  if (peak === undefined || top === undefined) return undefined;
  // A flat top ends where the walk continues; when it never falls, steeper lines stay as good without end.
  const isFlat = top.above.x === top.below.x;
  if (isFlat && top.to === undefined) return undefined;
  const widest = lineBetween(top, isFlat ? middle(peak, top.to as Rational) : peak);
  if (marginSign(top, peak) < 0) return { widest, extremes: undefined };
  const flattest = cells.find((cell) => cell.to !== undefined && marginSign(cell, cell.to) >= 0) as Cell;
  const steepest = cells.findLast((cell) => cell.from !== undefined && marginSign(cell, cell.from) >= 0) as Cell;
  return {
    widest,
    extremes: { flattest: lineThrough(flattest.above, flattest.below), steepest: lineThrough(steepest.above, steepest.below) },
  };
}

/** For slopes in from…to (open-ended where undefined) the vertices that a line of that slope would touch first. */
interface Cell {
  /** The vertex of the upper cloud. */
  readonly above: Point;
  /** The vertex of the lower cloud. */
  readonly below: Point;
  readonly from: Rational | undefined;
  readonly to: Rational | undefined;
}

/** `above` from left to right, `below` from right to left: both then have edges of growing slope. */
function cellsOf(above: readonly Point[], below: readonly Point[]): Cell[] {
  const cells: Cell[] = [];
  let from: Rational | undefined;
  for (let a = 0, b = 0; ; ) {
    const nextAbove = edgeSlope(above, a);
    const nextBelow = edgeSlope(below, b);
    const isAbove = nextBelow === undefined || (nextAbove !== undefined && compare(nextAbove, nextBelow) <= 0);
    const to = isAbove ? nextAbove : nextBelow;
    cells.push({ above: above[a] as Point, below: below[b] as Point, from, to });
    if (to === undefined) return cells;
    if (isAbove) a++;
    else b++;
    from = to;
  }
}

function edgeSlope(hull: readonly Point[], index: number): Rational | undefined {
  const next = hull[index + 1];
  return next === undefined ? undefined : slopeOf(hull[index] as Point, next);
}

/** Sign of the margin at a slope that belongs to the cell. */
function marginSign({ above, below }: Cell, slope: Rational): number {
  const margin = (above.y - below.y) * slope.denominator - slope.numerator * (above.x - below.x);
  return margin > 0n ? 1 : margin < 0n ? -1 : 0;
}

/** Halfway between the two points, with the slope given. */
function lineBetween({ above, below }: Cell, slope: Rational): ExactLine {
  const { numerator, denominator } = slope;
  const offset = (above.y + below.y) * denominator - numerator * (above.x + below.x);
  return { slope, offset: { numerator: offset, denominator: 2n * denominator } };
}

function lineThrough(a: Point, b: Point): ExactLine {
  const slope = slopeOf(a, b);
  return { slope, offset: { numerator: a.y * slope.denominator - slope.numerator * a.x, denominator: slope.denominator } };
}

/** Vertices from left to right of the lower side of the convex hull (Andrew's chain); of points above each other only the lowest counts. */
function hullBelow(points: readonly Point[]): Point[] {
  const hull: Point[] = [];
  for (const point of [...points].sort((a, b) => order(a.x, b.x) || order(a.y, b.y))) {
    if (hull.at(-1)?.x === point.x) continue;
    while (hull.length > 1 && !isLeftTurn(hull.at(-2) as Point, hull.at(-1) as Point, point)) hull.pop();
    hull.push(point);
  }
  return hull;
}

function hullAbove(points: readonly Point[]): Point[] {
  return hullBelow(points.map(mirrored)).map(mirrored);
}

const mirrored = ({ x, y }: Point): Point => ({ x, y: -y });
const order = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);
const isLeftTurn = (a: Point, b: Point, c: Point): boolean => (b.x - a.x) * (c.y - a.y) > (b.y - a.y) * (c.x - a.x);
const compare = (a: Rational, b: Rational): number => order(a.numerator * b.denominator, b.numerator * a.denominator);

function slopeOf(a: Point, b: Point): Rational {
  const [left, right] = a.x < b.x ? [a, b] : [b, a];
  return { numerator: right.y - left.y, denominator: right.x - left.x };
}

function middle(a: Rational, b: Rational): Rational {
  return { numerator: a.numerator * b.denominator + b.numerator * a.denominator, denominator: 2n * a.denominator * b.denominator };
}

// Foretells the stack at an op from the ops before it, so that V8 need not walk it: a training step repeats the one before. As a processor
// predicts branches from their history, and like one it checks itself.
//
//   step begins ──► MatMul ──► Add ──► Relu ──► Sum ──► …        a path: what ran since the step began, each with its module
//                               │                                 each node: the stack that was walked there
//                               └──► Softmax ──► Sum ──► …        another way through the same code, with nodes of its own
//
//   a node     | walked | walked | … | walked | taken | taken | … | checked | taken | …
//                equal eight times in a row: it is known            walked all the same, at random
//
// At first one in some 64 looks at known nodes is such a check, then, with each 64 that were right in a row, half as many, down to one in some
// 512: a walk takes 10 to 20 µs.
//
// A difference while a node is learnt doubles the equal walks that it takes, up to where it is walked for ever: the first step of a loop has
// another stack than the ones after its first `await`, and branches that change about have no stack to learn. A check that fails is a stack
// taken wrongly before, nobody knows how often: it is counted, everything learnt is forgotten (a new generation), and the node takes many
// more equal walks from there on.
//
// What it cannot see: code that runs the same ops in the same order from other lines, more seldom than it learns. Those stacks are wrong
// until a check meets one, which then stands for as many as lie between two checks: so the number of all is estimated. Whoever needs each
// right walks each (`withStack: 'walk'`).
//
// Bounds: a path of at most `depthMax` events, a tree of at most `nodesMax` nodes, which starts afresh over that; over the depth, as in a
// program without steps, every stack is walked.
//
// Invariants: taken + walked is the number of looks; wrong ≤ checked ≤ walked. The same program meets the same checks.

/** Events of a step that are told apart. */
const depthMax = 16_384;
const nodesMax = 65_536;
/** Equal walks in a row after which a node's stack is known, at first and at most; a node that takes more is walked for ever. */
const walksMin = 8;
const walksMax = 4096;
/** How many times as many a difference makes it, and a check that failed. */
const afterDifference = 2;
const afterWrong = 8;
/** Looks at known nodes from one check to the next: 1 … this, each as likely; at first and at most. */
const gapsMin = 127;
const gapsMax = 1023;
/** Checks in a row that were right, after which it is doubled. */
const checksPerGap = 64;
/** Of the numbers that choose them (Marsaglia's xorshift32). */
const seed = 0x9e3779b9 | 0;

/** What was done for the stacks that were asked for. */
export interface StackCounts {
  /** V8 walked the stack. */
  readonly walked: number;
  /** The stack was taken without. */
  readonly taken: number;
  /** Of the walked: those of known nodes, to see whether the stack would have been right; and those where it would not. */
  readonly checked: number;
  readonly wrong: number;
  /** Of the taken: how many were wrong, as those checks let expect. */
  readonly wrongExpected: number;
}

/** `S`: the stacks, which are equal when their texts are. */
export class StackPredictor<S extends { readonly text: string }> {
  #root = new PathNode<S>('', '', 0);
  /** What ran last; undefined while the path is over a bound. */
  #node: PathNode<S> | undefined = this.#root;
  #nodes = 0;
  #generation = 0;
  #untilCheck: number;
  #gapMax = gapsMin;
  /** Checks in a row that were right. */
  #right = 0;
  #random = seed;
  #walked = 0;
  #taken = 0;
  #checked = 0;
  #wrong = 0;
  #wrongExpected = 0;

  constructor() {
    this.#untilCheck = this.#nextGap();
  }

  get counts(): StackCounts {
    return { walked: this.#walked, taken: this.#taken, checked: this.#checked, wrong: this.#wrong, wrongExpected: this.#wrongExpected };
  }

  /** A step begins. */
  begin(): void {
    this.#node = this.#root;
  }

  /** `event` happens in `module`: an op, a copy, a span, by a name or number that says what it is. */
  pass(event: string | number, module: string): void {
    const node = this.#node;
    if (node !== undefined) this.#node = node.last?.isOf(event, module) === true ? node.last : this.#descend(node, event, module);
  }

  /** The stack where the event passed last happens, as far as it is known and not to be checked: then it counts as taken. */
  take(): S | undefined {
    const node = this.#node;
    if (node === undefined || node.generation !== this.#generation || node.walks < node.walksWanted) return undefined;
    if (--this.#untilCheck <= 0) return undefined;
    this.#taken++;
    return node.stack;
  }

  /** A stack was walked, not one that `take` was asked for. */
  countWalk(): void {
    this.#walked++;
  }

  /** The stack that was walked there, after `take` gave none. */
  learn(stack: S): void {
    this.#walked++;
    const node = this.#node;
    if (node === undefined) return;
    // A tree of stacks that began afresh (call-stack.ts) has the same ones as new objects.
    const isEqual = node.stack === stack || node.stack?.text === stack.text;
    if (node.generation === this.#generation && node.walks >= node.walksWanted) {
      this.#checked++;
      this.#judge(isEqual);
      if (isEqual) return;
      this.#generation++;
      node.doubt(afterWrong);
    } else if (!isEqual && node.walks > 0) node.doubt(afterDifference);
    node.walks = isEqual && node.generation === this.#generation ? node.walks + 1 : 1;
    node.generation = this.#generation;
    node.stack = stack;
  }

  #descend(node: PathNode<S>, event: string | number, module: string): PathNode<S> | undefined {
    const known = node.child(event, module);
    if (known !== undefined) return known;
    if (node.depth >= depthMax) return undefined;
    if (++this.#nodes <= nodesMax) return node.add(event, module);
    this.#root = new PathNode('', '', 0);
    this.#nodes = 0;
    return undefined;
  }

  #judge(isRight: boolean): void {
    if (!isRight) {
      this.#wrong++;
      this.#wrongExpected += (this.#gapMax - 1) / 2;
      this.#right = 0;
      this.#gapMax = gapsMin;
    } else if (++this.#right % checksPerGap === 0 && this.#gapMax < gapsMax) this.#gapMax = 2 * this.#gapMax + 1;
    this.#untilCheck = this.#nextGap();
  }

  #nextGap(): number {
    let bits = this.#random;
    bits ^= bits << 13;
    bits ^= bits >>> 17;
    bits ^= bits << 5;
    this.#random = bits;
    return 1 + ((bits >>> 0) % this.#gapMax);
  }
}

/** An event after those above it. */
class PathNode<S> {
  readonly #event: string | number;
  readonly #module: string;
  /** Events from the step's begin up to here. */
  readonly depth: number;
  /** Walked last, and how often the same in a row until then, in its generation. */
  stack: S | undefined;
  walks = 0;
  walksWanted = walksMin;
  generation = 0;
  /** Passed last, so the likeliest next; mostly the only one. */
  last: PathNode<S> | undefined;
  /** Where there is more than one. */
  #children: Map<string | number, PathNode<S>> | undefined;
  /** The same event in another module. */
  #beside: PathNode<S> | undefined;

  constructor(event: string | number, module: string, depth: number) {
    this.#event = event;
    this.#module = module;
    this.depth = depth;
  }

  isOf(event: string | number, module: string): boolean {
    return this.#event === event && this.#module === module;
  }

  child(event: string | number, module: string): PathNode<S> | undefined {
    let node = this.#children?.get(event);
    while (node !== undefined && !node.isOf(event, module)) node = node.#beside;
    if (node !== undefined) this.last = node;
    return node;
  }

  add(event: string | number, module: string): PathNode<S> {
    const node = new PathNode<S>(event, module, this.depth + 1);
    if (this.last !== undefined) {
      this.#children ??= new Map([[this.last.#event, this.last]]);
      node.#beside = this.#children.get(event);
      this.#children.set(event, node);
    }
    this.last = node;
    return node;
  }

  /** Takes `times` as many equal walks from here on. */
  doubt(times: number): void {
    this.walksWanted *= times;
    if (this.walksWanted > walksMax) this.walksWanted = Number.POSITIVE_INFINITY;
  }
}

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
// Nodes are rows of flat arrays in the order in which they were first met, so that the path of a step is read in one sequence: the kernels of
// the step before have driven the tree out of the caches, and nodes that each point to the next would be waited for one after the other.
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

/**
 * A node's numbers: the node passed after it last, which is the likeliest next and mostly the only one (0: none), how often the same stack was
 * walked there in a row until now and takes to be known, in which generation, events from the step's begin up to here, and the node of the
 * same event in another module (0: none).
 */
const field = { next: 0, walks: 1, wanted: 2, generation: 3, depth: 4, beside: 5 } as const;
/** Eight: a node lies in one line of the cache. */
const fieldCount = 8;
const rootNode = 0;
/** While the path is over a bound. */
const noNode = -1;
const never = 0x7fff_ffff;

/** `S`: the stacks, which are equal when their texts are. */
export class StackPredictor<S extends { readonly text: string }> {
  #fields = new Int32Array(64 * fieldCount);
  /** Of each node: its event and module, and the stack walked last. */
  readonly #events: (string | number)[] = [''];
  readonly #modules: string[] = [''];
  readonly #stacks: (S | undefined)[] = [undefined];
  /** Nodes by the event above, then by event: of those after which more than one came. */
  readonly #branches = new Map<number, Map<string | number, number>>();
  /** What ran last. */
  #node = rootNode;
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
    this.#node = rootNode;
  }

  /** `event` happens in `module`: an op, a copy, a span, by a name or number that says what it is. */
  pass(event: string | number, module: string): void {
    const node = this.#node;
    if (node === noNode) return;
    const next = this.#fields[node * fieldCount + field.next] as number;
    this.#node = next !== 0 && this.#isOf(next, event, module) ? next : this.#descend(node, event, module);
  }

  /** The stack where the event passed last happens, as far as it is known and not to be checked: then it counts as taken. */
  take(): S | undefined {
    const node = this.#node;
    if (node === noNode || !this.#isKnown(node)) return undefined;
    if (--this.#untilCheck <= 0) return undefined;
    this.#taken++;
    return this.#stacks[node];
  }

  /** A stack was walked, not one that `take` was asked for. */
  countWalk(): void {
    this.#walked++;
  }

  /** The stack that was walked there, after `take` gave none. */
  learn(stack: S): void {
    this.#walked++;
    const node = this.#node;
    if (node === noNode) return;
    const fields = this.#fields;
    const at = node * fieldCount;
    const before = this.#stacks[node];
    // A tree of stacks that began afresh (call-stack.ts) has the same ones as new objects.
    const isEqual = before === stack || before?.text === stack.text;
    if (this.#isKnown(node)) {
      this.#checked++;
      this.#judge(isEqual);
      if (isEqual) return;
      this.#generation++;
      this.#doubt(node, afterWrong);
    } else if (!isEqual && (fields[at + field.walks] as number) > 0) this.#doubt(node, afterDifference);
    const goesOn = isEqual && fields[at + field.generation] === this.#generation;
    fields[at + field.walks] = goesOn ? (fields[at + field.walks] as number) + 1 : 1;
    fields[at + field.generation] = this.#generation;
    this.#stacks[node] = stack;
  }

  #isOf(node: number, event: string | number, module: string): boolean {
    return this.#events[node] === event && this.#modules[node] === module;
  }

  #isKnown(node: number): boolean {
    const fields = this.#fields;
    const at = node * fieldCount;
    return (
      fields[at + field.generation] === this.#generation && (fields[at + field.walks] as number) >= (fields[at + field.wanted] as number)
    );
  }

  /** Takes `times` as many equal walks from here on. */
  #doubt(node: number, times: number): void {
    const at = node * fieldCount + field.wanted;
    const wanted = (this.#fields[at] as number) * times;
    this.#fields[at] = wanted > walksMax ? never : wanted;
  }

  #descend(node: number, event: string | number, module: string): number {
    const fields = this.#fields;
    let known = this.#branches.get(node)?.get(event) ?? 0;
    while (known !== 0 && !this.#isOf(known, event, module)) known = fields[known * fieldCount + field.beside] as number;
    if (known !== 0) {
      fields[node * fieldCount + field.next] = known;
      return known;
    }
    if ((fields[node * fieldCount + field.depth] as number) >= depthMax) return noNode;
    if (this.#stacks.length <= nodesMax) return this.#add(node, event, module);
    this.#fields = new Int32Array(64 * fieldCount);
    for (const list of [this.#events, this.#modules, this.#stacks]) list.length = 1;
    this.#branches.clear();
    return noNode;
  }

  #add(above: number, event: string | number, module: string): number {
    const node = this.#stacks.length;
    this.#events.push(event);
    this.#modules.push(module);
    this.#stacks.push(undefined);
    if ((node + 1) * fieldCount > this.#fields.length) {
      const grown = new Int32Array(2 * this.#fields.length);
      grown.set(this.#fields);
      this.#fields = grown;
    }
    const fields = this.#fields;
    const next = fields[above * fieldCount + field.next] as number;
    const at = node * fieldCount;
    if (next !== 0) {
      let branches = this.#branches.get(above);
      if (branches === undefined) {
        branches = new Map([[this.#events[next] as string | number, next]]);
        this.#branches.set(above, branches);
      }
      fields[at + field.beside] = branches.get(event) ?? 0;
      branches.set(event, node);
    }
    fields[at + field.wanted] = walksMin;
    fields[at + field.depth] = (fields[above * fieldCount + field.depth] as number) + 1;
    fields[above * fieldCount + field.next] = node;
    return node;
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

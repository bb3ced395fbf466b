// Predicts the stack at an op from the ops before it, so that V8 need not walk it: a training step repeats the one before. It works like a
// processor that predicts branches from their history, and like one it checks itself.
//
//   step begins ──► MatMul ──► Add ──► Relu ──► Sum ──► …        a path: the ops since the step began, each with its module
//                               │                                 each node: the stack that was walked there
//                               └──► Softmax ──► Sum ──► …        another way through the same code, with nodes of its own
//
//   a node     | walked | walked | … | walked | taken | taken | … | checked | taken | …
//                equal eight times in a row: known                  walked all the same, at random
//
// At first one in some 64 looks at known nodes is such a check; each 64 correct checks in a row halve that rate, down to one in some 512: a
// walk takes 10 to 20 µs.
//
// A difference while a node is learnt doubles the equal walks that it needs, up to a bound beyond which it is always walked: the first step of a
// loop has another stack than the ones after its first `await`, and branches that change about have no stack to learn. A failed check means an
// unknown number of wrong stacks before it: the predictor counts it, forgets everything learnt (a new generation), and the node needs many more
// equal walks from there on.
//
// Its blind spot: code that runs the same ops in the same order from other lines, more seldom than it learns. Those stacks are wrong until a
// check meets one, which then stands for as many as lie between two checks: so the total is an estimate. Users who need every stack right set
// `withStack: 'walk'`.
//
// Nodes are rows of flat arrays in the order of their first visit, so that reading the path of a step is sequential: the kernels of the step
// before have driven the tree out of the caches, and following pointers from node to node would wait for memory at each.
//
// Bounds: a path of at most `depthMax` events, a tree of at most `nodesMax` nodes, which starts afresh beyond that; beyond the depth, as in a
// program without steps, every stack is walked.
//
// Invariants: taken + walked is the number of looks; wrong ≤ checked ≤ walked. The same program meets the same checks.

/** Events of a step that the tree distinguishes. */
const depthMax = 16_384;
const nodesMax = 65_536;
/** Equal walks in a row after which a node's stack is known, at first and at most; a node that needs more is always walked. */
const walksMin = 8;
const walksMax = 4096;
/** Factor on the walks needed after a difference, and after a failed check. */
const afterDifference = 2;
const afterWrong = 8;
/** Looks at known nodes from one check to the next: 1 … this, uniformly; at first and at most. */
const gapsMin = 127;
const gapsMax = 1023;
/** Correct checks in a row that double the gap. */
const checksPerGap = 64;
/** Seed of the random gaps (Marsaglia's xorshift32). */
const seed = 0x9e3779b9 | 0;

/** Counts of requested stacks by how they were obtained. */
export interface StackCounts {
  /** V8 walked the stack. */
  readonly walked: number;
  /** The stack was taken without a walk. */
  readonly taken: number;
  /** Walks that checked known nodes, and those of them that found another stack. */
  readonly checked: number;
  readonly wrong: number;
  /** Estimate of the wrong stacks among the taken, from those checks. */
  readonly wrongExpected: number;
}

/**
 * A node's numbers: its last successor, which is the likeliest next and mostly the only one (0: none); how often the same stack was walked
 * there in a row, how often it must be to be known, and in which generation; events from the step's begin to here; and the node of the same
 * event in another module (0: none).
 */
const field = { next: 0, walks: 1, wanted: 2, generation: 3, depth: 4, beside: 5 } as const;
/** Eight: a node fits one cache line. */
const fieldCount = 8;
const rootNode = 0;
/** The node while the path is over a bound. */
const noNode = -1;
const never = 0x7fff_ffff;

/** `S`: the stacks, which are equal when their texts are. */
export class StackPredictor<S extends { readonly text: string }> {
  #fields = new Int32Array(64 * fieldCount);
  /** For each node: its event and module, and the stack walked last. */
  readonly #events: (string | number)[] = [''];
  readonly #modules: string[] = [''];
  readonly #stacks: (S | undefined)[] = [undefined];
  /** Nodes by the preceding event's node, then by event: for nodes with several successors. */
  readonly #branches = new Map<number, Map<string | number, number>>();
  /** The node of the last event. */
  #node = rootNode;
  #generation = 0;
  #untilCheck: number;
  #gapMax = gapsMin;
  /** Correct checks in a row. */
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

  /** `event` happens in `module`: an op, a copy, a span, by a name or number that identifies it. */
  pass(event: string | number, module: string): void {
    const node = this.#node;
    if (node === noNode) return;
    const next = this.#fields[node * fieldCount + field.next] as number;
    this.#node = next !== 0 && this.#isOf(next, event, module) ? next : this.#descend(node, event, module);
  }

  /** The stack of the last event, if it is known and not due for a check: then it counts as taken. */
  take(): S | undefined {
    const node = this.#node;
    if (node === noNode || !this.#isKnown(node)) return undefined;
    if (--this.#untilCheck <= 0) return undefined;
    this.#taken++;
    return this.#stacks[node];
  }

  /** Counts a walk that did not follow `take`. */
  countWalk(): void {
    this.#walked++;
  }

  /** Records the stack walked there, after `take` returned none. */
  learn(stack: S): void {
    this.#walked++;
    const node = this.#node;
    if (node === noNode) return;
    const fields = this.#fields;
    const at = node * fieldCount;
    const before = this.#stacks[node];
    // A stack tree that started afresh (call-stack.ts) has the same stacks as new objects.
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

  /** From now on the node needs `times` as many equal walks. */
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

// The stack of the training code at an op, as the text of Kineto's `Call stack`: frames in torch's form, innermost first, joined by `;`.
//
//   /app/train.ts(42): loss;/app/train.ts(57): trainStep;/app/train.ts(80): main
//
// Dropped: frames of node (`node:`), of TensorFlow.js (`node_modules/@tensorflow/`, in a bundle by its source map), of this SDK, and V8's
// built-ins. Kept: everything else, source maps followed, `await`ed callers as V8 gives them.
//
// The cost, and how we lower it. V8 walks the stack at about 0.3 µs a frame, and tfjs is deep: 45 frames between an op in a layer and the
// training code. Nothing in JavaScript makes that walk cheaper, so we make the rest small (a frame is formatted once, a stack is a node of a
// tree, keyed by script and position, and keeps its text) and skip the walk where its result is known: between `hold`s, in code that called
// nothing of the user's in a trial (`enter`), and where a step repeats the one before (stack-predictor.ts).
//
//        main ── trainStep ── minimize ── loss ── mul         each node: the frame, and the text from here outwards
//                         │            └─ accuracy ── mean    (a dropped frame is a node with its caller's text)
//                         └── apply ── …
//
// Measured on a tf.layers model of two layers, 56 ops a step, on 2 slow cores: with a walk for each op 1060 µs a step; with layers and named
// kernels held 460 µs; with gradients and updates held as well 70 µs, for six walks of 3 to 13 µs.
//
// Invariant: a capture restores `Error.prepareStackTrace` and `Error.stackTraceLimit` (`undefined` if there was none); capturing never
// throws.
// Invariant: the tree has at most `nodesMax` nodes and `textCharsMax` characters; beyond that it starts afresh (equal stacks are then
// equal texts, no longer the same string).

import { limits } from '@ranktrace/protocol';
import { pathOf, SourcePositions } from './source-positions.ts';
import { type StackCounts, StackPredictor } from './stack-predictor.ts';

const framesMax = 256;
const scriptsMax = 4096;
const nodesMax = 65_536;
const textCharsMax = 16 * 1024 * 1024;
const nameCharsMax = 256;

/** The folder of this SDK's own code; undefined in a program's bundle, where source maps decide. A test beside the source is a user's file. */
const [ownFolder] =
  /^.*\/packages\/sdk\/(?:src\/(?=tfjs\/call-stack\.ts$)|dist\/(?=shared-[\w-]+\.js$))/.exec(slashed(import.meta.url)) ?? [];
const ownPackage = /\/node_modules\/@ranktrace\/sdk\//;
const testFile = /\.test\.[jt]s$/;
const tfjsFile = /\/node_modules\/@tensorflow\//;

export interface CallStackOptions {
  /** Whether `captureAt` may take stacks from earlier steps. Default true. */
  readonly predicts?: boolean;
}

/** A captured stack. */
export interface FoundStack {
  /** '' for none. */
  readonly text: string;
  /** Id from `recorder.name`; −1 when it is not named yet, 0 for none. */
  id: number;
}

export class CallStacks {
  readonly #positions = new SourcePositions();
  readonly #predictor: StackPredictor<FoundStack> | undefined;
  /** Kinds of code by identity, such as the layer that it runs for. */
  readonly #kinds = new WeakMap<object, Kind>();
  #lastKind = 0;
  /** By script: whether it is not the user's. */
  readonly #foreign = new Map<string, boolean>();
  readonly #scopes: Scope[] = [];
  #root = new StackNode();
  #nodes = 0;
  #textChars = 0;
  #held: FoundStack | undefined;
  #trial: Trial | undefined;
  /** Stacks at pending calls, see `follow`. */
  readonly #followed: FollowedCall[] = [];
  readonly #none: FoundStack = { text: '', id: 0 };

  constructor({ predicts = true }: CallStackOptions = {}) {
    this.#predictor = predicts ? new StackPredictor() : undefined;
  }

  /** Counts of walked, taken and checked stacks so far; undefined if each is walked. */
  get counts(): StackCounts | undefined {
    return this.#predictor?.counts;
  }

  /** A step begins. */
  beginStep(): void {
    this.#predictor?.begin();
  }

  /** An event of the step without a request for its stack. */
  pass(event: string | number, module: string): void {
    this.#predictor?.pass(event, module);
  }

  /**
   * `capture` for an event of the step, named as in stack-predictor.ts: where steps repeat themselves it returns the stack captured there
   * before, without a walk.
   */
  captureAt(event: string | number, module: string): FoundStack {
    const predictor = this.#predictor;
    predictor?.pass(event, module);
    if (this.#held !== undefined) return this.#held;
    // A trial needs the real stack.
    if (predictor === undefined || this.#trial !== undefined) return this.#look();
    const known = predictor.take();
    if (known !== undefined) return this.#orFollowed(known);
    const walked = this.#walk();
    predictor.learn(walked);
    return this.#orFollowed(walked);
  }

  /**
   * The stack of the caller, without its frames inside of this SDK; '' without any other frame. The same stack gives the same string. It looks at
   * 256 frames at most, and omits the outermost if the text would exceed `limits.stringBytesMax` bytes.
   */
  capture(): string {
    return this.#look().text;
  }

  /**
   * From now on `captureAt` and `capture` return `stack` without a walk; `undefined`: they walk. Returns the stack held before, which the caller
   * holds again when the code with the known stack has run. For synchronous code that calls nothing of the user's: the inside of a named kernel,
   * the gradient of one, the update of an optimizer.
   *
   * @example
   * const before = stacks.hold(stack);
   * try { return run(); } finally { stacks.hold(before); }
   */
  hold(stack: FoundStack | undefined): FoundStack | undefined {
    const before = this.#held;
    this.#held = stack;
    return before;
  }

  /**
   * Synchronous code of `kind` begins; `leave` must follow. The first whole run of a kind is a trial: when every stack captured in it (not
   * in nested `enter`s) equals the one at its entry, then code of this kind calls nothing of the user's, and from then on one capture at entry
   * is enough. Without a kind nothing is assumed.
   */
  enter(kind?: object): void {
    const about = kind === undefined ? undefined : this.#aboutKind(kind);
    const pure = about === undefined ? false : about.isPure;
    let entry = this.#none;
    if (about !== undefined && pure === true) entry = this.captureAt(about.event, '');
    // An outer trial must see the entry of inner code: it reveals a user's frame between the two.
    else if (pure === undefined || this.#trial !== undefined) entry = this.#look();
    this.#scopes.push({ held: this.#held, trial: this.#trial });
    this.#held = pure === true ? entry : undefined;
    this.#trial = about !== undefined && pure === undefined ? { kind: about, entry, seen: false, pure: true } : undefined;
  }

  /** Ends the last `enter`; without one, does nothing. */
  leave(): void {
    const scope = this.#scopes.pop();
    if (scope === undefined) return;
    const trial = this.#trial;
    if (trial?.seen) trial.kind.isPure = trial.pure;
    this.#held = scope.held;
    this.#trial = scope.trial;
  }

  /**
   * Runs `run`. Until its promise settles, ops without a frame of the training code on their stack get the stack of this call: tfjs is compiled
   * such that V8 loses the callers of `model.fit` after its first `await`.
   */
  follow<T>(run: () => T): T {
    const call: FollowedCall = { stack: this.#look() };
    const end = () => {
      const at = this.#followed.indexOf(call);
      if (at >= 0) this.#followed.splice(at, 1);
    };
    this.#followed.push(call);
    try {
      const result = run();
      if (result instanceof Promise) result.then(end, end);
      else end();
      return result;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** The same for a call that runs already, and whose caller is still on the stack: while `goesOn` returns true. */
  followWhile(goesOn: () => boolean): void {
    this.#followed.push({ stack: this.#look(), goesOn });
  }

  #look(): FoundStack {
    if (this.#held !== undefined) return this.#held;
    this.#predictor?.countWalk();
    const stack = this.#orFollowed(this.#walk());
    const trial = this.#trial;
    if (trial !== undefined) {
      trial.seen = true;
      if (stack.text !== trial.entry.text) trial.pure = false;
    }
    return stack;
  }

  #aboutKind(kind: object): Kind {
    let about = this.#kinds.get(kind);
    if (about === undefined) {
      about = { event: ++this.#lastKind, isPure: undefined };
      this.#kinds.set(kind, about);
    }
    return about;
  }

  /** `walked`, or, if it has no frame of the training code, the stack of a pending call that `follow` knows. */
  #orFollowed(walked: FoundStack): FoundStack {
    if (walked !== this.#none) return walked;
    for (let call = this.#followed.at(-1); call !== undefined; call = this.#followed.at(-1)) {
      if (call.goesOn?.() !== false) return call.stack;
      this.#followed.pop();
    }
    return walked;
  }

  #walk(): FoundStack {
    const sites = callSites();
    let node = this.#root;
    try {
      for (let i = sites.length - 1; i >= 0; i--) {
        const site = sites[i] as PositionedCallSite;
        const script: unknown = site.getScriptNameOrSourceURL(); // 30 ns; a position takes V8 100, so most frames go without.
        if (typeof script !== 'string' || (this.#foreign.get(script) ?? this.#judge(script))) continue;
        const position = site.getPosition();
        node = node.child(position, script) ?? this.#addFrame(node, position, script, site);
      }
    } catch {
      return this.#none; // Not a call site of V8's: another library's substitute.
    }
    return node.depth === 0 ? this.#none : (node.found ?? this.#write(node));
  }

  /** Whether all frames of `script` are dropped. */
  #judge(script: string): boolean {
    const foreign = isForeign(script);
    if (this.#foreign.size < scriptsMax) this.#foreign.set(script, foreign);
    return foreign;
  }

  #addFrame(parent: StackNode, position: number, script: string, site: NodeJS.CallSite): StackNode {
    if (++this.#nodes > nodesMax) this.#startAfresh();
    return parent.add(position, script, this.#format(script, site));
  }

  /** The frame in torch's form; undefined for one that is not the user's, as the source map of a bundle shows. */
  #format(script: string, site: NodeJS.CallSite): string | undefined {
    const { path, line } = this.#positions.locate(script, site.getLineNumber() ?? 0, site.getColumnNumber() ?? 0);
    if (isForeign(path)) return undefined;
    const name = (site.getFunctionName() ?? '<anonymous>').slice(0, nameCharsMax);
    return `${path}(${line}): ${name}`.replace(/;/g, ',').replace(/[\r\n]+/g, ' ');
  }

  #write(end: StackNode): FoundStack {
    const frames: string[] = [];
    let bytes = -1;
    for (let node: StackNode | undefined = end; node?.frame !== undefined; node = node.caller) {
      bytes += 1 + Buffer.byteLength(node.frame);
      if (bytes > limits.stringBytesMax) break;
      frames.push(node.frame);
    }
    const text = frames.join(';');
    this.#textChars += text.length;
    if (this.#textChars > textCharsMax) this.#startAfresh();
    end.found = { text, id: -1 };
    return end.found;
  }

  #startAfresh(): void {
    this.#root = new StackNode();
    this.#nodes = 0;
    this.#textChars = 0;
  }
}

interface FollowedCall {
  readonly stack: FoundStack;
  /** Default: until it is removed. */
  readonly goesOn?: () => boolean;
}

interface Scope {
  readonly held: FoundStack | undefined;
  readonly trial: Trial | undefined;
}

interface Kind {
  /** Identifies its begin to the predictor. */
  readonly event: number;
  /** Whether a trial ran ops without a user's frame between; undefined until then. */
  isPure: boolean | undefined;
}

interface Trial {
  readonly kind: Kind;
  readonly entry: FoundStack;
  seen: boolean;
  pure: boolean;
}

/** V8 has it, node's types lack it. */
interface PositionedCallSite extends NodeJS.CallSite {
  /** Offset in the script, in characters; of WebAssembly, in bytes. */
  getPosition(): number;
}

/** A stack: the frame at `position` of `script`, called from the node above. A dropped frame has its caller's content, in a node of its own. */
class StackNode {
  /** The innermost kept frame, and the node of its kept caller. */
  frame: string | undefined;
  caller: StackNode | undefined;
  /** Kept frames from here outwards. */
  depth = 0;
  found: FoundStack | undefined;
  #position = -1;
  #script = '';
  /** The child asked for last, so the likeliest next: tried first, before the map. */
  #last: StackNode | undefined;
  #children: Map<number, StackNode> | undefined;
  /** Another script's frame at the same position. */
  #beside: StackNode | undefined;

  child(position: number, script: string): StackNode | undefined {
    const last = this.#last;
    if (last !== undefined && last.#position === position && last.#script === script) return last;
    let node = this.#children?.get(position);
    while (node !== undefined && node.#script !== script) node = node.#beside;
    if (node !== undefined) this.#last = node;
    return node;
  }

  add(position: number, script: string, frame: string | undefined): StackNode {
    const node = new StackNode();
    node.#position = position;
    node.#script = script;
    node.frame = frame ?? this.frame;
    node.caller = frame === undefined ? this.caller : this;
    node.depth = frame === undefined ? this.depth : this.depth + 1;
    this.#children ??= new Map();
    node.#beside = this.#children.get(position);
    this.#children.set(position, node);
    this.#last = node;
    return node;
  }
}

const noSites: readonly NodeJS.CallSite[] = [];
const keepSites = (_error: Error, sites: NodeJS.CallSite[]): NodeJS.CallSite[] => sites;

/** The frames of this thread, innermost first. */
function callSites(): readonly NodeJS.CallSite[] {
  // `new Error` is a little cheaper than `Error.captureStackTrace`, which defines a property as well.
  const { stackTraceLimit, prepareStackTrace } = Error;
  try {
    Error.stackTraceLimit = framesMax;
    Error.prepareStackTrace = keepSites;
    const sites: unknown = new Error().stack;
    return Array.isArray(sites) ? sites : noSites;
  } catch {
    return noSites; // `Error` is frozen.
  } finally {
    restore(stackTraceLimit, prepareStackTrace);
  }
}

function restore(stackTraceLimit: number, prepareStackTrace: typeof Error.prepareStackTrace): void {
  try {
    Error.stackTraceLimit = stackTraceLimit;
    // A missing one becomes `undefined`, which V8 and node treat as missing: deleting it would cost 3 µs each time.
    Error.prepareStackTrace = prepareStackTrace as NonNullable<typeof prepareStackTrace>;
  } catch {
    // `Error` is frozen, so nothing was set.
  }
}

function isForeign(script: string): boolean {
  if (script === '' || script.startsWith('node:') || script.startsWith('wasm:')) return true;
  const path = slashed(script);
  if (tfjsFile.test(path) || ownPackage.test(path)) return true;
  return ownFolder !== undefined && path.startsWith(ownFolder) && !testFile.test(path);
}

/** The path of `script` with `/` on every system. A bundler may leave no `import.meta.url`. */
function slashed(script: string | undefined): string {
  return pathOf(script ?? '').replace(/\\/g, '/');
}

// The training code of these tests is TypeScript, compiled by tsc with source maps and run by node itself, not by the test runner.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInThisContext } from 'node:vm';
import { limits } from '@ranktrace/protocol';
import * as tf from '@tensorflow/tfjs';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { CallStacks } from './call-stack.ts';

const modules = join(import.meta.dirname, '../../../../node_modules');
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ranktrace-stacks-')));
const sourcePath = join(folder, 'src/train.ts');

const source = `
interface Batch { readonly size: number }
export type Inner<T> = () => T;

export function trainStep<T>(inner: Inner<T>): T {
  const batch: Batch = { size: 3 };
  return batch.size > 0 ? loss(inner) : inner(); // in trainStep
}

function loss<T>(inner: Inner<T>): T {
  return [1].map(() => inner())[0] as T; // in loss
}

export class Trainer {
  run<T>(inner: Inner<T>): T {
    return trainStep(inner); // in run
  }
}

export async function main<T>(inner: Inner<T>): Promise<T> {
  return await epoch(inner); // in main
}

async function epoch<T>(inner: Inner<T>): Promise<T> {
  await null;
  return inner(); // in epoch
}

export function deep<T>(depth: number, inner: Inner<T>): T {
  if (depth === 0) return inner(); // deepest
  return deep(depth - 1, inner); // deeper
}

export const named = { ['a;b\\nc']<T>(inner: Inner<T>): T {
  return inner(); // in named
} };

export function build(tf: any) {
  class Scale extends tf.layers.Layer {
    static className = 'Scale';
    call(x: any) {
      return tf.mul(Array.isArray(x) ? x[0] : x, 2); // in call
    }
    computeOutputShape(shape: any) { return shape; }
  }
  return tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] }), new Scale({}), tf.layers.dense({ units: 2 })] });
}

export function step(tf: any, model: any, x: any) {
  return tf.variableGrads(() => tf.mean(model.apply(x))); // in step
}
`;

interface Program {
  trainStep<T>(inner: () => T): T;
  Trainer: new () => { run<T>(inner: () => T): T };
  main<T>(inner: () => T): Promise<T>;
  deep<T>(depth: number, inner: () => T): T;
  named: Record<string, <T>(inner: () => T) => T>;
  build(tf: unknown): tf.LayersModel;
  step(tf: unknown, model: tf.LayersModel, x: tf.Tensor): void;
}

let program: Program;

beforeAll(async () => {
  await tf.setBackend('cpu');
  mkdirSync(join(folder, 'src'));
  writeFileSync(sourcePath, source);
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }');
  const flags = ['--outDir', 'dist', '--rootDir', 'src', '--sourceMap', '--module', 'nodenext', '--target', 'es2022', '--noCheck'];
  execFileSync(process.execPath, [join(modules, 'typescript/bin/tsc'), ...flags, '--types', '', sourcePath], { cwd: folder });
  program = createRequire(import.meta.url)(join(folder, 'dist/train.js')) as Program;
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** `path(line): name` of the line of the source that ends with the comment `mark`. */
const at = (mark: string, name: string) => {
  const line = source.split('\n').findIndex((text) => text.endsWith(`// ${mark}`)) + 1;
  return `${sourcePath}(${line}): ${name}`;
};

/** The frames of the program in `stack`: the test runner's own are outside of it. */
const framesIn = (stack: string) => stack.split(';').filter((frame) => frame.startsWith(folder));

const stacks = new CallStacks();
const capture = () => stacks.capture();

/** The stacks at all ops inside `run`. */
function stacksOfOps(of: CallStacks, run: () => void): string[] {
  const engine = tf.engine() as unknown as { runKernelFunc?: (call: { kernelName?: string }) => unknown };
  const original = engine.runKernelFunc as (call: object) => unknown;
  const seen: string[] = [];
  engine.runKernelFunc = function (this: unknown, call) {
    seen.push(of.capture());
    return original.call(this, call);
  };
  try {
    run();
  } finally {
    delete engine.runKernelFunc;
  }
  return seen;
}

test('frames are those of the TypeScript source in the form of torch, innermost first', () => {
  const frames = stacks.capture().split(';');
  const [, ...outer] = new program.Trainer().run(capture).split(';').slice(0, 5);
  expect(outer).toEqual([at('in loss', '<anonymous>'), at('in loss', 'loss'), at('in trainStep', 'trainStep'), at('in run', 'run')]);
  expect(frames[0]).toMatch(/call-stack\.test\.ts\(\d+\): /);
});

test('frames of node and built-ins are dropped', () => {
  expect(program.trainStep(capture)).not.toMatch(/node:|Array\.map|\bmap$/);
});

test('callers that await are kept', async () => {
  const stack = await program.main(capture);
  expect(framesIn(stack)).toEqual([at('in epoch', 'epoch'), at('in main', 'main')]);
});

test('a name cannot break the text apart', () => {
  const [name = ''] = Object.keys(program.named);
  const stack = program.named[name]?.(capture) ?? '';
  expect(framesIn(stack)).toEqual([at('in named', 'a,b c')]);
});

test('the same call gives the same text, another line another', () => {
  const texts = [1, 2].map(() => program.trainStep(capture));
  expect(texts[0]).toBe(texts[1]);
  expect(new program.Trainer().run(capture)).not.toBe(texts[0]);
});

test('frames of tfjs are dropped, however deep an op is', () => {
  const model = program.build(tf);
  const seen = stacksOfOps(stacks, () => program.step(tf, model, tf.ones([2, 4])));
  expect(seen.length).toBeGreaterThan(20);
  for (const stack of seen) {
    expect(stack).not.toContain('@tensorflow');
    // Forward ops also have the closure inside the call of variableGrads.
    expect([at('in step', 'step'), at('in step', '<anonymous>'), at('in call', 'call')]).toContain(framesIn(stack)[0]);
  }
  expect(seen.filter((stack) => framesIn(stack)[0] === at('in call', 'call')).length).toBeGreaterThanOrEqual(1);
});

test('frames of tfjs inside of a bundle are dropped by its source map', () => {
  // Line 1 belongs to tfjs, line 2 to the training code.
  const map = {
    version: 3,
    sources: ['../node_modules/.pnpm/@tensorflow+tfjs-core@4.22.0/node_modules/@tensorflow/tfjs-core/src/engine.ts', '../src/bundled.ts'],
    names: [],
    mappings: 'AAAA;ACAA',
  };
  const bundle = join(folder, 'bundle.js');
  const url = `data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}`;
  writeFileSync(bundle, `function runKernel(f) { return f(); }\nexports.run = (f) => runKernel(f);\n//# sourceMappingURL=${url}\n`);
  const { run } = createRequire(import.meta.url)(bundle) as { run(f: () => string): string };
  expect(run(capture)).toContain('src/bundled.ts(1): exports.run');
  expect(run(capture)).not.toContain('engine.ts');
});

test('a tfjs that is linked in, as pnpm does, is tfjs', () => {
  const real = join(folder, 'node_modules/.pnpm/@tensorflow+x@1.0.0/node_modules/@tensorflow/x');
  mkdirSync(real, { recursive: true });
  writeFileSync(join(real, 'index.js'), 'exports.op = function op(f) { return f(); };');
  mkdirSync(join(folder, 'node_modules/@tensorflow'));
  symlinkSync(real, join(folder, 'node_modules/@tensorflow/x'));
  const { op } = createRequire(import.meta.url)(join(folder, 'node_modules/@tensorflow/x')) as { op(f: () => string): string };
  expect(framesIn(op(capture))).toEqual([]);
});

test('a stack too long for a text keeps its innermost frames, whole', () => {
  const stack = program.deep(150, capture);
  expect(Buffer.byteLength(stack)).toBeLessThanOrEqual(limits.stringBytesMax);
  expect(Buffer.byteLength(stack)).toBeGreaterThan(limits.stringBytesMax - 200);
  expect(framesIn(stack).slice(0, 3)).toEqual([at('deepest', 'deep'), at('deeper', 'deep'), at('deeper', 'deep')]);
  expect(framesIn(stack).at(-1)).toBe(at('deeper', 'deep'));
});

test('more stacks than are kept start the tree afresh and are right', () => {
  const many = new CallStacks();
  const bound = many.capture.bind(many);
  // Some 250 frames of its own per script: over 65 536 nodes.
  for (let i = 0; i < 300; i++) {
    const filename = join(folder, `many${i}.js`);
    const recurse = runInThisContext('(function deep(n, f) { return n === 0 ? f() : deep(n - 1, f); })', { filename }) as Program['deep'];
    expect(recurse(240, bound).split(';')[0]).toBe(`${filename}(1): deep`);
  }
});

test('an endless recursion is captured up to the limit', () => {
  expect(framesIn(program.deep(2000, capture))[0]).toBe(at('deepest', 'deep'));
});

const descriptors = () => [
  Object.getOwnPropertyDescriptor(Error, 'prepareStackTrace'),
  Object.getOwnPropertyDescriptor(Error, 'stackTraceLimit'),
];
const [prepareBefore, limitBefore] = descriptors();
afterEach(() => {
  Object.defineProperty(Error, 'stackTraceLimit', limitBefore as PropertyDescriptor);
  if (prepareBefore === undefined) Reflect.deleteProperty(Error, 'prepareStackTrace');
  else Object.defineProperty(Error, 'prepareStackTrace', prepareBefore);
});

test("the program's own prepareStackTrace and limit stay, and are not asked", () => {
  let asked = 0;
  const own = () => {
    asked++;
    return 'mine';
  };
  Error.prepareStackTrace = own;
  Error.stackTraceLimit = 3;
  expect(framesIn(program.trainStep(capture))).toHaveLength(3);
  expect([Error.prepareStackTrace, Error.stackTraceLimit, asked]).toEqual([own, 3, 0]);
  expect(new Error('x').stack).toBe('mine');
});

test('where there is none, errors have the text of V8 after a capture', () => {
  Reflect.deleteProperty(Error, 'prepareStackTrace');
  program.trainStep(capture);
  expect(Error.prepareStackTrace).toBeUndefined();
  expect(new Error('plain').stack).toMatch(/^Error: plain\n {4}at /);
});

test.each(['prepareStackTrace', 'stackTraceLimit'] as const)('a locked Error.%s gives no stack and no exception', (name) => {
  Object.defineProperty(Error, name, { value: name === 'stackTraceLimit' ? 10 : undefined, writable: false, configurable: true });
  const [prepare, limit] = descriptors();
  expect(new CallStacks().capture()).toBe('');
  expect(descriptors()).toEqual([prepare, limit]);
});

test('an op in the middle of an exception of the program leaves its stack alone', () => {
  let thrown: Error | undefined;
  try {
    program.trainStep(() => {
      stacks.capture();
      throw new Error('theirs');
    });
  } catch (error) {
    thrown = error as Error;
  }
  expect(thrown?.stack).toContain('trainStep');
});

test('a held stack is the answer until what was held before is held again', () => {
  const [a, b] = ['a', 'b'].map((text) => ({ text, id: -1 }));
  const outer = stacks.hold(a);
  const inner = stacks.hold(b);
  expect(stacks.capture()).toBe('b');
  expect(stacks.hold(inner)).toBe(b);
  expect(stacks.capture()).toBe('a');
  stacks.hold(outer);
  expect(framesIn(program.trainStep(capture))).toHaveLength(3);
});

test('code that calls nothing of the program is looked up once, after it was seen to be so', () => {
  const kinds = new CallStacks();
  const kind = {};
  // Bound, it has no frame: an op directly in the code of tfjs.
  const run = () => entered(kinds, kind, kinds.capture.bind(kinds));
  const [trial, held] = [0, 1].map(() => program.trainStep(run));
  expect(framesIn(trial ?? '')).toHaveLength(3);
  expect(held).toBe(trial);
  // No walk: frames that were absent in the trial stay invisible.
  const outside = entered(kinds, kind, () => program.trainStep(() => kinds.capture()));
  expect(framesIn(outside)).toEqual([]);
});

test('code that calls the program is looked up each time', () => {
  const kinds = new CallStacks();
  const kind = {};
  const run = () => entered(kinds, kind, () => program.trainStep(() => kinds.capture()));
  for (const text of [0, 1, 2].map(run)) expect(framesIn(text)[0]).toBe(at('in loss', '<anonymous>'));
});

test('what is entered inside is tried on its own, and code of no kind is not held', () => {
  const kinds = new CallStacks();
  const [container, plain, custom] = [{}, {}, {}];
  const layers = () => [
    entered(kinds, plain, kinds.capture.bind(kinds)),
    entered(kinds, custom, () => program.trainStep(() => kinds.capture())),
    entered(kinds, undefined, () => program.deep(0, () => kinds.capture())),
    entered(kinds, plain, kinds.capture.bind(kinds)),
  ];
  for (let i = 0; i < 3; i++) {
    const seen = program.deep(1, () => entered(kinds, container, layers));
    expect(seen.map((stack) => framesIn(stack).length)).toEqual([2, 5, 3, 2]);
  }
  kinds.leave(); // One too many.
  expect(kinds.capture()).toMatch(/call-stack\.test\.ts/);
});

test('where no frame of the program is left, the stack is that of the call that goes on', async () => {
  const alone = (of: CallStacks) => new Promise<string>((resolve) => setImmediate(ownless, of, resolve));
  const followed = new CallStacks();
  expect(await alone(followed)).toBe('');
  const fit = () => alone(followed);
  expect(framesIn(await program.trainStep(() => followed.follow(fit)))).toHaveLength(3);
  const overlapping = [program.trainStep(() => followed.follow(fit)), program.deep(1, () => followed.follow(fit))];
  for (const stack of await Promise.all(overlapping)) expect(framesIn(stack)).toEqual([at('deepest', 'deep'), at('deeper', 'deep')]);
  expect(await alone(followed)).toBe('');
  await expect(followed.follow(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(() => followed.follow(() => JSON.parse('{'))).toThrow(SyntaxError);
  expect(await alone(followed)).toBe('');
});

/** Code that a stack shows as code of tfjs: it has the name of a file of tfjs. */
const tfjsCode = (code: string): unknown =>
  runInThisContext(code, { filename: '/app/node_modules/@tensorflow/tfjs-layers/dist/tf-layers.node.js' });

/** Calls `capture` with no frame of the program. */
const ownless = tfjsCode('(of, resolve) => resolve(of.capture())') as (of: CallStacks, resolve: (stack: string) => void) => void;

/** Runs `run` as code of `kind`; code outside the program enters and leaves it. */
function entered<T>(of: CallStacks, kind: object | undefined, run: () => T): T {
  return enteredByTfjs(of, kind, run) as T;
}
const enteredByTfjs = tfjsCode('(of, kind, run) => { of.enter(kind); try { return run(); } finally { of.leave(); } }') as (
  ...args: [CallStacks, object | undefined, () => unknown]
) => unknown;

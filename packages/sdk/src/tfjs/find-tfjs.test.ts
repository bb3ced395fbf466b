// Each case is a program that node runs, with the packages that it loads and no test runner between.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const modules = join(import.meta.dirname, '../../../../node_modules');
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-find-'));
let programs = 0;

beforeAll(() => {
  const flags = ['--module', 'nodenext', '--target', 'es2022', '--rewriteRelativeImportExtensions', '--noCheck', '--types', ''];
  const out = ['--outDir', join(folder, 'sdk'), '--rootDir', import.meta.dirname];
  execFileSync(process.execPath, [join(modules, 'typescript/bin/tsc'), ...flags, ...out, join(import.meta.dirname, 'find-tfjs.ts')], {
    cwd: folder,
  });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  symlinkSync(modules, join(folder, 'node_modules'));
  // Another copy of tfjs-core, and tfjs-node as published: a main module at dist/index.js that re-exports all of tfjs.
  const other = join(folder, 'other/node_modules');
  cpSync(join(modules, '@tensorflow/tfjs-core/dist/tf-core.node.js'), join(other, '@tensorflow/tfjs-core/dist/tf-core.node.js'));
  writeFileSync(join(other, '@tensorflow/tfjs-core/package.json'), '{ "main": "dist/tf-core.node.js" }');
  for (const name of ['long', 'seedrandom']) symlinkSync(join(modules, name), join(other, name));
  const node = join(folder, 'gpu/node_modules/.pnpm/@tensorflow+tfjs-node@4.22.0/node_modules/@tensorflow/tfjs-node');
  mkdirSync(join(node, 'dist'), { recursive: true });
  writeFileSync(join(node, 'package.json'), '{ "main": "dist/index.js" }');
  writeFileSync(
    join(node, 'dist/index.js'),
    `module.exports = { ...require(${JSON.stringify(join(modules, '@tensorflow/tfjs'))}), io: 1 };`,
  );
  mkdirSync(join(folder, 'gpu/node_modules/@tensorflow'));
  symlinkSync(node, join(folder, 'gpu/node_modules/@tensorflow/tfjs-node'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const head = `
import { createRequire } from 'node:module';
import { findTfjs } from ${JSON.stringify(join(folder, 'sdk/find-tfjs.js'))};
const require = createRequire(import.meta.url);
`;

/** Result of `lines`, which end with an expression, in a program of their own. */
function answer(...lines: string[]): unknown {
  const path = join(folder, `${programs++}.mjs`);
  const [last, ...before] = lines.reverse();
  writeFileSync(path, `${head}${before.reverse().join('\n')}\nconst answer = ${last};\nconsole.log(JSON.stringify(answer));\n`);
  const out = execFileSync(process.execPath, [path], { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  return JSON.parse(out.trim().split('\n').at(-1) ?? '');
}

const isThreadEngine = 'findTfjs().engine() === globalThis._tfengine';

test('finds what import loaded', () => {
  expect(
    answer(
      `import * as tf from '@tensorflow/tfjs';`,
      `[${isThreadEngine}, findTfjs().layers.Layer === tf.layers.Layer, findTfjs().AdamOptimizer === tf.AdamOptimizer]`,
    ),
  ).toEqual([true, true, true]);
});

test('finds what require loaded', () => {
  expect(answer(`const tf = require('@tensorflow/tfjs');`, 'findTfjs() === tf')).toBe(true);
});

test('finds the core alone, which has no layers', () => {
  expect(answer(`import '@tensorflow/tfjs-core';`, `[${isThreadEngine}, findTfjs().layers === undefined]`)).toEqual([true, true]);
});

test('finds core and layers together', () => {
  const imports = [`import '@tensorflow/tfjs-core';`, `import * as tfl from '@tensorflow/tfjs-layers';`];
  const checks = ['findTfjs().layers === tfl.layers', 'findTfjs().LayersModel === tfl.LayersModel', `typeof findTfjs().SGDOptimizer`];
  expect(answer(...imports, `[${isThreadEngine}, ${checks.join(', ')}]`)).toEqual([true, true, true, 'function']);
});

test('finds nothing where nothing is loaded, and loads nothing', () => {
  expect(answer(`[findTfjs() === undefined, globalThis._tfengine === undefined, Object.keys(require.cache).length]`)).toEqual([
    true,
    true,
    0,
  ]);
});

test('takes what is given, where it is a tfjs', () => {
  const given = '{ engine: () => 1 }';
  expect(answer(`const tf = ${given};`, '[findTfjs(tf) === tf, ...[7, null, {}, () => 1].map((x) => findTfjs(x) === undefined)]')).toEqual([
    true,
    true,
    true,
    true,
    true,
  ]);
});

test('prefers tfjs-node, which gives on all of tfjs, also in the folders of pnpm', () => {
  expect(answer(`const tf = require('./gpu/node_modules/@tensorflow/tfjs-node');`, '[findTfjs() === tf, findTfjs().io]')).toEqual([
    true,
    1,
  ]);
});

test('of two copies takes one with the engine of the thread', () => {
  const copy = `require('./other/node_modules/@tensorflow/tfjs-core/dist/tf-core.node.js')`;
  expect(answer(`const a = ${copy};`, `const b = require('@tensorflow/tfjs-core');`, `[a !== b, ${isThreadEngine}]`)).toEqual([true, true]);
  // A copy that was loaded while the global was another's has an engine other than the thread's.
  const lines = [`const a = ${copy};`, 'delete globalThis._tfengine;', `const b = require('@tensorflow/tfjs-core');`];
  expect(answer(...lines, `[a.engine() !== b.engine(), findTfjs() === b, ${isThreadEngine}]`)).toEqual([true, true, true]);
});

test('a module that is still loading is not looked at', () => {
  const path = join(folder, 'gpu/node_modules/@tensorflow/tfjs-node-gpu/dist');
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'index.js'), 'Object.defineProperty(exports, "engine", { get() { throw 1; } }); globalThis.inside();');
  expect(
    answer(
      'let found = 1;',
      'globalThis.inside = () => { found = findTfjs(); };',
      `require(${JSON.stringify(join(path, 'index.js'))});`,
      '[found === undefined, findTfjs() === undefined]',
    ),
  ).toEqual([true, true]);
});

test('a worker thread finds its own', () => {
  const worker = join(folder, 'worker.mjs');
  writeFileSync(
    worker,
    `${head}
    import { parentPort } from 'node:worker_threads';
    const before = findTfjs() === undefined;
    const tf = require('@tensorflow/tfjs');
    parentPort.postMessage([before, findTfjs() === tf]);`,
  );
  const lines = [
    `import { Worker } from 'node:worker_threads';`,
    `require('@tensorflow/tfjs');`,
    `const worker = new Worker(${JSON.stringify(worker)});`,
  ];
  expect(answer(...lines, `await new Promise((resolve) => worker.once('message', resolve))`)).toEqual([true, true]);
});

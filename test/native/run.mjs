// What `npm run check:native` runs: the tests of the vitest project `native`, on @tensorflow/tfjs-node built here (tfjs-node-build.mjs).
// Where it cannot be built, one line says why and nothing was tested: that is no failure of the project. `npm test` needs none of it.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { buildTfjsNode, nativeFolder } from './tfjs-node-build.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));

let isBuilt = true;
try {
  buildTfjsNode((part) => console.log(`native backend: ${part}`));
} catch (error) {
  isBuilt = false;
  console.log(`NOT RUN: the native backend cannot be built here (${error.message})`);
}
if (isBuilt) {
  const { status } = spawnSync('node_modules/.bin/vitest', ['run', '--project', 'native', ...process.argv.slice(2)], {
    cwd: repository,
    stdio: 'inherit',
    env: { ...process.env, RANKTRACE_NATIVE_TFJS: nativeFolder },
  });
  process.exitCode = status ?? 1;
}

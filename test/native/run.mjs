// The program of `npm run check:native`: the tests of the vitest project `native`, on @tensorflow/tfjs-node built here (tfjs-node-build.mjs).
// Then, without arguments, the cost of recording for a step there (overhead.mjs): figures, not tests. If the build is impossible, one line gives
// the reason and nothing was tested: that is no failure of the project. `npm test` needs none of it.

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
const given = process.argv.slice(2);
const options = { cwd: repository, env: { ...process.env, RANKTRACE_NATIVE_TFJS: nativeFolder } };
if (isBuilt) {
  const { status } = spawnSync('node_modules/.bin/vitest', ['run', '--project', 'native', ...given], { ...options, stdio: 'inherit' });
  process.exitCode = status ?? 1;
}
const all = { recordShapes: true, profileMemory: true, withFlops: true, withModules: true, withStack: true };
for (const profile of isBuilt && given.length === 0 ? [{}, all] : []) {
  // TensorFlow prints a greeting on stderr.
  const stdio = ['ignore', 'inherit', 'ignore'];
  spawnSync(process.execPath, ['test/native/overhead.mjs', JSON.stringify(profile)], { ...options, stdio });
}

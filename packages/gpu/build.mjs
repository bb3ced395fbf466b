// Builds the C libraries into dist/native/<platform>-<arch>/, where a C compiler is; elsewhere one line says that there are none. Part of `npm run build`,
// never of `npm ci`. CC names the compiler.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const native = fileURLToPath(new URL('native/', import.meta.url));
const out = fileURLToPath(new URL(`dist/native/${process.platform}-${process.arch}/`, import.meta.url));

/** The libraries, with the sources of each, and its own flags. */
const libraries = {
  'ranktrace-gpu.node': ['entry.c', 'cupti-recorder.c', 'ring.c'],
  // NCCL closes its plugins, and may still hold what points into this one.
  'libranktrace-nccl-profiler.so': ['nccl-profiler.c', 'ring.c', '-Wl,-z,nodelete'],
};
const flags = ['-std=gnu11', '-O2', '-g', '-fPIC', '-shared', '-fvisibility=hidden', '-Wall', '-Wextra'];

const runs = (compiler) => spawnSync(compiler, ['--version'], { stdio: 'ignore' }).status === 0;

function build(compiler) {
  mkdirSync(out, { recursive: true });
  const newest = Math.max(
    ...[...readdirSync(native).map((name) => native + name), fileURLToPath(import.meta.url)].map((path) => statSync(path).mtimeMs),
  );
  for (const [name, sources] of Object.entries(libraries)) {
    const path = out + name;
    if (existsSync(path) && statSync(path).mtimeMs >= newest) continue;
    // A process may have loaded the old one: it keeps its file.
    const fresh = `${path}.${process.pid}`;
    const { status, stderr } = spawnSync(
      compiler,
      [...flags, ...sources.map((source) => (source.endsWith('.c') ? native + source : source)), '-o', fresh, '-ldl', '-lpthread'],
      {
        encoding: 'utf8',
      },
    );
    if (status !== 0) {
      process.stderr.write(`packages/gpu: ${compiler} cannot build ${name}:\n${stderr}`);
      process.exitCode = 1;
      return;
    }
    renameSync(fresh, path);
  }
}

if (process.platform !== 'linux') console.log('packages/gpu: kernels are recorded on Linux alone; nothing is built');
else {
  const compiler = [process.env.CC, 'cc', 'gcc', 'clang'].find((name) => name && runs(name));
  if (compiler === undefined) console.log('packages/gpu: no C compiler is found, so this build records no kernels (CC names one)');
  else build(compiler);
}

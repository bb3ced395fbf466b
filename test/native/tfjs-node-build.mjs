// Builds @tensorflow/tfjs-node from the npm registry against TensorFlow's library from PyPI, because its own install script downloads
// the library from a host that many machines cannot reach.
//
//   npm       @tensorflow/tfjs-node, without its install script         FOLDER/node_modules/@tensorflow/tfjs-node
//   pip       wheel of tensorflow-cpu                                   deps/include, deps/lib beside it
//   node-gyp  binding.gyp with both                                     lib/napi-v8/tfjs_binding.node
//
// The build takes about two minutes and 1.5 GB, and is kept.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const tfjsNode = '@tensorflow/tfjs-node@4.22.0';
const tensorFlow = 'tensorflow-cpu==2.21.0';
/** Version of N-API: the package looks into this folder on Node 20 and later. */
const napi = 8;

const python = process.env.PYTHON ?? 'python3';
const repository = fileURLToPath(new URL('../..', import.meta.url));

/** The build folder: the one named by RANKTRACE_NATIVE_TFJS, else one that git ignores. */
export const nativeFolder = process.env.RANKTRACE_NATIVE_TFJS || join(repository, 'node_modules/.cache/tfjs-node');

/** The package's main module in `folder`. */
export const mainModuleIn = (folder) => join(folder, 'node_modules/@tensorflow/tfjs-node/dist/index.js');

const bindingIn = (folder) => join(folder, `node_modules/@tensorflow/tfjs-node/lib/napi-v${napi}/tfjs_binding.node`);

/** Builds it into `nativeFolder` unless it exists; `say` gets a line per part. Throws an error of one line if the build is impossible. */
export function buildTfjsNode(say) {
  if (existsSync(bindingIn(nativeFolder))) return;
  mkdirSync(dirname(nativeFolder), { recursive: true });
  const fresh = mkdtempSync(`${nativeFolder}-`);
  try {
    const wheels = join(fresh, 'wheel');
    say(`${tensorFlow} from pip`);
    // Checked first: without it, nothing else is of use.
    run(`pip has no wheel of ${tensorFlow}`, python, [
      ...['-m', 'pip', 'download', '--disable-pip-version-check', '--quiet', '--no-deps', '--only-binary=:all:', '--dest', wheels],
      tensorFlow,
    ]);
    say(`${tfjsNode} from npm`);
    run(`npm cannot install ${tfjsNode}`, 'npm', [
      ...['install', '--prefix', fresh, '--ignore-scripts', '--no-save', '--no-package-lock', '--no-audit', '--no-fund', '--silent'],
      tfjsNode,
    ]);
    const home = join(fresh, 'node_modules/@tensorflow/tfjs-node');
    unpack(join(wheels, readdirSync(wheels)[0]), join(home, 'deps'));
    rmSync(wheels, { recursive: true });
    say('its binding with node-gyp');
    compile(home);
    if (!existsSync(bindingIn(fresh))) throw new Error(`node-gyp wrote no ${bindingIn('')}`);
    // Another process may have built it meanwhile.
    if (!existsSync(bindingIn(nativeFolder))) {
      rmSync(nativeFolder, { recursive: true, force: true });
      renameSync(fresh, nativeFolder);
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Headers and libraries of `wheel`, laid out as in libtensorflow's archive. */
function unpack(wheel, deps) {
  const code = `
import sys, zipfile
wheel, deps = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
for member in wheel.infolist():
    if member.filename.startswith('tensorflow/include/') and not member.is_dir():
        member.filename = member.filename.removeprefix('tensorflow/')
    elif member.filename.startswith('tensorflow/libtensorflow'):
        member.filename = member.filename.replace('tensorflow/', 'lib/', 1)
    else:
        continue
    wheel.extract(member, deps)
`;
  run('the wheel cannot be unpacked', python, ['-c', code, wheel, deps]);
  const lib = join(deps, 'lib');
  for (const [name, library] of [
    ['libtensorflow.so', 'libtensorflow_cc.so.2'],
    ['libtensorflow_framework.so', 'libtensorflow_framework.so.2'],
  ]) {
    symlinkSync(library, join(lib, name));
  }
}

function compile(home) {
  // Node's own headers, if they lie beside it as in its archives: else node-gyp loads them.
  const prefix = dirname(dirname(process.execPath));
  const headers = existsSync(join(prefix, 'include/node/node_api.h')) ? [`--nodedir=${prefix}`] : [];
  const args = [
    ...['rebuild', '--silent', ...headers, '--module_name=tfjs_binding', `--module_path=${join(home, `lib/napi-v${napi}`)}`],
    ...[`--napi_version=${process.versions.napi}`, `--napi_build_version=${napi}`],
  ];
  run('node-gyp cannot compile the binding', process.execPath, [nodeGyp(), ...args], { cwd: home });
}

/** npm's own path, which it passes to its scripts. */
function nodeGyp() {
  const reported = process.env.npm_config_node_gyp;
  if (reported !== undefined && existsSync(reported)) return reported;
  const global = execFileSync('npm', ['root', '--global', '--silent'], { encoding: 'utf8' }).trim();
  return join(global, 'npm/node_modules/node-gyp/bin/node-gyp.js');
}

function run(failure, program, args, options = {}) {
  try {
    execFileSync(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', maxBuffer: 2 ** 28 });
  } catch (error) {
    const lines = String(error.stderr || error.message)
      .trim()
      .split('\n');
    const reporting = lines.find((line) => /\berror\b/i.test(line)) ?? lines.at(-1);
    throw new Error(`${failure}: ${reporting.trim().slice(0, 200)}`, { cause: error });
  }
}

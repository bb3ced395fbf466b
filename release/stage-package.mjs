// Turns one workspace package into a folder that npm can pack: its built files, and inside of them the built files of the private packages that they
// import, so that no other package of this repository has to be published. The C libraries of a platform become a package of their own.
//
//   packages/sdk/dist/index.d.ts                ──►  dist/index.d.ts
//     import … from '@ranktrace/protocol'             import … from './internal/protocol/index.js'
//   packages/protocol/dist/index.d.ts           ──►  dist/internal/protocol/index.d.ts
//
// A file is copied when a copied file names it: in an import, as a worker's URL, or through `import.meta.resolve`. Each is a string literal that
// starts with a dot or a package's name, so one scan of literals finds them all. Modules name modules and types name types, so only types that a
// user's compiler can reach are copied. A package's own build makes its bundles (the SDK, the command, the page), with the licenses of their code.
//
// Invariant: no literal of a staged file names a private package, and each dependency of the staged manifest is named by some staged file.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('..', import.meta.url));

/** Every package of the workspace by its name. `room` is its folder below packages/. */
const packages = new Map(
  readdirSync(join(repository, 'packages'))
    .filter((room) => existsSync(join(repository, 'packages', room, 'package.json')))
    .map((room) => {
      const manifest = JSON.parse(readFileSync(join(repository, 'packages', room, 'package.json'), 'utf8'));
      return [manifest.name, { room, manifest }];
    }),
);

/** Names of the packages that are published: those that are not private. */
export const publishedNames = [...packages].filter(([, { manifest }]) => manifest.private !== true).map(([name]) => name);

const moduleFile = /\.js$/;
const typesFile = /\.d\.ts$/;
const packageName = /^(?:@[^/]+\/)?[^/]+/;

/** Stages the package `name` in the empty folder `target`. Throws where a named file has not been built. */
export function stagePackage(name, target) {
  const staging = new Staging(packages.get(name), target);
  const { room, manifest } = staging.owner;
  for (const file of entryFiles(manifest)) staging.add(posix.join('packages', room, file));
  staging.copyAll();
  const own = (file) => join(repository, 'packages', room, file);
  for (const file of ['README.md', 'LICENSE']) cpSync(existsSync(own(file)) ? own(file) : join(repository, file), join(target, file));
  const licenses = 'dist/licenses.txt';
  if (existsSync(own(licenses))) cpSync(own(licenses), join(target, licenses));
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(staging.manifest(), undefined, 2)}\n`);
}

const libraries = join(repository, 'packages/gpu/dist/native');

/** Platforms (`linux-x64`) whose C libraries were built here: this one, and those whose folders were copied beside it. */
export const builtPlatforms = () => (existsSync(libraries) ? readdirSync(libraries).sort() : []);

/** Stages the C libraries of a platform in the empty folder `target`, as a package that npm installs on that platform alone. */
export function stageLibraries(platform, target) {
  const { manifest } = packages.get('@ranktrace/gpu');
  const { version, license, engines } = manifest;
  const [os, cpu] = platform.split('-');
  const about = {
    name: `@ranktrace/gpu-${platform}`,
    version,
    description: `C libraries of @ranktrace/sdk that record GPUs, for ${platform}.`,
  };
  cpSync(join(libraries, platform), target, { recursive: true });
  cpSync(join(repository, 'packages/gpu/README.md'), join(target, 'README.md'));
  cpSync(join(repository, 'LICENSE'), join(target, 'LICENSE'));
  const written = { ...about, license, engines, os: [os], cpu: [cpu], libc: ['glibc'] };
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(written, undefined, 2)}\n`);
}

/** Files that users of a package can name: its exports, their types, and its commands. */
function entryFiles({ exports = {}, bin = {} }) {
  return [...Object.values(exports).flatMap((entry) => [entry.types, entry.default]), ...Object.values(bin)];
}

class Staging {
  #target;
  #waiting = [];
  #added = new Set();
  #rooms = new Map();
  #namedPackages = new Set();

  constructor(owner, target) {
    this.owner = owner;
    this.#target = target;
  }

  /** Adds a built file, named from the repository's root: a module, its types, or a file of any other kind, which takes its whole folder along. */
  add(file) {
    const whole = isText(file) ? file : dirname(file);
    if (this.#added.has(whole)) return;
    if (!existsSync(join(repository, whole))) throw new Error(`Cannot stage ${whole}: it is missing; run "npm run build"`);
    this.#added.add(whole);
    this.#waiting.push(whole);
  }

  copyAll() {
    for (let file = this.#waiting.pop(); file !== undefined; file = this.#waiting.pop()) {
      const { room, manifest } = this.#packageOf(file);
      this.#rooms.set(room, manifest);
      if (isText(file)) this.#copyText(file);
      else copyFolder(join(repository, file), join(this.#target, this.#placeOf(file)));
      if (moduleFile.test(file) && existsSync(join(repository, `${file}.map`))) this.#copySourceMap(`${file}.map`);
    }
  }

  /** The manifest of the staged package: the package's own, with the dependencies of all its files. */
  manifest() {
    const { private: _private, scripts: _scripts, devDependencies: _dev, dependencies: _own, exports, ...rest } = this.owner.manifest;
    const dependencies = {};
    for (const { dependencies: declared = {} } of this.#rooms.values()) {
      for (const [name, range] of Object.entries(declared)) {
        if (packages.get(name)?.manifest.private === true || !this.#namedPackages.has(name)) continue;
        if (dependencies[name] !== undefined && dependencies[name] !== range) {
          throw new Error(
            `Cannot stage ${rest.name}: ${name} is wanted as ${dependencies[name]} and as ${range}; give both packages one range`,
          );
        }
        dependencies[name] = range;
      }
    }
    const sorted = Object.fromEntries(Object.entries(dependencies).sort(([one], [other]) => (one < other ? -1 : 1)));
    const published = exports && Object.fromEntries(Object.entries(exports).map(([path, { source: _source, ...entry }]) => [path, entry]));
    return { ...rest, ...(published && { exports: published }), dependencies: sorted };
  }

  /** Copies a module or its types, with every literal that names a file of this repository made relative. */
  #copyText(file) {
    const text = readFileSync(join(repository, file), 'utf8').replace(/^\/\/# sourceMappingURL=.*\.d\.ts\.map$\n?/m, '');
    const rewritten = text.replaceAll(/(['"])([.@\w][^'"\s]*)\1/g, (literal, quote, specifier) => {
      const named = this.#fileNamedBy(specifier, file);
      if (named === undefined) return literal;
      this.add(typesFile.test(file) ? named.replace(moduleFile, '.d.ts') : named);
      const path = posix.relative(posix.dirname(this.#placeOf(file)), this.#placeOf(named));
      return `${quote}${path.startsWith('.') ? path : `./${path}`}${quote}`;
    });
    this.#write(file, rewritten);
  }

  /** The built file that `specifier` names in `from`; undefined where it names none of this repository's, or one of a published package. */
  #fileNamedBy(specifier, from) {
    if (specifier.startsWith('.')) {
      // Types name modules by their sources' names; those of a bundled module have no module beside them.
      const isOfTypes = typesFile.test(from);
      const file = posix.join(posix.dirname(from), isOfTypes ? specifier.replace(/\.ts$/, '.js') : specifier);
      const built = isOfTypes ? file.replace(moduleFile, '.d.ts') : file;
      const isBuilt = /^packages\/[^/]+\/(dist|bin)\//.test(file) && /\.\w+$/.test(file) && existsSync(join(repository, built));
      return isBuilt ? file : undefined;
    }
    const [name = ''] = packageName.exec(specifier) ?? [];
    this.#namedPackages.add(name);
    const { room, manifest } = packages.get(name) ?? {};
    if (manifest?.private !== true) return undefined;
    const path = exportedFile(manifest.exports, `.${specifier.slice(name.length)}`);
    if (path === undefined) throw new Error(`Cannot stage ${from}: ${name} exports no "${specifier}"`);
    return posix.join('packages', room, path);
  }

  /** A map carries its sources, which are not published. Their addresses say where they are in the repository. */
  #copySourceMap(file) {
    const map = JSON.parse(readFileSync(join(repository, file), 'utf8'));
    const sources = map.sources.map((source) => `ranktrace:///${posix.join(posix.dirname(file), source)}`);
    this.#write(file, JSON.stringify({ ...map, sources }));
  }

  #write(file, text) {
    const path = join(this.#target, this.#placeOf(file));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }

  #packageOf(file) {
    const room = file.split('/')[1];
    return [...packages.values()].find((one) => one.room === room);
  }

  /** Place of a repository's file in the staged package. */
  #placeOf(file) {
    const { room } = this.#packageOf(file);
    if (room === this.owner.room) return relative(join('packages', room), file);
    return join('dist/internal', room, relative(join('packages', room, 'dist'), file));
  }
}

const isText = (file) => moduleFile.test(file) || typesFile.test(file);

/** Without files that carry a digest and that the page does not name: turbo leaves those of an earlier build. */
function copyFolder(from, to) {
  const page = join(from, 'index.html');
  const named = existsSync(page) ? readFileSync(page, 'utf8') : undefined;
  const isOfPage = (path) => named === undefined || !/-[\w-]{8}\.\w+$/.test(path) || named.includes(basename(path));
  cpSync(from, to, { recursive: true, filter: isOfPage });
}

/** The file behind an exported path, of exact names and of patterns with one star. */
function exportedFile(exports, path) {
  for (const [key, entry] of Object.entries(exports)) {
    const file = typeof entry === 'string' ? entry : entry.default;
    if (key === path) return file;
    const [before, after] = key.split('*');
    if (after !== undefined && path.startsWith(before) && path.endsWith(after)) {
      return file.replace('*', path.slice(before.length, path.length - after.length));
    }
  }
  return undefined;
}

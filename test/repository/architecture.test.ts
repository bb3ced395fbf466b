// Import rules, and the other rules of the code's shape that a machine can check (ARCHITECTURE.md gives the reasons).

import { posix } from 'node:path';
import { describe, expect, test } from 'vitest';
import { exists, filesBelow, importedPackage, importsOf, packageNames, read, sourcesOf, withoutComments } from './source-files.ts';

const node = /^node:/;

/** Import direction: the packages that each package may import, and no others. */
const allowed: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  protocol: ['msgpackr', 'zod'],
  trace: ['@ranktrace/protocol'],
  gpu: [node],
  sdk: ['@ranktrace/protocol', '@ranktrace/trace', '@ranktrace/gpu', 'nats', 'ws', 'zod', node, /^@tensorflow\//],
  aggregator: ['@ranktrace/protocol', '@ranktrace/trace', 'nats', 'prom-client', 'ws', 'yaml', 'zod', node],
  viewer: ['@ranktrace/protocol', 'preact', '@preact/signals', 'uplot'],
  agent: ['@ranktrace/protocol', '@ranktrace/trace', '@ranktrace/gpu', '@ranktrace/sdk', 'koffi', node],
  cli: [
    '@ranktrace/protocol',
    '@ranktrace/trace',
    '@ranktrace/sdk',
    '@ranktrace/aggregator',
    '@ranktrace/agent',
    '@ranktrace/gpu',
    '@ranktrace/viewer',
    'commander',
    'cli-progress',
    'zod',
    node,
  ],
};

/**
 * The floors of each package's folders, from the ground: a folder imports only from floors below its own. Root files (a package's exports and
 * entry points) stand above all of them.
 */
const floors: Readonly<Record<string, readonly (readonly string[])[]>> = {
  protocol: [],
  trace: [
    ['model'],
    ['align', 'match', 'detect', 'nccl', 'zipkin', 'steps'],
    ['write'],
    ['merge', 'perfetto'],
    ['torch', 'blame'],
    ['gpu'],
    ['analyse', 'compare', 'ndtimeline'],
    ['alert', 'timeline'],
    ['simulate'],
  ],
  gpu: [],
  sdk: [['model'], ['process', 'tfjs'], ['record', 'transport'], ['ship'], ['collect'], ['sample', 'gpu'], ['thread'], ['profile']],
  aggregator: [['model'], ['store'], ['live', 'prune'], ['capture'], ['alert'], ['metrics', 'view'], ['ingest'], ['http']],
  viewer: [['controls'], ['client'], ['overview'], ['compare', 'profile', 'timeline'], ['report']],
  agent: [['model'], ['kineto', 'files', 'ship'], ['ranks'], ['capture', 'hang', 'rings']],
  cli: [['terminal'], ['options'], ['print', 'ranks'], ['inputs'], ['check'], ['commands']],
};

/** Imported here and nowhere else, so that their types do not spread. */
const onlyIn: Readonly<Record<string, readonly string[]>> = {
  nats: ['packages/sdk/src/transport/nats.ts', 'packages/aggregator/src/ingest/jetstream-ingest.ts'],
};

/** Only entry points read configuration, never code deep inside. */
const environmentReaders = ['packages/cli/src/main.ts', 'packages/aggregator/src/main.ts', 'packages/sdk/src/model/options.ts'];
/** CUDA's driver takes the name of a library by no other way. */
const environmentWriters = ['packages/sdk/src/gpu/announce-library.ts'];

const sources = packageNames.flatMap(sourcesOf);
const testSources = packageNames
  .flatMap((name) => filesBelow(`packages/${name}/src`))
  .concat(filesBelow('test'))
  .filter((path) => /\.tsx?$/.test(path));

/** Everything that goes into the page. */
const pageFiles = filesBelow('packages/viewer').filter((path) => /\.(tsx?|css|html|svg)$/.test(path));

/** Lines `path: what` for every violation, so that a failure is a list to work through. */
const violations = (paths: readonly string[], find: (text: string, path: string) => readonly string[]): string[] =>
  paths.flatMap((path) => find(read(path), path).map((what) => `${path}: ${what}`));

describe('imports', () => {
  test('the scanner sees every form of import', () => {
    const text = `
      import a from 'one';
      import { type B,
        c } from "two/deep";
      export { d } from '@three/x/y';
      import 'four';
      const e = await import('five');
      const f = require('six'); // import g from 'comment';
      new Worker(new URL('./seven.js', import.meta.url));
      /* import h from 'comment'; */
      const url = 'https://example.org'; import i from 'eight';
    `;
    const found = importsOf(text).sort();
    expect(found).toEqual(['one', 'two/deep', '@three/x/y', 'four', 'five', 'six', './seven.js', 'eight'].sort());
  });

  test('there is a rule for every package', () => {
    expect(Object.keys(allowed)).toEqual(expect.arrayContaining([...packageNames]));
    expect(Object.keys(floors)).toEqual(expect.arrayContaining([...packageNames]));
  });

  test.for(packageNames)('%s imports what it may and nothing else', (name) => {
    const rules = allowed[name] ?? [];
    const wrong = violations(sourcesOf(name), (text) =>
      importsOf(text)
        .filter((specifier) => !specifier.startsWith('.'))
        .filter(
          (specifier) => !rules.some((rule) => (typeof rule === 'string' ? rule === importedPackage(specifier) : rule.test(specifier))),
        ),
    );
    expect(wrong).toEqual([]);
  });

  test.for(packageNames)('%s declares every package it imports', (name) => {
    const manifest = JSON.parse(read(`packages/${name}/package.json`)) as Record<string, Record<string, string> | undefined>;
    // Bundled dependencies are not installed with the package.
    const bundled = exists(`packages/${name}/vite.config.ts`) ? Object.keys(manifest.devDependencies ?? {}) : [];
    const kinds = ['dependencies', 'peerDependencies', 'optionalDependencies'];
    const declared = new Set([...kinds.flatMap((kind) => Object.keys(manifest[kind] ?? {})), ...bundled]);
    const wrong = violations(sourcesOf(name), (text) =>
      importsOf(text).filter((specifier) => !/^\.|^node:/.test(specifier) && !declared.has(importedPackage(specifier))),
    );
    expect(wrong).toEqual([]);
  });

  test('relative imports stay inside their package and name a file that exists, styles and pictures too', () => {
    const wrong = violations(sources, (text, path) => {
      const root = path.split('/').slice(0, 3).join('/');
      return importsOf(text)
        .filter((specifier) => specifier.startsWith('.'))
        .filter((specifier) => {
          const target = posix.join(posix.dirname(path), specifier);
          // Worker files are named as they will be in dist.
          return !target.startsWith(`${root}/`) || !(exists(target) || exists(target.replace(/\.js$/, '.ts')));
        });
    });
    expect(wrong).toEqual([]);
  });

  test('the command line loads the code of a command when it is called', () => {
    const wrong = violations(['packages/cli/src/program.ts'], (text) =>
      [...text.matchAll(/^(?:import|\} from) .*'(\.\/(?:commands|check|print|ranks)\/[^']+)';$/gm)].map(([, specifier]) => specifier ?? ''),
    );
    expect(wrong).toEqual([]);
    expect(
      importsOf(read('packages/cli/src/program.ts')).filter((specifier) => specifier.startsWith('./commands/')).length,
    ).toBeGreaterThan(15);
  });

  test('nothing that is shipped imports a test or what only tests use', () => {
    const wrong = violations(sources, (text) =>
      importsOf(text).filter((specifier) => /\.test(\.ts)?$|(^|\/)testing\/|(^|\/)test\//.test(specifier)),
    );
    expect(wrong).toEqual([]);
  });

  test.for(Object.entries(floors))(
    'the folders of %s stand on floors: each imports only from below, and none imports a root file',
    ([name, levels]) => {
      const floorOf = new Map(levels.flatMap((folders, floor) => folders.map((folder) => [folder, floor] as const)));
      const folderOf = (path: string): string | undefined => path.split('/').slice(3, -1)[0];
      const wrong = violations(sourcesOf(name), (text, path) => {
        const from = folderOf(path);
        if (from === undefined) return [];
        const floor = floorOf.get(from);
        if (floor === undefined) return [`${from}/ stands on no floor`];
        return importsOf(text).filter((specifier) => {
          const to = folderOf(posix.join(posix.dirname(path), specifier));
          return specifier.startsWith('.') && to !== from && (floorOf.get(to ?? '') ?? levels.length) >= floor;
        });
      });
      expect(wrong).toEqual([]);
      const empty = [...floorOf.keys()].filter((folder) => !sourcesOf(name).some((path) => folderOf(path) === folder));
      expect(empty).toEqual([]);
    },
  );

  test('what records, collects and ships loads nothing of trace: a rank reads that for results alone', () => {
    const wrong = violations(sourcesOf('sdk'), (text, path) =>
      path.startsWith('packages/sdk/src/profile/') ? [] : importsOf(text).filter((one) => importedPackage(one) === '@ranktrace/trace'),
    );
    expect(wrong).toEqual([]);
  });

  test('trace exports at most 80 names at its root, and no name that nobody imports', () => {
    const listOf = (text: string, end: RegExp): string[] =>
      [...text.matchAll(new RegExp(`(?:import|export) (?:type )?\\{([^}]*)\\} from '${end.source}'`, 'g'))].flatMap(([, names = '']) =>
        names
          .split(',')
          .map((name) =>
            name
              .trim()
              .replace(/^type /, '')
              .replace(/ as .*$/, ''),
          )
          .filter((name) => name !== ''),
      );
    const faces = sourcesOf('trace').filter((path) => /^packages\/trace\/src\/(\w+\/)?index\.ts$/.test(path));
    const users = ['packages', 'bench', 'test', 'examples']
      .flatMap((folder) => filesBelow(folder))
      .filter((path) => /\.(tsx?|mjs|md)$/.test(path));
    const imported = new Set(users.flatMap((path) => listOf(read(path), /@ranktrace\/trace(?:\/\w+)?/)));
    expect(listOf(read('packages/trace/src/index.ts'), /[^']+/).length).toBeLessThanOrEqual(80);
    expect(violations(faces, (text) => listOf(text, /[^']+/).filter((name) => !imported.has(name)))).toEqual([]);
  });

  test.for(Object.entries(onlyIn))('%s is imported in its adapter files alone', ([name, files]) => {
    const wrong = violations(sources, (text, path) =>
      files.includes(path) ? [] : importsOf(text).filter((one) => importedPackage(one) === name),
    );
    expect(wrong).toEqual([]);
  });
});

describe('ARCHITECTURE.md', () => {
  test.for(packageNames)('has a line for each room of %s', (name) => {
    const section =
      read('ARCHITECTURE.md')
        .split(/^### /m)
        .find((part) => part.startsWith(`\`packages/${name}\``)) ?? '';
    const rooms = [...section.matchAll(/^\| `([\w-]+)\/` \| .{10,} \|$/gm)].map(([, room]) => room);
    expect(rooms).toEqual((floors[name] ?? []).flat());
  });
});

describe('shape', () => {
  test('process.env is read in three files only, and written in one', () => {
    const wrong = violations(sources, (text, path) =>
      environmentReaders.includes(path) || environmentWriters.includes(path)
        ? []
        : (withoutComments(text).match(/\bprocess\.env\b|\benv\b.*\bfrom 'node:process'/g) ?? []),
    );
    expect(wrong).toEqual([]);
  });

  test('the command writes to its terminal in one file, which lets nothing through that a terminal obeys', () => {
    // Screens and lines that renew themselves need sequences of their own; `main.ts` detects that readers have gone.
    // `check-tfjs` holds the text of a program whose output it reads itself.
    const others = ['commands/top', 'main', 'ranks/check-tfjs', 'ranks/run-status', 'terminal/output'].map(
      (name) => `packages/cli/src/${name}.ts`,
    );
    const wrong = violations(sourcesOf('cli'), (text, path) =>
      others.includes(path) ? [] : (withoutComments(text).match(/\bstd(?:out|err)\.write\(|\bwriteSync\([12],|\bconsole\./g) ?? []),
    );
    expect(wrong).toEqual([]);
  });

  test('files that know rank times or the clocks of ranks leave it to align/ to make trace times of them', () => {
    const wrong = violations(sources, (text, path) => {
      const code = withoutComments(text);
      if (path.startsWith('packages/trace/src/align/') || path === 'packages/protocol/src/units.ts') return [];
      return /\b(RankTime|rankTime|RankClock|FittedClocks)\b/.test(code)
        ? (code.match(/\btraceTime\b(?=\((?!0\)))|\bas TraceTime\b/g) ?? [])
        : [];
    });
    expect(wrong).toEqual([]);
  });

  test('no `export *` and no default export', () => {
    const wrong = violations(sources, (text) => withoutComments(text).match(/\bexport\s*\*|\bexport\s+default\b/g) ?? []);
    expect(wrong).toEqual([]);
  });

  test('no enum, no TODO', () => {
    const enums = violations(sources, (text) => withoutComments(text).match(/^\s*(export\s+)?(const\s+)?enum\s+\w+/gm) ?? []);
    const todos = violations(testSources, (text, path) =>
      path.endsWith('architecture.test.ts') ? [] : (text.match(/\b(TODO|FIXME|XXX)\b/g) ?? []),
    );
    expect([...enums, ...todos]).toEqual([]);
  });

  test('no test is skipped, focused or left for later', () => {
    const wrong = violations(testSources, (text, path) =>
      path.endsWith('architecture.test.ts') ? [] : (text.match(/\b(test|it|describe)\.(only|skip|skipIf|runIf|todo|fails)\b/g) ?? []),
    );
    expect(wrong).toEqual([]);
  });

  test('no folder is called utils, helpers, common or types', () => {
    const wrong = sources
      .concat(testSources)
      .filter((path) => path.split('/').some((part) => /^(utils?|helpers?|common|types|misc|lib)$/.test(part)));
    expect(wrong).toEqual([]);
  });

  test('files are named in kebab-case', () => {
    expect(sources.filter((path) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.worker)?\.tsx?$/.test(posix.basename(path)))).toEqual([]);
  });

  test('every source begins with a comment that says what it is', () => {
    expect(sources.filter((path) => !/^(#!.*\n)?\s*(\/\/|\/\*)/.test(read(path)))).toEqual([]);
  });

  test('a file of more than 500 lines says in its header why', () => {
    const wrong = sources.filter((path) => {
      const text = read(path);
      const header = text.match(/^(?:\s*\/\/[^\n]*\n)*/)?.[0] ?? '';
      return text.split('\n').length > 500 && !/\b(one file|in one file|long because|stay together|together because)\b/i.test(header);
    });
    expect(wrong).toEqual([]);
  });

  test.for(['protocol', 'trace'])('%s stays free of Node and the DOM: the compiler gets a warning', (name) => {
    const { compilerOptions } = JSON.parse(read(`packages/${name}/tsconfig.json`)) as { compilerOptions: Record<string, unknown> };
    expect(compilerOptions).toMatchObject({ lib: ['ES2023'], types: [] });
    const wrong = violations(
      sourcesOf(name),
      (text) => withoutComments(text).match(/['"]node:[^'"]*['"]|\/\/\/\s*<reference[^>]*>|\bDate\.now\b|\bMath\.random\b/g) ?? [],
    );
    expect(wrong).toEqual([]);
  });

  test('the page makes no markup out of text, runs no text, and names no other host', () => {
    const unsafe = /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|eval\(|new Function|srcdoc)\b/g;
    const remote = /['"`(](?:https?:|wss?:)?\/\/[a-z][^'"`)]*/gi;
    const namespace = /^['"]http:\/\/www\.w3\.org\/2000\/svg$/;
    const wrong = violations(pageFiles, (text) => {
      const code = withoutComments(text);
      return [...(code.match(unsafe) ?? []), ...(code.match(remote) ?? []).filter((address) => !namespace.test(address))];
    });
    expect(wrong).toEqual([]);
  });

  test('what the page is made of is named in kebab-case: styles and pictures, too', () => {
    expect(pageFiles.filter((path) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.(test|config|d))?\.[a-z]+$/.test(posix.basename(path)))).toEqual([]);
  });

  test.for(packageNames)('%s has a README that begins with its name', (name) => {
    expect(exists(`packages/${name}/README.md`), `packages/${name}/README.md`).toBe(true);
    expect(read(`packages/${name}/README.md`)).toMatch(/^# \S/);
  });

  test('every package is an ES module with a closed list of exports and the same license', () => {
    for (const name of packageNames) {
      const manifest = JSON.parse(read(`packages/${name}/package.json`)) as Record<string, unknown>;
      expect(manifest, name).toMatchObject({ type: 'module', license: 'Apache-2.0', engines: { node: '>=20.19' } });
    }
  });
});

// The published packages, file by file: our license, those of bundled code of others, and nothing that only tests need.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'ranktrace-tarballs-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** By package: its files below `package/`. */
const tarballs = new Map<string, readonly string[]>();

beforeAll(() => {
  execFileSync(process.execPath, ['release/pack.mjs', '--out', folder], { cwd: repository });
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.tgz'))) {
    const listed = execFileSync('tar', ['-xzvf', file, '--one-top-level'], { cwd: folder, encoding: 'utf8' }).trim().split('\n');
    const { name } = JSON.parse(readFileSync(at(file, 'package.json'), 'utf8')) as { name: string };
    tarballs.set(name, listed.map((path) => path.slice('package/'.length)).sort());
    folders.set(name, file);
  }
});
const folders = new Map<string, string>();
const at = (file: string, path: string): string => join(folder, file.replace(/\.tgz$/, ''), 'package', path);
const filesOf = (name: string): readonly string[] => tarballs.get(name) ?? [];
const textOf = (name: string, path: string): string => readFileSync(at(folders.get(name) ?? '', path), 'utf8');

const libraries = join(repository, 'packages/gpu/dist/native');
const platforms = existsSync(libraries) ? readdirSync(libraries) : [];

it('two packages are published, and the C libraries of each platform that has been built', () => {
  const native = platforms.map((platform) => `@ranktrace/gpu-${platform}`);
  expect([...tarballs.keys()].sort()).toEqual([...native, '@ranktrace/sdk', 'ranktrace'].sort());
});

it.for(platforms)('the libraries for %s install there alone, and bring nothing else', (platform) => {
  const name = `@ranktrace/gpu-${platform}`;
  expect(filesOf(name)).toEqual(['LICENSE', 'README.md', 'libranktrace-nccl-profiler.so', 'package.json', 'ranktrace-gpu.node']);
  const [os, cpu] = platform.split('-');
  expect(JSON.parse(textOf(name, 'package.json'))).toMatchObject({ name, os: [os], cpu: [cpu], libc: ['glibc'] });
});

it.each(['@ranktrace/sdk', 'ranktrace'])('%s has our license, word for word', (name) => {
  expect(textOf(name, 'LICENSE')).toBe(readFileSync(join(repository, 'LICENSE'), 'utf8'));
  expect(JSON.parse(textOf(name, 'package.json'))).toMatchObject({ license: 'Apache-2.0' });
});

it('ranktrace is the command, the page, and the licenses of what is bundled into them', () => {
  const named = filesOf('ranktrace')
    .map((file) => file.replace(/^dist\/shared-[\w-]+\.js$/, 'dist/shared-NAME.js').replace(/-[\w-]{8}\.(css|js)$/, '-HASH.$1'))
    .sort();
  expect([...new Set(named)]).toEqual(
    [
      ...['LICENSE', 'README.md', 'package.json', 'bin/ranktrace.js', 'dist/main.js', 'dist/shared-NAME.js', 'dist/licenses.txt'],
      ...['assets/index-HASH.css', 'assets/index-HASH.js', 'icon.svg', 'index.html', 'licenses.txt'].map(
        (file) => `dist/internal/viewer/page/${file}`,
      ),
      'dist/internal/viewer/report/report.html',
    ].sort(),
  );
});

it('the sdk is few modules, whose types were made of sources that are no tests', () => {
  const { exports } = JSON.parse(textOf('@ranktrace/sdk', 'package.json')) as { exports: Record<string, { default: string }> };
  const entries = Object.values(exports).map((entry) => entry.default.replace('./', ''));
  const modules = filesOf('@ranktrace/sdk').filter((file) => file.endsWith('.js'));
  expect(modules).toEqual(expect.arrayContaining([...entries, 'dist/shipper-worker.js']));
  expect(modules.filter((file) => !entries.includes(file) && !/^dist\/(shared-[\w-]+|shipper-worker)\.js$/.test(file))).toEqual([]);
  const beside = ['LICENSE', 'README.md', 'package.json', 'dist/licenses.txt', ...modules, ...modules.map((file) => `${file}.map`)];
  const unknown = filesOf('@ranktrace/sdk').filter((file) => {
    if (beside.includes(file)) return false;
    const [, room = 'sdk', path = ''] = /^dist\/(?:internal\/(\w+)\/)?(.+)\.d\.ts$/.exec(file) ?? [];
    const isForTests = /\.test$|(^|\/)(testing|tests?|fixtures|golden|data)\//.test(path);
    return path === '' || isForTests || !existsSync(join(repository, 'packages', room, 'src', `${path}.ts`));
  });
  expect(unknown).toEqual([]);
});

describe('licenses of the code of others', () => {
  interface Manifest {
    readonly version: string;
    readonly dependencies?: Readonly<Record<string, string>>;
    readonly devDependencies?: Readonly<Record<string, string>>;
  }
  const manifestAt = (path: string): Manifest => JSON.parse(readFileSync(join(repository, path, 'package.json'), 'utf8')) as Manifest;
  /** A dependency that a package declares and does not install is inside it; tools that build it are not. */
  const bundled = (rooms: readonly string[], outside: readonly string[]): readonly string[] => {
    const declared = rooms.flatMap((room) => {
      const { dependencies, devDependencies } = manifestAt(`packages/${room}`);
      return Object.keys({ ...dependencies, ...devDependencies });
    });
    return [...new Set(declared)].filter((name) => !name.startsWith('@ranktrace/') && !outside.includes(name)).sort();
  };
  const cases = [
    ['the sdk', '@ranktrace/sdk', 'dist/licenses.txt', bundled(['sdk', 'protocol'], ['vite', 'msgpackr'])],
    ['the command', 'ranktrace', 'dist/licenses.txt', bundled(['cli', 'aggregator', 'trace', 'protocol'], ['vite', 'msgpackr'])],
    ['the page', 'ranktrace', 'dist/internal/viewer/page/licenses.txt', bundled(['viewer'], ['vite'])],
    ['the file of a report', 'ranktrace', 'dist/internal/viewer/report/report.html', bundled(['viewer'], ['vite'])],
  ] as const;

  it.each(cases)('%s: each package with its version and its whole license', (_, published, file, names) => {
    expect(names.length).toBeGreaterThan(2);
    const words = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();
    const notices = textOf(published, file);
    for (const name of names) {
      const place = `node_modules/${name}`;
      expect(notices).toContain(`\n## ${name} - ${manifestAt(place).version} (`);
      const license = readdirSync(join(repository, place)).find((one) => /^licen[cs]e/i.test(one)) ?? '';
      expect(words(notices), name).toContain(words(readFileSync(join(repository, place, license), 'utf8')));
    }
  });

  it('what is not bundled is installed beside, with its own license', () => {
    expect(Object.keys((JSON.parse(textOf('ranktrace', 'package.json')) as Manifest).dependencies ?? {})).toEqual(['msgpackr']);
  });
});

// Reads the repository's own files for the tests about them: sources, imports, manual pages.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const repository: string = fileURLToPath(new URL('../..', import.meta.url));

const skipped = new Set(['node_modules', 'dist', '.git', 'coverage', 'ranktrace-out']);

/** Paths of all files below `folder`, relative to the repository, sorted; build output and dependencies left out. */
export function filesBelow(folder: string): string[] {
  const root = join(repository, folder);
  if (!existsSync(root)) return [];
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => !skipped.has(entry.name))
    .flatMap((entry) => {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : [];
    })
    .sort();
}

export const read = (path: string): string => readFileSync(join(repository, path), 'utf8');
export const exists = (path: string): boolean => existsSync(join(repository, path));

/** Folders below packages/ that are packages. */
export const packageNames: readonly string[] = readdirSync(join(repository, 'packages'))
  .filter((name) => exists(`packages/${name}/package.json`))
  .sort();

/** TypeScript sources of one package; tests and what only tests use (`src/testing/`) are not among them. */
export function sourcesOf(name: string): string[] {
  return filesBelow(`packages/${name}/src`).filter((path) => /\.tsx?$/.test(path) && !/\.test\.tsx?$|\/src\/testing\//.test(path));
}

/** Source text without comments; strings stay, for import paths are strings. */
export function withoutComments(text: string): string {
  return text.replaceAll(
    /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\/\*[\s\S]*?\*\/|(?<!:)\/\/[^\n]*/g,
    (_, quoted?: string) => quoted ?? '',
  );
}

/** The imports of a source: static, dynamic, re-exported, `require`d and `new URL('…', import.meta.url)`. */
export function importsOf(text: string): string[] {
  const code = withoutComments(text);
  const forms = [
    /\b(?:import|export)\b[^'"`;()]*?\bfrom\s*['"]([^'"]+)['"]/g,
    /\bimport\s*['"]([^'"]+)['"]/g,
    /\b(?:import|require|require\.resolve)\s*\(\s*['"]([^'"]+)['"]/g,
    /\bnew URL\(\s*['"]([^'"]+)['"]\s*,\s*import\.meta\.url/g,
  ];
  return forms.flatMap((form) => [...code.matchAll(form)].map((match) => match[1] as string));
}

/** `@scope/name` or `name` of a bare import, whatever the path after it. */
export function importedPackage(specifier: string): string {
  const [first = '', second = ''] = specifier.split('/');
  return first.startsWith('@') ? `${first}/${second}` : first;
}

// The repository stands alone: only test/recorded, and benchmarks that can do without them, read recordings of others.

import { describe, expect, test } from 'vitest';
import { filesBelow, read, withoutComments } from './source-files.ts';

const sources = filesBelow('').filter((path) => /\.(tsx?|mjs|cjs|js|py|sh)$/.test(path) && !path.endsWith('recordings.test.ts'));

/** Files with the word: the paths that match nothing of `allowed`. */
const saying = (word: RegExp, allowed: readonly RegExp[]): string[] =>
  sources.filter((path) => !allowed.some((one) => one.test(path)) && word.test(withoutComments(read(path))));

describe('recordings of others', () => {
  test('are read by test/recorded alone, and by benchmarks', () => {
    // Their presence decides which tests vitest and `npm test` run, or report as not run.
    const askers = [/^test\/recorded\//, /^bench\/src\//, /^vitest\.config\.ts$/, /^test\/run\.mjs$/];
    expect(saying(/recordedData|recorded-data|RANKTRACE_RECORDED_DATA|recorded\/recording/, askers)).toEqual([]);
  });

  test('are not looked for beside the project by anybody else', () => {
    // Lines about cases that were not run name the folder.
    const places = [/^test\/recorded\/recorded-data\.mjs$/, /^test\/run\.mjs$/, /^bench\/src\/recordings\.ts$/];
    expect(saying(/shared\/data|\.\.\/shared|'\.\.', 'shared'/, places)).toEqual([]);
  });

  test('are not here: what lies in test/data was made for this project', () => {
    const folders = filesBelow('test/data').map((path) =>
      path
        .split('/')
        .slice(2, path.includes('/kineto/') ? 4 : 3)
        .join('/'),
    );
    const recorded = ['torch-reference', 'ddp-4rank', 'gpu-jobs', 'make_torch_reference.py', 'make_ddp_4rank.py', 'make_gpu_jobs.py'];
    const own = recorded.map((name) => `kineto/${name}`);
    expect([...new Set(folders)].sort()).toEqual([...own, 'README.md', 'flight-recorder', 'store-v1', 'store-v2'].sort());
  });

  test('each have a public original that test/recorded/README.md names', () => {
    const readme = read('test/recorded/README.md');
    const cases = filesBelow('test/recorded').filter((path) => path.endsWith('.test.ts'));
    const roots = cases.flatMap((path) => [...read(path).matchAll(/['"`](kineto|clock|steptime|ndtimeline)\/([\w-]+)/g)]);
    expect(roots.length).toBeGreaterThan(10);
    for (const [, folder, name = ''] of roots) {
      const said = [`${folder}/${name}`, `${folder}/${name.replace(/_.*/, '_')}`];
      expect(
        said.some((path) => readme.includes(path)),
        `${folder}/${name}`,
      ).toBe(true);
    }
    // Repository and commit or path of each row.
    for (const row of readme.split('\n').filter((line) => line.startsWith('| `')))
      expect(row).toMatch(/github\.com\/[\w-]+\/[\w.-]+.*(@[0-9a-f]{7}|`\w+)/);
  });
});

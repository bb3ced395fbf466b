import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { SourcePositions } from './source-positions.ts';

const folder = mkdtempSync(join(tmpdir(), 'ranktrace-positions-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Generated line 1, column 0 is line 5 of the first source; line 2, column 4 is line 9 of it; line 3 has no source. */
const mappings = 'AAIA;IAIA';
const map = (more: object = {}) => ({ version: 3, sources: ['../src/train.ts'], names: [], mappings, ...more });
const inline = (value: unknown) => `data:application/json;charset=utf-8;base64,${Buffer.from(JSON.stringify(value)).toString('base64')}`;

let files = 0;
/** A script that names `address` as its map. */
function script(address: string, comment = '//# sourceMappingURL='): string {
  const path = join(folder, `${files++}.js`);
  writeFileSync(path, `first();\n    second();\n        helper();\n${comment}${address}\n`);
  return path;
}
function beside(content: string): string {
  const name = `${files++}.map`;
  writeFileSync(join(folder, name), content);
  return script(name);
}

const source = join(folder, '../src/train.ts');

test('follows a map in the file, and one in a file beside it', () => {
  for (const path of [script(inline(map())), beside(JSON.stringify(map())), beside(`)]}'\n${JSON.stringify(map())}`)]) {
    const positions = new SourcePositions();
    expect(positions.locate(path, 1, 1)).toEqual({ path: source, line: 5 });
    expect(positions.locate(pathToFileURL(path).href, 2, 9)).toEqual({ path: source, line: 9 });
  }
});

test('code without a source keeps its own position', () => {
  const path = script(inline(map()));
  expect(new SourcePositions().locate(path, 3, 9)).toEqual({ path, line: 3 });
});

test('sources are relative to sourceRoot where there is one', () => {
  const rooted = map({ sourceRoot: '/app', sources: ['src/train.ts'] });
  expect(new SourcePositions().locate(script(inline(rooted)), 1, 1)).toEqual({ path: '/app/src/train.ts', line: 5 });
  const webpack = map({ sources: ['webpack://app/./src/train.ts'] });
  expect(new SourcePositions().locate(script(inline(webpack)), 1, 1)).toEqual({ path: 'webpack://app/src/train.ts', line: 5 });
});

test('follows a map in sections', () => {
  const sections = { version: 3, sections: [{ offset: { line: 1, column: 0 }, map: map() }] };
  expect(new SourcePositions().locate(script(inline(sections)), 2, 1)).toEqual({ path: source, line: 5 });
});

test('the last map that a file names is the one, and one inside of a string is none', () => {
  const path = join(folder, 'two.js');
  writeFileSync(path, `first();\nconst s = "\\n//# sourceMappingURL=wrong.map";\n//# sourceMappingURL=${inline(map())}`);
  expect(new SourcePositions().locate(path, 1, 1).line).toBe(5);
  const text = join(folder, 'text.js');
  writeFileSync(text, `const s = \`\n//# sourceMappingURL=\${x}\`;`);
  expect(new SourcePositions().locate(text, 1, 1)).toEqual({ path: text, line: 1 });
});

test.each<[string, string]>([
  ['no such map', 'gone.map'],
  ['a map of another host', 'https://example.org/a.map'],
  ['no JSON', inline('{').slice(0, -4)],
  ['JSON that is no map', inline(7)],
  ['null', inline(null)],
  ['mappings that are none', inline(map({ mappings: 7 }))],
  ['mappings over the limit', inline(map({ mappings: 'A;'.repeat(3 * 1024 * 1024) }))],
  ['sources that are none', inline(map({ sources: 7 }))],
  ['sections that are none', inline({ version: 3, sections: [7, null] })],
  ['a folder', '.'],
])('%s gives the position in the file', (_what, address) => {
  const path = script(address);
  expect(new SourcePositions().locate(path, 1, 1)).toEqual({ path, line: 1 });
});

test('what is no file is named as it is', () => {
  const positions = new SourcePositions();
  expect(positions.locate('evalmachine.<anonymous>', 3, 1)).toEqual({ path: 'evalmachine.<anonymous>', line: 3 });
  expect(positions.locate('/no/such.js', 3, 1)).toEqual({ path: '/no/such.js', line: 3 });
  expect(positions.locate('file:///app/train.js?v=2', 3, 1)).toEqual({ path: '/app/train.js', line: 3 });
  expect(positions.locate(`data:text/javascript,${'x'.repeat(9999)}`, 3, 1).path).toHaveLength(513);
});

test('never throws, whatever the map', () => {
  const damaged = fc.oneof(fc.string(), fc.stringMatching(/^[A-Za-z+/,;]{0,60}$/), fc.anything());
  fc.assert(
    fc.property(damaged, damaged, fc.integer(), fc.integer(), (lines, sources, line, column) => {
      let address: string;
      try {
        address = inline({ version: 3, mappings: lines, sources });
      } catch {
        address = 'x'; // A bigint is no JSON.
      }
      expect(typeof new SourcePositions().locate(script(address), line, column).line).toBe('number');
    }),
    { seed: 5, numRuns: 300 },
  );
});

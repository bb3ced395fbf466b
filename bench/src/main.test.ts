import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const bench = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });

describe('npm run bench', () => {
  it('lists every benchmark with a line on --help', () => {
    const { status, stdout } = bench('--help');
    expect(status).toBe(0);
    for (const name of ['recorder', 'overhead', 'wire', 'ingest', 'table', 'clock', 'merge', 'viewer', 'detect']) {
      expect(stdout).toMatch(new RegExp(`^ {2}${name} +\\S.{20,}$`, 'm'));
    }
  });

  it('refuses a name that does not exist, and says which do', () => {
    const { status, stderr } = bench('wires');
    expect(status).toBe(2);
    expect(stderr).toContain('there is no "wires"; there are recorder, overhead, wire,');
  });
});

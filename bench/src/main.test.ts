import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const bench = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });

describe('npm run bench', () => {
  it('lists every benchmark with a line on --help', () => {
    const { status, stdout } = bench('--help');
    expect(status).toBe(0);
    for (const name of ['recorder', 'overhead', 'python', 'wire', 'ingest', 'table', 'clock', 'merge', 'viewer', 'detect', 'soak']) {
      expect(stdout).toMatch(new RegExp(`^ {2}${name} +\\S.{20,}$`, 'm'));
    }
  });

  it('refuses seconds that are none', () => {
    const { status, stderr } = bench('soak', '--seconds', 'ten');
    expect(status).toBe(2);
    expect(stderr).toContain('--seconds must be 10 to 86400, got "ten"');
  });

  it('refuses a name that does not exist, and says which do', () => {
    const { status, stderr } = bench('wires');
    expect(status).toBe(2);
    expect(stderr).toContain('there is no "wires"; there are recorder, overhead, python, agent, gpu, wire,');
  });
});

// `npm run release -- --out DIR`: packs the published packages (@ranktrace/sdk and ranktrace) as tarballs, each complete without the other packages
// of this repository, and the C libraries that were built here (@ranktrace/gpu-linux-x64). Prints a line for each tarball; `npm publish FILE`
// publishes one.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { builtPlatforms, publishedNames, stageLibraries, stagePackage } from './stage-package.mjs';

function pack(out) {
  mkdirSync(out, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-release-'));
  try {
    const stages = [
      ...publishedNames.map((name) => (staged) => stagePackage(name, staged)),
      ...builtPlatforms().map((platform) => (staged) => stageLibraries(platform, staged)),
    ];
    for (const [index, stage] of stages.entries()) {
      const staged = join(folder, `${index}`);
      mkdirSync(staged);
      stage(staged);
      const printed = execFileSync('npm', ['pack', '--json', '--pack-destination', out], { cwd: staged, encoding: 'utf8' });
      const [packed] = Object.values(JSON.parse(printed));
      const kilobytes = (bytes) => `${Math.round(bytes / 1000)} kB`;
      const path = relative(process.cwd(), join(out, packed.filename));
      console.log(`${path}: ${kilobytes(packed.size)}, ${packed.entryCount} files of ${kilobytes(packed.unpackedSize)}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } });
  pack(resolve(values.out));
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 2;
}

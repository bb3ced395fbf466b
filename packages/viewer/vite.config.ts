// The page as static files below dist/page: no request leaves the host that serves it.

import { defaultClientConditions, defineConfig, type UserConfig } from 'vite';
import { reportFile } from './report-file.ts';

const shared = {
  base: './',
  // Packages of this repository are read from their sources: the page needs no build of theirs.
  resolve: { conditions: ['source', ...defaultClientConditions] },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2023',
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The page needs no schemas of messages between services: without this, half of its script is a validator that never runs.
    rolldownOptions: { treeshake: { moduleSideEffects: (id) => !/\/(protocol|zod|msgpackr)\//.test(id) } },
  },
  logLevel: 'warn',
} satisfies UserConfig;

export default defineConfig({
  ...shared,
  plugins: [reportFile(shared)],
  build: {
    ...shared.build,
    outDir: 'dist/page',
    emptyOutDir: true,
    // Everything is a file of its own: the page's Content-Security-Policy allows no data: scripts or styles.
    assetsInlineLimit: 0,
    // The page carries code of other packages, and so their licenses.
    license: { fileName: 'licenses.txt' },
  },
});

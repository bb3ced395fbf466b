// The page as static files below dist/page: no request leaves the host that serves it.

import { defaultClientConditions, defineConfig } from 'vite';

export default defineConfig({
  base: './',
  // Packages of this repository are read from their sources: the page needs no build of theirs.
  resolve: { conditions: ['source', ...defaultClientConditions] },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: 'dist/page',
    emptyOutDir: true,
    target: 'es2023',
    // Everything is a file of its own: the page's Content-Security-Policy allows no data: scripts or styles.
    assetsInlineLimit: 0,
    // The page carries code of other packages, and so their licenses.
    license: { fileName: 'licenses.txt' },
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The page needs no schemas of messages between services: without this, half of its script is a validator that never runs.
    rolldownOptions: { treeshake: { moduleSideEffects: (id) => !/\/(protocol|zod|msgpackr)\//.test(id) } },
  },
  logLevel: 'warn',
});

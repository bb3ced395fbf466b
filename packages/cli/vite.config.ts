// The command as one file: hundreds of modules, loaded one by one, made each start of it wait for half a second.

import { defaultServerConditions, defineConfig } from 'vite';

export default defineConfig({
  build: {
    ssr: 'src/main.ts',
    outDir: 'dist',
    // tsc's declarations lie beside it.
    emptyOutDir: false,
    target: 'node20',
    // The command carries code of other packages, and so their licenses.
    license: { fileName: 'licenses.txt' },
    reportCompressedSize: false,
    // Transports of the SDK are imported when they are needed: here they lie in the same file.
    rolldownOptions: { output: { codeSplitting: false } },
  },
  ssr: {
    // All but msgpackr and koffi, which look for their native parts beside their own files.
    noExternal: true,
    external: ['msgpackr', 'koffi'],
    // Packages of this repository are read from their sources. Without `module`: builds for bundlers are not those that the tests run.
    resolve: { conditions: ['source', ...defaultServerConditions.filter((name) => name !== 'module')] },
  },
  logLevel: 'warn',
});

// The SDK as few files: as some 150 modules, half of them of zod, each rank took 0.2 s longer to start, and a job of many ranks asked its shared file
// system for all of them at once.
//
// The files that programs load lie in one folder: whichever holds the code that starts the worker finds it beside itself.

import { defaultServerConditions, defineConfig } from 'vite';

export default defineConfig({
  build: {
    ssr: true,
    outDir: 'dist',
    // tsc's declarations lie beside them.
    emptyOutDir: false,
    target: 'node20',
    // The files carry code of other packages, and so their licenses.
    license: { fileName: 'licenses.txt' },
    sourcemap: true,
    reportCompressedSize: false,
    rolldownOptions: {
      input: {
        index: 'src/index.ts',
        'open-telemetry': 'src/open-telemetry.ts',
        register: 'src/register.ts',
        shipping: 'src/shipping.ts',
        'shipper-worker': 'src/thread/shipper-worker.ts',
        // Of these the package exports nothing: benches and tests load them in processes and threads of their own.
        ...Object.fromEntries(
          ['profile/thread-recorder', 'sample/nvidia-smi', 'ship/spool', 'ship/spool-folders', 'ship/spool-owner'].map((name) => [
            name,
            `src/${name}.ts`,
          ]),
        ),
      },
      output: { entryFileNames: '[name].js', chunkFileNames: 'shared-[name].js' },
    },
  },
  ssr: {
    // All but msgpackr, which looks for its native part beside its own files.
    noExternal: true,
    external: ['msgpackr'],
    // Packages of this repository are read from their sources. Without `module`: builds for bundlers are not those that the tests run.
    resolve: { conditions: ['source', ...defaultServerConditions.filter((name) => name !== 'module')] },
  },
  logLevel: 'warn',
});

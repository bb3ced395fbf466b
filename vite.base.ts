// What the builds of the SDK and of the command share: packages for Node, with the code of all that they use, and its licenses.

import { type BuildEnvironmentOptions, defaultServerConditions, type UserConfig } from 'vite';

/** `outside`: packages that are installed beside, because they look for their native parts beside their own files. */
export const nodePackage = (outside: string[], build: BuildEnvironmentOptions): UserConfig => ({
  build: {
    outDir: 'dist',
    // tsc's declarations lie beside it.
    emptyOutDir: false,
    target: 'node20',
    license: { fileName: 'licenses.txt' },
    reportCompressedSize: false,
    ...build,
  },
  ssr: {
    noExternal: true,
    external: outside,
    // Packages of this repository are read from their sources. Without `module`: builds for bundlers are not those that the tests run.
    resolve: { conditions: ['source', ...defaultServerConditions.filter((name) => name !== 'module')] },
  },
  logLevel: 'warn',
});

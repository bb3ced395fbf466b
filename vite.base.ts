// The settings of a build for Node, as the SDK and the command have it: the code of all that the package uses is in it, with the licenses.

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

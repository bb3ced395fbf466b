// Three projects, from fast to slow: `unit` beside the sources, `repository` (rules about the code and the manual), `cluster` (child
// processes, a real nats-server, Chromium). Tests read `src` through the `source` condition; child processes and worker threads run
// `dist`, which the global setup builds once per run, so that it is never stale.

import { defaultClientConditions, defaultServerConditions } from 'vite';
import { defineConfig } from 'vitest/config';

const sources = {
  resolve: { conditions: ['source', ...defaultClientConditions] },
  // Without `module`, which Node does not know: packages keep builds for bundlers behind it (@opentelemetry/api) that Node cannot load.
  ssr: {
    resolve: {
      conditions: ['source', ...defaultServerConditions.filter((name) => name !== 'module')],
      externalConditions: ['source', 'node', 'module-sync'],
    },
  },
};

const minute = 60_000;

export default defineConfig({
  ...sources,
  test: {
    globalSetup: ['test/setup/real-parts.ts'],
    // Two cores run the suite; more workers than cores only make timings noisy.
    maxWorkers: 2,
    projects: [
      {
        ...sources,
        test: {
          name: 'unit',
          include: ['packages/*/src/**/*.test.ts', 'examples/*/src/**/*.test.ts', 'bench/src/**/*.test.ts'],
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      {
        ...sources,
        test: { name: 'repository', include: ['test/repository/**/*.test.ts'] },
      },
      {
        ...sources,
        test: {
          name: 'cluster',
          include: ['test/*.test.ts'],
          testTimeout: 3 * minute,
          hookTimeout: 2 * minute,
          // Each file starts processes of its own; one at a time keeps two cores honest.
          fileParallelism: false,
        },
      },
    ],
  },
});

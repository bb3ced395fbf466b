// Projects, from fast to slow: `unit` and `sdk` (those that need a process of their own) beside the sources, `repository` (rules about the code and the manual),
// `jobs` (whole simulated ones) and `services` (servers and processes) beside the sources, `cluster` (child processes, a real nats-server, Chromium); and `recorded`,
// where recordings of others are found (test/recorded/README.md). Tests read `src` through the `source` condition; child processes and worker threads
// run `dist`, which the global setup builds once per run, so that it is never stale.

import { defaultClientConditions, defaultServerConditions } from 'vite';
import { defineConfig } from 'vitest/config';
import { recordedData } from './test/recorded/recorded-data.mjs';

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

/** On a busy machine a page, or a service, may take long to show something. */
const patient = { poll: { timeout: 2 * minute } };

/** Two cores run the suite. Tests that compute keep them busy, but for a file that waits now and then; tests of whole programs wait for those. */
const computing = { maxWorkers: 3, sequence: { groupOrder: 0 }, expect: patient };
const waiting = { maxWorkers: 4, sequence: { groupOrder: 1 }, expect: patient };

/** A rank on a busy machine may need long for its last batches. A test whose receiver is away says how long its ranks wait for it. */
const patientRanks = { RANKTRACE_EXIT_DEADLINE_MS: '120000' };

/** Beside the sources, and too slow for `npm run check`: whole jobs and clusters are simulated again and again, and what is said of them compared. */
const jobs = [
  'packages/trace/src/align/fit-clocks.test.ts',
  'packages/trace/src/analyse/run-analysis.test.ts',
  'packages/trace/src/blame/{long-steps,phase-steps,run-blame-sink,sometimes-slow,step-blame-sink}.test.ts',
  'packages/trace/src/detect/{compare-series,learnt-noise,long-step-detector,series-detector}.test.ts',
  'packages/trace/src/gpu/{gpu-blame,what-if}.test.ts',
  'packages/trace/src/merge/{align-run,merge-stretches,stepping-clusters}.test.ts',
  'packages/trace/src/ndtimeline/ndtimeline-source.test.ts',
  'packages/trace/src/timeline/report-data.test.ts',
  'packages/trace/src/torch/{align-kineto,counted-collectives,spilled-rows}.test.ts',
];

/** Beside the sources, and too slow for `npm run check`, too: they start servers and processes, flood sockets, or train models. */
const services = [
  'packages/agent/src/kineto/kineto-daemon.test.ts',
  'packages/aggregator/src/http/certificate.test.ts',
  'packages/aggregator/src/capture/capture-steps.test.ts',
  'packages/aggregator/src/ingest/{jetstream-ingest,stream-upkeep,web-socket-ingest}.test.ts',
  'packages/aggregator/src/store/{write-trace,run-store,run-store-kill}.test.ts',
  'packages/aggregator/src/alert/{alert-cause,alert-delivery,alert-service,unfinished-runs}.test.ts',
  'packages/aggregator/src/prune/prune-kill.test.ts',
  'packages/aggregator/src/view/{follow-store,view-socket*}.test.ts',
  'packages/gpu/src/nccl-profiler.test.ts',
  'packages/sdk/src/open-telemetry.test.ts',
  'packages/sdk/src/profile/{fit-callback,odd-values,profile,sampled-ops}.test.ts',
  'packages/sdk/src/sample/nvidia-smi.test.ts',
  'packages/sdk/src/transport/*.test.ts',
];

/** Files that put something in place of TensorFlow.js's engine or backends, which are globals of a process, or look for it where it is not loaded. */
const ownProcess = [
  'packages/sdk/src/tfjs/{attach-tfjs,await-engine,await-tfjs,device-fence,find-tfjs,native-binding,step-finder}.test.ts',
];

// test/run.mjs lists the cases where they cannot run, to say how many they are.
const isRecorded = recordedData() !== undefined || process.env.RANKTRACE_TEST_LIST_RECORDED === '1';
const recorded = !isRecorded
  ? []
  : [
      {
        ...sources,
        test: {
          ...waiting,
          name: 'recorded',
          include: ['test/recorded/**/*.test.ts'],
          globalSetup: ['test/setup/command-module.ts'],
          testTimeout: 5 * minute,
          hookTimeout: 5 * minute,
        },
      },
    ];

// Only `npm run check:native` sets it, having built what these tests load.
const native =
  process.env.RANKTRACE_NATIVE_TFJS === undefined
    ? []
    : [
        {
          ...sources,
          test: { ...waiting, name: 'native', include: ['test/native/**/*.test.ts'], testTimeout: 5 * minute, hookTimeout: 5 * minute },
        },
      ];

export default defineConfig({
  ...sources,
  test: {
    globalSetup: ['test/setup/real-parts.ts'],
    // Transformed modules stay in node_modules/.experimental-vitest-cache, by content and settings: a run of one file needs a quarter less CPU time.
    experimental: { fsModuleCache: true },
    projects: [
      {
        ...sources,
        test: {
          ...computing,
          name: 'unit',
          include: ['{packages,examples}/*/src/**/*.test.ts', 'bench/src/**/*.test.ts'],
          exclude: [...ownProcess, ...jobs, ...services],
          // No module here has state of its own, so files share what they import: a fifth of the CPU time.
          isolate: false,
          testTimeout: 5 * minute,
          hookTimeout: 5 * minute,
        },
      },
      {
        ...sources,
        test: { ...computing, name: 'jobs', include: jobs, isolate: false, testTimeout: 5 * minute, hookTimeout: 5 * minute },
      },
      {
        ...sources,
        test: {
          ...computing,
          name: 'sdk',
          include: ownProcess,
          testTimeout: 5 * minute,
          hookTimeout: 5 * minute,
        },
      },
      {
        ...sources,
        test: {
          ...computing,
          name: 'repository',
          include: ['test/repository/**/*.test.ts'],
          isolate: false,
          testTimeout: 5 * minute,
          hookTimeout: 5 * minute,
        },
      },
      {
        ...sources,
        test: {
          ...waiting,
          name: 'services',
          include: services,
          isolate: false,
          env: patientRanks,
          testTimeout: 5 * minute,
          hookTimeout: 5 * minute,
        },
      },
      {
        ...sources,
        test: {
          ...waiting,
          name: 'cluster',
          include: ['test/*.test.ts'],
          globalSetup: ['test/setup/command-module.ts'],
          // Files share what they import, and the process in which command lines run.
          isolate: false,
          env: patientRanks,
          testTimeout: 5 * minute,
          hookTimeout: 5 * minute,
        },
      },
      ...recorded,
      ...native,
    ],
  },
});

import { describe, expect, it } from 'vitest';
import { type ClusterOptions, resolveCluster, type StragglingPhase } from './simulation-options.ts';

const refused = (options: ClusterOptions): string => {
  try {
    resolveCluster(options, (option) => `--${option}`);
  } catch (error) {
    return (error as Error).message;
  }
  return 'accepted';
};

describe('options of a simulated cluster', () => {
  it('have defaults', () => {
    expect(resolveCluster({})).toMatchObject({ ranks: 16, hosts: 2, seconds: 30, steps: undefined, stepMs: 200, seed: 0, driftPpm: 10 });
    expect(resolveCluster({ ranks: 9 }).hosts).toBe(2);
    expect(resolveCluster({ ranks: 1024, ranksPerHost: 16 }).hosts).toBe(64);
    expect(resolveCluster({ steps: 5 })).toMatchObject({ steps: 5, seconds: undefined });
  });

  it.for<[ClusterOptions, string]>([
    [{ ranks: 0 }, '--ranks must be a whole number from 1 to 1024, got 0'],
    [{ ranks: 1025 }, '--ranks must be a whole number from 1 to 1024, got 1025'],
    [{ ranks: 2, hosts: 3 }, '--hosts must be a whole number from 1 to 2, got 3'],
    [{ hosts: 2, ranksPerHost: 8 }, 'give --hosts or --ranksPerHost, not both'],
    [{ seconds: 5, steps: 5 }, 'give --seconds or --steps, not both'],
    [{ seconds: Number.NaN }, '--seconds must be 0.001 to 14400, got NaN'],
    [{ steps: 1_000_000, stepMs: 60_000 }, '--steps must be at most 240 of 60000 ms, got 1000000'],
    [{ stepMs: 0 }, '--stepMs must be 1 to 60000, got 0'],
    [{ seed: -1 }, `--seed must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}, got -1`],
    [{ driftPpm: -1 }, '--driftPpm must be 0 to 1000, got -1'],
    [{ lost: 1 }, '--lost must be 0 to 0.9, got 1'],
    [{ ranks: 8, tensorParallel: 3 }, '--ranks must be a multiple of --tensorParallel 3 times --pipeline 1, got 8'],
    [{ clockSteps: [{ host: 2, seconds: 1, micros: 5 }] }, '--clockSteps must be of a host from 0 to 1, got 2'],
    [{ clockSteps: [{ host: 0, seconds: -1, micros: 5 }] }, '--clockSteps must be at 0 to 14400 s, got -1'],
    [{ clockSteps: [{ host: 0, seconds: 1, micros: Number.NaN }] }, '--clockSteps must be within ±60000000 µs, got NaN'],
    [{ stragglers: [{ rank: 16, phase: 'data', ms: 5 }] }, '--stragglers must be of a rank from 0 to 15, got 16'],
    [
      { stragglers: [{ rank: 0, phase: 'sleep' as StragglingPhase, ms: 5 }] },
      '--stragglers must be in data, forward, backward, optimizer, got "sleep"',
    ],
    [{ stragglers: [{ rank: 0, phase: 'data', ms: 0 }] }, '--stragglers must be above 0 and up to 600000 ms, got 0'],
    [{ stragglers: [{ rank: 0, phase: 'data', ms: 1, step: 0.5 }] }, '--stragglers must be at a step from 0, got 0.5'],
    [{ noPings: [2] }, '--noPings must be a host from 0 to 1, got 2'],
  ])('refuse %j', ([options, message]) => {
    expect(refused(options)).toBe(`Cannot simulate: ${message}`);
  });
});

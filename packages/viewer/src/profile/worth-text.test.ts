import { expect, it } from 'vitest';
import { worthText } from './worth-text.ts';

it('names a part of the path, and all that is bound so', () => {
  const all = ['cpu', 'compute', 'communication', 'copy', 'launch', 'gap', 'of-a-newer-service'].map((bound) =>
    worthText({ bound, name: null }),
  );
  expect(all).toEqual([
    'all work of hosts',
    'all kernels that compute',
    'all transfers',
    'all copies',
    'all launches',
    'all gaps between kernels',
    'all of-a-newer-service',
  ]);
  expect(worthText({ bound: 'compute', name: 'gemm' }, (name) => name.toUpperCase())).toBe('GEMM');
  expect([worthText({ bound: 'cpu', name: 'forward' }), worthText({ bound: 'cpu', name: '' })]).toEqual([
    'host, forward',
    'host, outside of phases',
  ]);
});

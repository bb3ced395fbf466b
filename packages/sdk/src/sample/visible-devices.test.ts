import { expect, test } from 'vitest';
import { visibleDevices } from './visible-devices.ts';

const check = (cudaVisibleDevices: string | undefined, localRank: number | undefined, expected: readonly string[] | 'last' | undefined) =>
  expect(visibleDevices({ cudaVisibleDevices, hasLauncher: localRank !== undefined })).toEqual(expected);

test('reads the variable as torch does', () => {
  // From test/test_cuda_nvml_based_avail.py, test_env_var_parsing.
  check('1gpu2,2ampere', undefined, ['1', '2']);
  check('0, 1, 2, -1, 3', undefined, ['0', '1', '2']);
  check('0, 1, 2, 1', undefined, []);
  check('2, +3, -0, 5', undefined, ['2', '3', '0', '5']);
  check('one,two,3,4', undefined, []);
  check('4,3,two,one', undefined, ['4', '3']);
  check('GPU-9e8d35e3', undefined, ['GPU-9e8d35e3']);
  check('GPU-123, 2', undefined, ['GPU-123']);
  check('MIG-89c850dc', undefined, ['MIG-89c850dc']);
});

test("reads NVIDIA's own examples", () => {
  // CUDA programming guide, environment variables.
  check('2,1', undefined, ['2', '1']);
  check('0,2,-1,1', undefined, ['0', '2']);
  check('GPU-8932f937-d72c-4106-c12f-20bd9faed9f6', undefined, ['GPU-8932f937-d72c-4106-c12f-20bd9faed9f6']);
});

test('shows a launched rank the one device that it computes on: the last that it sees, whatever its local rank', () => {
  check('4,6', 1, ['6']);
  check('4,6', 0, ['6']);
  check('4,6', 7, ['6']);
  check('GPU-aaaa1111,GPU-bbbb2222', 0, ['GPU-bbbb2222']);
  check('3', 2, ['3']);
  check(undefined, 5, 'last');
});

test('shows all where nobody says which', () => {
  check(undefined, undefined, undefined);
  check('4,6', undefined, ['4', '6']);
});

test('shows none where there is none', () => {
  for (const text of ['', '-1', 'NoDevFiles', ' ', ',0']) check(text, 0, []);
});

test('lets nothing through that is not a device', () => {
  check('GPU-1;rm -rf /', undefined, []);
  check('99999999999999999999', undefined, []);
  check(Array.from({ length: 100_000 }, (_, index) => index).join(','), 63, ['63']);
  expect(visibleDevices({ cudaVisibleDevices: '0,1,2,3,'.repeat(100_000), hasLauncher: false })).toEqual([]);
});

// Valid and invalid environments and command lines.

import { expect, test } from 'vitest';
import { readOptions } from './options.ts';

test('with nothing said, this is rank 0 of 1', () => {
  expect(readOptions([], {})).toMatchObject({ rank: 0, worldSize: 1, masterAddress: '127.0.0.1', epochs: 10, maxSteps: Infinity });
});

test('the place comes from torchrun’s variables, and a flag is stronger than EPOCHS', () => {
  const environment = { RANK: '3', WORLD_SIZE: '4', MASTER_ADDR: '10.0.0.7', MASTER_PORT: '29600', EPOCHS: '9' };
  expect(readOptions(['--max-steps', '12'], environment)).toEqual({
    rank: 3,
    worldSize: 4,
    masterAddress: '10.0.0.7',
    masterPort: 29600,
    epochs: 9,
    maxSteps: 12,
  });
  expect(readOptions(['--epochs', '2'], environment).epochs).toBe(2);
});

test.each([
  [['--epochs', 'many'], {}, 'Cannot use --epochs "many": it must be a whole number of at least 1'],
  [['--max-steps', ''], {}, 'Cannot use --max-steps "": it must be a whole number of at least 1'],
  [[], { RANK: '4', WORLD_SIZE: '4' }, 'Cannot use RANK "4": it must be a whole number from 0 to 3'],
  [[], { MASTER_PORT: '0' }, 'Cannot use MASTER_PORT "0": it must be a whole number from 1 to 65535'],
])('%j %j is refused by name', (args, environment, message) => {
  expect(() => readOptions(args, environment)).toThrow(message);
});

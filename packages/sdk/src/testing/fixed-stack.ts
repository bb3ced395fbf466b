// The same stack for every op.

import type { OpStacks } from '../tfjs/engine-hooks.ts';

export const fixedStack = (text: string): OpStacks => ({
  captureAt: () => ({ text, id: text === '' ? 0 : -1 }),
  pass: () => {},
  hold: () => undefined,
});

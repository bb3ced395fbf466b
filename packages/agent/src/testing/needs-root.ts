import type { TestContext } from 'vitest';

/** Skips a test about processes of several users where this is not root. */
export function needsRoot({ task, skip }: TestContext): void {
  if (process.getuid?.() === 0) return;
  const reason = 'only root can start processes of other users';
  Object.assign(task.meta, { impossibleHere: reason });
  skip(reason);
}

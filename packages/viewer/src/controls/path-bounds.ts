// What bounds a part of the critical path, in words: the same on the timeline and in the profile.

const words: Readonly<Record<string, string>> = {
  cpu: 'host',
  compute: 'compute',
  communication: 'communication',
  copy: 'copies',
  gap: 'gaps between kernels',
  launch: 'launches',
  none: 'waits',
};

export const boundText = (bound: string): string => words[bound] ?? bound;

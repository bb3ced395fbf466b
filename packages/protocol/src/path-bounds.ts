// The bounds of a critical path's parts, in words: the same in the report, on the timeline and in the profile.

export const pathBoundNames = {
  cpu: 'host',
  compute: 'compute',
  communication: 'communication',
  copy: 'copies',
  gap: 'gaps between kernels',
  launch: 'launches',
  none: 'waits',
} as const;

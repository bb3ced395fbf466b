// Edges of a critical path, and the spans and work that they lie in.

import { classOf } from './kernel-class.ts';

export const edgeKinds = ['op', 'kernel', 'launch', 'gap', 'dependency', 'sync'] as const;
export type EdgeKind = (typeof edgeKinds)[number];
/** Index into `edgeKinds`. */
export const edgeKindNumber: Readonly<Record<EdgeKind, number>> = { op: 0, kernel: 1, launch: 2, gap: 3, dependency: 4, sync: 5 };

/** The resource that bounds an edge of the path. */
export const pathBounds = ['cpu', 'compute', 'communication', 'copy', 'gap', 'launch', 'none'] as const;
export type PathBound = (typeof pathBounds)[number];

/** The bound of work of a class. */
export function boundOfClass(of: number): 'compute' | 'communication' | 'copy' {
  if (of === classOf.communication) return 'communication';
  return of === classOf.memory ? 'copy' : 'compute';
}

/** Steps of the graph where steps overlap: the last ones save, each, what every step saves. */
export const overlappingSteps = 3;

/** A node may end nothing, the graph's last step, or where it has several, the first one. */
export const pathEnd = { none: 0, step: 1, firstStep: 2 } as const;
export type PathEnd = (typeof pathEnd)[keyof typeof pathEnd];

/** One edge of the path. */
export interface PathEdge {
  readonly kind: EdgeKind;
  readonly bound: PathBound;
  /** ns; below 0 where a clock error lets work begin before its call. */
  readonly weight: number;
  /** Number of the name of the span or work in which it lies, or which it leads to. */
  readonly name: number;
}

/** The work or the span of the host that an edge lies in. */
export interface PathSpan {
  readonly isWork: boolean;
  /** Tells spans of the host apart, −1 for work and for time between ops. */
  readonly row: number;
  readonly name: number;
  readonly start: number;
  readonly end: number;
}

export const noBounds = (): Record<PathBound, number> => ({ cpu: 0, compute: 0, communication: 0, copy: 0, gap: 0, launch: 0, none: 0 });

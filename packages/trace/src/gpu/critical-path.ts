// The critical path of one rank, as HTA defines it: the longest way through the begins and ends of ops, calls and device work in a stretch of time.
//
//   host      linear ┬─ addmm ┬─ launch ┬──┴──┴─ …  synchronize ─────┬
//                    op       op        │launch                      │ sync
//   stream 7                            └──► gemm ──── gap ──► gemm ─┘
//
//   edge            from → to                                                weight
//   op              next begin or end within the ops of a thread             time between them; 0 for the end of a call that waits
//   kernel          begin → end of device work                               its length
//   launch          call → work that found an empty queue                    time between them
//   gap             end of work → begin of the next on its stream            time between them; none where it is longer than 1.5 ms
//   dependency      end of a thread's outermost op → begin of its next one   0
//   sync            end of work → end of the call, or begin of the work, that waits for it   0
//
// Source: hta/analyzers/critical_path_analysis.py (facebookresearch/HolisticTraceAnalysis @f4d0062).

import type { RankWork } from './device-work.ts';
import { noBounds, type PathBound, type PathEdge } from './path-edges.ts';
import { PathGraph } from './path-graph.ts';
import { nodesOf, RankPath } from './rank-path.ts';

export interface CriticalPath {
  readonly nodes: number;
  readonly edges: number;
  /** The longest path, in order. */
  readonly path: readonly PathEdge[];
  /** Time on the path by what bounds it, ns. */
  readonly byBound: Readonly<Record<PathBound, number>>;
}

/** The path through events of the host that begin between `from` and `until`, and the work that they launched; undefined without any. */
export function criticalPath(work: RankWork, from: number, until: number): CriticalPath | undefined {
  const graph = new PathGraph(nodesOf(work));
  const rank = new RankPath(graph, work, from, until);
  if (graph.edges === 0) return undefined;
  const byBound = noBounds();
  const path = graph.longest().map((edge) => {
    const part = rank.edgeOf(edge);
    byBound[part.bound] += part.weight;
    return part;
  });
  return { nodes: graph.nodes, edges: graph.edges, path, byBound };
}

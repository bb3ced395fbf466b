// A simulated cluster from a seed, with its truth.

export { ClusterSimulation } from './cluster-simulation.ts';
export { type ClusterTruth, truthLines } from './cluster-truth.ts';
export { inLaterLife } from './later-life.ts';
export { noisySteps, type StepNoise, stepNoises } from './noisy-steps.ts';
export { Random } from './random.ts';
export { simulatedCluster } from './simulated-cluster.ts';
export {
  type ClusterOptions,
  type HostClockStep,
  resolveCluster,
  type Straggler,
  type StragglingPhase,
  stragglingPhases,
} from './simulation-options.ts';

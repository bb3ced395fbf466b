// One process a host beside PyTorch ranks: Kineto's interface, files of torch.profiler, counters of the host.

export { type Agent, type AgentOptions, startAgent } from './agent.ts';
export { type ReadKinetoOptions, readKinetoFile } from './files/read-kineto.ts';
export { AgentError, type AgentErrorCode } from './model/errors.ts';
export { type WatchOptions, watchFiles } from './watch.ts';

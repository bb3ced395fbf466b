// One process a host beside PyTorch ranks: Kineto's interface, files of torch.profiler, counters of the host.

export { AgentError, type AgentErrorCode } from './model/errors.ts';

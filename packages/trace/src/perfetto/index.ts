// Perfetto traces (.pftrace), read and written.

export type { PerfettoSkipped } from './perfetto-events.ts';
export type { InflateBundle } from './perfetto-packets.ts';
export { type PerfettoTrace, readPerfetto } from './perfetto-trace.ts';
export { perfettoWriter } from './perfetto-writer.ts';

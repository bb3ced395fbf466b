// Everything that crosses a process boundary, and nothing else.
export {
  type Batch,
  type BatchHeader,
  decodeBatch,
  decodeBatchHeader,
  type Deflate,
  type Dropped,
  encodeBatch,
  type Inflate,
  protocolVersion,
} from './batch.ts';
export { ProtocolError, type ProtocolErrorCode } from './errors.ts';
export {
  allocateColumn,
  type Columns,
  type ColumnType,
  createEventTables,
  elementsPerRow,
  EventTable,
  type EventTables,
  type Row,
  spanState,
  tableColumns,
  type TableName,
  tableNames,
} from './event-tables.ts';
export { limits } from './limits.ts';
export {
  type ControlMessage,
  controlMessageSchema,
  decodeMessage,
  encodeMessage,
  type LiveMessage,
  liveMessageSchema,
  type RankMessage,
  rankMessageSchema,
  type RankStatus,
} from './messages.ts';
export { crc32, decodeFrameHeader, encodeFrameHeader, frameHeaderBytes, isSegment, segmentMagic } from './segment.ts';
export {
  batchId,
  batchSubject,
  batchSubjects,
  checkRunName,
  clockSubject,
  clockSubjects,
  controlSubject,
  streamName,
} from './subjects.ts';
export { isBefore, nanos, type Nanos, nanosPerMs, nanosPerSecond, type RankTime, rankTime, type TraceTime, traceTime } from './units.ts';

// Everything that crosses a process boundary, and nothing else.

export { type Alert, type AlertRule, alertRules, alertSchema } from './alert-messages.ts';
export {
  type Batch,
  type BatchHeader,
  type Deflate,
  type Dropped,
  decodeBatch,
  decodeBatchHeader,
  decodeBody,
  type EncodedBody,
  encodeBatch,
  encodeBatchOf,
  encodeBody,
  type Inflate,
  protocolVersion,
} from './batch.ts';
export { type CaptureRequest, type CaptureResult, captureRequestSchema, captureResultSchema } from './capture-messages.ts';
export { ProtocolError, type ProtocolErrorCode } from './errors.ts';
export {
  type Columns,
  type ColumnType,
  capturedKey,
  createEventTables,
  EventTable,
  type EventTables,
  elementsPerRow,
  type Row,
  recordedKey,
  ringFillCounter,
  shedKey,
  spanState,
  type TableName,
  tableColumns,
  tableNames,
} from './event-tables.ts';
export { limits } from './limits.ts';
export {
  type Captured,
  type ControlMessage,
  capturedSchema,
  controlMessageSchema,
  decodeMessage,
  encodeMessage,
  type LiveMessage,
  liveMessageSchema,
  type RankMessage,
  type RankStatus,
  rankMessageSchema,
  readCaptured,
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
  streamConfig,
  streamName,
} from './subjects.ts';
export { isBefore, type Nanos, nanos, nanosPerMs, nanosPerSecond, type RankTime, rankTime, type TraceTime, traceTime } from './units.ts';
export {
  type AreaRow,
  type AreaTable,
  type EventDetails,
  type EventPlace,
  type FlameNode,
  type Links,
  type Overview,
  type OverviewRank,
  type RunGrowth,
  type RunLine,
  type RunModel,
  type SearchResult,
  type ViewAlignment,
  type ViewErrorCode,
  type ViewFinding,
  type ViewGap,
  type ViewGroup,
  type ViewMessage,
  type ViewProcess,
  type ViewRequest,
  type ViewTrack,
  viewRequestSchema,
} from './view-messages.ts';
export {
  type CounterTile,
  decodeTiles,
  encodeTiles,
  itemKinds,
  nameText,
  openBit,
  type SpanTile,
  stepBit,
  type Tile,
  type TileKey,
  tileBytes,
  tileGrains,
  tileWidth,
} from './view-tiles.ts';

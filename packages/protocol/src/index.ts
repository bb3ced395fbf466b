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
  type Pruned,
  protocolVersion,
} from './batch.ts';
export {
  boundStream,
  makeStream,
  type StreamConfig,
  type StreamManager,
  type StreamOptions,
  streamConfig,
  streamErrorOf,
  streamErrors,
  streamProblem,
} from './batch-stream.ts';
export { type CaptureRequest, type CaptureResult, captureRequestSchema, captureResultSchema } from './capture-messages.ts';
export { type CollectiveKind, collectiveKind, isBarrierLike, isLaunch, pairOf } from './collective-kind.ts';
export { mostDropped, noneDropped, sumDropped } from './dropped.ts';
export { ProtocolError, type ProtocolErrorCode } from './errors.ts';
export {
  type Columns,
  type ColumnType,
  capturedKey,
  collectionsSuffix,
  cpuWaitCounter,
  createEventTables,
  EventTable,
  type EventTables,
  elementsPerRow,
  gpuKey,
  leftOutKey,
  miscountedKey,
  type Row,
  recordedKey,
  ringFillCounter,
  runningKey,
  sampledKey,
  shedKey,
  spanState,
  stacksKey,
  type TableName,
  tableColumns,
  tableNames,
  tfKeys,
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
  type Running,
  rankMessageSchema,
  readCaptured,
  readRunning,
  runningSchema,
} from './messages.ts';
export { isOccasionalRole, isWaitingRole, type PhaseRole, phaseRoleKey, phaseRoles, readPhaseRole } from './phase-role.ts';
export { printable, printableJson, printableLines } from './printable.ts';
export { excessesOver, lowerMedian, otherPhase, phaseMedians, type RankExcess, rankExcesses } from './rank-excess.ts';
export { type RankNote, rankNoteSchema } from './rank-note.ts';
export type {
  ComparedRun,
  DifferenceKind,
  DifferenceStatus,
  NameDifference,
  NameTimes,
  RunDifference,
  StepVerdict,
} from './run-difference.ts';
export { crc32, decodeFrameHeader, encodeFrameHeader, frameHeaderBytes, isSegment, segmentMagic } from './segment.ts';
export {
  aggregatorInbox,
  batchId,
  batchSubject,
  batchSubjects,
  checkRunName,
  clockSubject,
  clockSubjects,
  controlSubject,
  mayAnswer,
  rankInbox,
  runBatchSubjects,
  runInbox,
  streamName,
} from './subjects.ts';
export { isBefore, type Nanos, nanos, nanosPerMs, nanosPerSecond, type RankTime, rankTime, type TraceTime, traceTime } from './units.ts';
export {
  type AreaRow,
  type AreaTable,
  type EventDetails,
  type EventPlace,
  type FindingCost,
  type FlameNode,
  type FlameSplit,
  type Links,
  type Overview,
  type OverviewGpu,
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
  copyTile,
  decodeTiles,
  encodeTiles,
  itemKinds,
  makeTile,
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

// torch.profiler: its files, its tables, its exports.

export { collectiveNumberData } from '../match/collective-number.ts';
export { attemptsOf } from '../model/attempts.ts';
export { looksLikeMergedChrome } from '../write/chrome.ts';
export { type AveragesTableOptions, averagesTable, isSortKey, sortAverages, sortKeyNames } from './averages-table.ts';
export { collapsedStacks } from './collapsed-stacks.ts';
export { distributedInfo, rankInFile, rankInName, stepsInFile, worldSizeInFile } from './file-place.ts';
export { type FlightRecorderDump, groupOfRanks, looksLikeFlightRecorder, readFlightRecorder } from './flight-recorder-dump.ts';
export { flightRecorderSources, type RankDump } from './flight-recorder-source.ts';
export { type FunctionAverage, functionAverages, totalAverage } from './function-averages.ts';
export { type FunctionEvent, functionEventList } from './function-event-list.ts';
export { type FunctionEvents, functionEvents } from './function-events.ts';
export { type KeyAverage, KeyAveragesSink } from './key-averages.ts';
export { type CutOf, countedEnds } from './kineto-collectives.ts';
export { KinetoReader, type KinetoReaderOptions, readKineto, type SpillOptions } from './kineto-reader.ts';
export { type KinetoExtent, type KinetoFile, kinetoExtent, kinetoSources } from './kineto-source.ts';
export { SourceTracks } from './kineto-source-tracks.ts';
export { KinetoTable } from './kineto-table.ts';
export { KinetoTableSink } from './kineto-table-sink.ts';
export { kinetoWriter } from './kineto-writer.ts';
export { memoryTimeline, memoryTimelineJson, memoryTimelineRawJson } from './memory-timeline.ts';
export { memoryTimelinePage } from './memory-timeline-page.ts';
export { opTimesText } from './op-times.ts';
export type { RecordingWindow } from './rank-recording.ts';
export { tableHeader } from './table-header.ts';

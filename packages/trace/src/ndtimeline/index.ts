// NDTimeline's timelines as sources of a merge.

export { isNdtimeline, looksLikeNdtimeline, ndtimelineSources } from './ndtimeline-source.ts';

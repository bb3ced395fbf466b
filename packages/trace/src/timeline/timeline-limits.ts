// Every bound of a timeline's index, with its unit last. What grows with the events lies in blocks outside of memory.

export const timelineLimits = {
  /** Decoded blocks kept in memory by default. */
  timelineCacheBytesMax: 64 * 1024 * 1024,
  /** Rows of a block of events; fewer where many tracks have unfinished ones. */
  timelineBlockRowsMax: 4096,
  /** The same where there are thousands of tracks. */
  timelineBlockRowsMin: 256,
  /** Unfinished blocks of all tracks together, about. */
  timelineUnfinishedBytesMax: 256 * 1024 * 1024,
  /** Tracks of a run; what happens on further ones is counted and left out. */
  timelineTracksMax: 32_768,
  /** Spans of one track that have not ended; further ones are shown as instants. */
  timelineOpenSpansMax: 16_384,
  /** Spans inside of each other; deeper ones share the last line. */
  timelineDepthMax: 255,
  /** Spans around a place that a track remembers while it is read, whatever line they are shown on. */
  timelineNestingMax: 4096,
  /** Distinct shown names of a run; what has another name is shown under one stand-in. */
  timelineNamesMax: 1_048_576,
  /** Distinct categories of a run; further ones are left out. */
  timelineCategoriesMax: 65_535,
  /** Long texts and names remembered so that each is written once, about; then the memory of them begins anew. */
  timelineTextCharsMax: 16 * 1024 * 1024,
  /** Distinct keys of details that are kept by number; further ones are written out each time. */
  timelineDetailKeysMax: 4096,
  /** Everything that one event is told with beside its columns: what comes after is left out. */
  timelineDetailCharsMax: 131_072,
  /** Gaps of one process; when there are more, the last two become one. */
  timelineGapsMax: 1024,
  /** Groups of ranks. */
  timelineGroupsMax: 16_384,
  /** Ranks of all groups together. */
  timelineGroupRanksMax: 1_048_576,
  /** Blocks read to find the other sides of one event. */
  timelinePartnerBlocksMax: 1024,
  /** Blocks of one track read on each side of an event, to find its other sides. */
  timelinePartnerDistanceMax: 64,
  /** Events with other sides in a window up to which arrows between them are told. */
  timelineLinkedEventsMax: 4096,
  /** Blocks read for arrows. */
  timelineLinkBlocksMax: 512,
  /** Blocks read to tell what of a span those inside of it leave. */
  timelineSelfBlocksMax: 64,
  /** Lines of an area's table, the largest; the rest is counted and left out. */
  timelineAreaRowsMax: 4096,
  /** Nodes of a flame graph; spans below further ones count for the node above. */
  timelineFlameNodesMax: 20_000,
  /** Characters of one field of an event's details. */
  timelineFieldCharsMax: 16_384,
} as const;

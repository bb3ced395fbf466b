// Every bound of a timeline's index, with its unit last. Data that grows with the events lies in blocks outside of memory.

export const timelineLimits = {
  /** Decoded blocks kept in memory by default; others are decoded again when they are needed. */
  timelineCacheBytesMax: 64 * 1024 * 1024,
  /** Rows of a block of events; blocks have fewer where many tracks have unfinished ones. */
  timelineBlockRowsMax: 4096,
  /** Rows of a block of events where there are thousands of tracks. */
  timelineBlockRowsMin: 256,
  /** Unfinished blocks of all tracks together, about; more tracks make the blocks smaller. */
  timelineUnfinishedBytesMax: 256 * 1024 * 1024,
  /** Tracks of a run; events of further ones are counted and left out. */
  timelineTracksMax: 32_768,
  /** Spans of one track that have not ended; further ones are shown as instants. */
  timelineOpenSpansMax: 16_384,
  /** Spans, and frames of Python, inside each other that have lines of their own; deeper ones share the last line. */
  timelineDepthMax: 127,
  /** Spans around a place that a track remembers while it is read, whatever line they are shown on. */
  timelineNestingMax: 4096,
  /** Distinct shown names of a run; events with further ones appear under one stand-in. */
  timelineNamesMax: 1_048_576,
  /** Distinct categories of a run; further ones are left out. */
  timelineCategoriesMax: 65_535,
  /** Long texts and names remembered so that each is written once, about; then all are forgotten and written again. */
  timelineTextCharsMax: 16 * 1024 * 1024,
  /** Distinct keys of details that are kept by number; further ones are written out each time. */
  timelineDetailKeysMax: 4096,
  /** All details of one event beside its columns; the rest is left out. */
  timelineDetailCharsMax: 131_072,
  /** Types of devices of one process whose memory has a counter. */
  timelineMemoryDevicesMax: 16,
  /** Further names by which one shown name is found, such as the kernels of a collective; others are not found by them. */
  timelineAliasesPerNameMax: 8,
  /** The same, of all names together. */
  timelineAliasesMax: 16_384,
  /** Windows (files of a rank) in which a group's collectives are counted. */
  timelineGroupWindowsMax: 64,
  /** Gaps of one process; when there are more, the last two become one. */
  timelineGapsMax: 1024,
  /** Groups of ranks in a run; further ones are left out. */
  timelineGroupsMax: 16_384,
  /** Ranks of all groups together; further ones are left out. */
  timelineGroupRanksMax: 1_048_576,
  /** Blocks read to find the other sides of one event; sides in further blocks are not found. */
  timelinePartnerBlocksMax: 1024,
  /** Blocks of one track read on each side of an event to find its other sides; those further away are not found. */
  timelinePartnerDistanceMax: 64,
  /** Events with other sides in a window that have arrows; the others are counted. */
  timelineLinkedEventsMax: 4096,
  /** Blocks read for the arrows of a window; where there are more, the events are counted and have no arrows. */
  timelineLinkBlocksMax: 512,
  /** Blocks read to find what a call launched, or the call that launched some work; launches in further blocks are not found. */
  timelineLaunchBlocksMax: 256,
  /** Launches listed with one event; the rest is counted. */
  timelineLaunchesMax: 16,
  /** Launches in a window that have arrows; where there are more, none has. */
  timelineLaunchLinksMax: 256,
  /** Blocks read to find the events on the critical path; events in further ones are not linked. */
  timelinePathBlocksMax: 1024,
  /** Blocks searched back from a call for the spans around it. */
  timelineAroundBlocksMax: 8,
  /** Blocks read to find a span's own time without the spans inside it; where there are more, it has none. */
  timelineSelfBlocksMax: 64,
  /** Lines of an area's table, the largest; the rest is counted and left out. */
  timelineAreaRowsMax: 4096,
  /** Nodes of a flame graph; spans below further ones count for the node above. */
  timelineFlameNodesMax: 20_000,
  /** Characters of one field of an event's details; a longer one is shortened. */
  timelineFieldCharsMax: 16_384,
} as const;

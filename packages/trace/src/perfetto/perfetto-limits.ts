// Every bound of what reading a Perfetto trace may cost, with its unit last.

export const perfettoLimits = {
  /** One packet, held as a whole; a larger one is refused (`too_large`). */
  perfettoPacketBytesMax: 67_108_864,
  /** A bundle of compressed packets, once it is inflated; a larger one is left out and counted. */
  perfettoBundleBytesMax: 67_108_864,
  /** Tracks that are described, and lines that events are on, about 300 bytes each; a trace with more is refused (`too_large`). */
  perfettoTracksMax: 262_144,
  /** Packet sequences, about 1 KiB each beside their interned strings; a trace with more is refused (`too_large`). */
  perfettoSequencesMax: 262_144,
  /** Clocks that one snapshot reads; a trace with more is refused (`too_large`). */
  perfettoSnapshotClocksMax: 1024,
  /** Interned strings of all sequences together, as they lie in memory; a trace with more is refused (`too_large`). */
  perfettoInternedBytesMax: 268_435_456,
  /** One name, category or argument; the rest of a longer one is cut off. */
  perfettoTextBytesMax: 65_536,
  /** Spans that are open at one time, about 300 bytes each beside their names and arguments; further ones are skipped and counted. */
  perfettoOpenSpansMax: 262_144,
  /** Arguments of one event; further ones are left out. */
  perfettoArgumentsMax: 1024,
  /** Parts of one argument inside each other; deeper ones are left out. */
  perfettoArgumentDepthMax: 16,
} as const;

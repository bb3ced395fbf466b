// The layout of a ring's file, as native/ring.h has it; a test compares both. All numbers are little-endian.

export const ringMagic = 'RGPURING';
export const ringVersion = 1;
export const headerBytes = 4096;
export const rowBytes = 64;
export const nameBytesPerRow = 60;
export const nameBytesMax = 1920;

/** Offsets in the header. */
export const headerOffsets = {
  magic: 0,
  version: 8,
  capacity: 12,
  pid: 16,
  source: 20,
  state: 24,
  library: 28,
  pidStart: 32,
  isReadInside: 40,
  reserve: 64,
  read: 128,
  dropped: 192,
  droppedRecords: 200,
  unknownRecords: 208,
  droppedNames: 216,
  message: 256,
} as const;
export const messageBytes = 512;

/** Offsets in a row; those from 40 on depend on its kind. */
export const rowOffsets = {
  turn: 0,
  kind: 4,
  detail: 5,
  device: 6,
  start: 8,
  end: 16,
  name: 24,
  stream: 28,
  correlation: 32,
  context: 36,
  kernel: { grid: 40, block: 52, registers: 58, sharedBytes: 60 },
  copy: { bytes: 40, peerDevice: 48, source: 52, destination: 53, isAsync: 54 },
  sync: { event: 40 },
  collective: { sequence: 40, bytes: 48, group: 56, peer: 60 },
  group: { communicator: 40, number: 48, ranks: 52, rank: 56, nodes: 60 },
  nameRow: { number: 40, length: 44 },
} as const;

export const rowKind = {
  kernel: 1,
  copy: 2,
  set: 3,
  sync: 4,
  call: 5,
  overhead: 6,
  collective: 7,
  name: 8,
  group: 9,
} as const;

/** By number. */
export const ringSources = ['', 'cupti', 'nccl'] as const;
export const ringStates = ['starting', 'recording', 'refused', 'ended'] as const;

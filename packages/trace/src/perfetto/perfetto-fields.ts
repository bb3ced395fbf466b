// Field numbers of Perfetto's public schema, as far as the writer uses it (protos/perfetto/trace/**.proto, stable by contract).
// test/oracle/perfetto-decode.ts holds the same schema as .proto text, written separately from this file.

export const trace = { packet: 1 } as const;

export const packet = {
  clockSnapshot: 6,
  timestamp: 8,
  sequenceId: 10,
  trackEvent: 11,
  internedData: 12,
  sequenceFlags: 13,
  defaults: 59,
  trackDescriptor: 60,
} as const;

export const sequenceFlags = { stateCleared: 1, needsState: 2 } as const;

export const clockSnapshot = { clocks: 1, primaryClock: 2 } as const;
export const clock = { id: 1, timestamp: 2 } as const;
export const clockId = { realtime: 1, boottime: 6 } as const;

export const defaults = { trackEvent: 11 } as const;

export const track = {
  uuid: 1,
  name: 2,
  process: 3,
  thread: 4,
  parentUuid: 5,
  counter: 8,
  childOrdering: 11,
  siblingOrderRank: 12,
  description: 14,
  siblingMergeBehavior: 15,
} as const;

export const childOrdering = { explicit: 3 } as const;
export const siblingMergeBehavior = { none: 2 } as const;

export const process = { pid: 1, legacySortIndex: 3, name: 6, labels: 8 } as const;
export const thread = { pid: 1, tid: 2, legacySortIndex: 3, name: 5 } as const;
export const counter = { unit: 3, unitName: 6 } as const;
export const counterUnit = { nanos: 1, bytes: 3 } as const;

export const event = {
  categoryIid: 3,
  annotation: 4,
  type: 9,
  nameIid: 10,
  trackUuid: 11,
  category: 22,
  name: 23,
  counterValue: 30,
  /** Deprecated varint form of `flowIds`; the only one that trace_processor v20 (2021) reads. */
  flowIdsOld: 36,
  doubleCounterValue: 44,
  flowIds: 47,
} as const;

export const eventType = { sliceBegin: 1, sliceEnd: 2, instant: 3, counter: 4 } as const;

export const annotation = { nameIid: 1, bool: 2, int: 4, double: 5, string: 6, name: 10 } as const;

export const interned = { categories: 1, names: 2, annotationNames: 3 } as const;
export const internedEntry = { iid: 1, name: 2 } as const;

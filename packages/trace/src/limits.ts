// Every bound of what reading a foreign trace may cost, with its unit last.

export const limits = {
  /** One event, or one value beside the events: what is kept while the rest of it has not arrived. */
  jsonValueBytesMax: 64 * 1024 * 1024,
  /** Arrays and objects inside each other. */
  jsonDepthMax: 64,
  /** All metadata beside the events together; what comes after is counted and left out. */
  metadataBytesMax: 64 * 1024 * 1024,
  /** Events of one file: its columns are about 100 bytes an event. */
  eventsPerFileMax: 100_000_000,
  /** Distinct names, shapes and stacks of one file: their indexes multiply exactly in a double. */
  stringsPerFileMax: 50_000_000,
} as const;

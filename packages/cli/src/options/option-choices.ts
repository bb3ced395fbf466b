// Words that options choose between. They lie apart from the code that they choose, so that the command line knows them without loading it.

/** Of `check`: what is printed. */
export const checkFormats = ['text', 'markdown', 'junit', 'json'] as const;
export type CheckFormat = (typeof checkFormats)[number];

/** Of `diff`: the order of the names. */
export const differenceSorts = ['cost', 'part', 'total', 'count', 'name'] as const;
export type DifferenceSort = (typeof differenceSorts)[number];

/** Of `export`: the files that are written. */
export const exportFormats = ['kineto', 'chrome', 'perfetto', 'folded', 'csv'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** Of `table`: the order of its rows. */
export const tableSorts = ['self', 'total', 'avg', 'calls', 'name'] as const;
export type TableSort = (typeof tableSorts)[number];

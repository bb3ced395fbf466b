// Words that options choose between. They lie apart from the code that they choose, so that the command line knows them without loading it.

/** Outputs of `check`. */
export const checkFormats = ['text', 'markdown', 'junit', 'json'] as const;
export type CheckFormat = (typeof checkFormats)[number];

/** Orders of the names in `diff`. */
export const differenceSorts = ['cost', 'part', 'total', 'count', 'name'] as const;
export type DifferenceSort = (typeof differenceSorts)[number];

/** Files that `export` writes. */
export const exportFormats = ['kineto', 'chrome', 'perfetto', 'folded', 'csv'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** Orders of the rows of `table`. */
export const tableSorts = ['self', 'total', 'avg', 'calls', 'name'] as const;
export type TableSort = (typeof tableSorts)[number];

/** Where it is built. */
export const nativeFolder: string;
/** The package's main module in `folder`. */
export function mainModuleIn(folder: string): string;
/** Builds it unless it is there; `say` gets a line per part. Throws an error of one line where it cannot be built. */
export function buildTfjsNode(say: (part: string) => void): void;

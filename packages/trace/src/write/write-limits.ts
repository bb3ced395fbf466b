// Bounds of what writers keep while they write, with the unit last.

export const writeLimits = {
  /** Stacks of a file of collapsed stacks, about 200 bytes each; spans inside further ones count for the stack around them. */
  foldedNodesMax: 1_048_576,
  /** Spans inside each other in one of those stacks; deeper ones count for the stack around them. */
  foldedDepthMax: 1024,
  /** Begins of spans that wait for their ends, of a CSV file; a span beyond is written without a length when it begins, and not again. */
  csvOpenSpansMax: 131_072,
} as const;

// The role of a buffer in the training, in the words of torch's memory timeline.

/** By precedence: only a category further up replaces one found earlier. */
export const memoryCategories = [
  'AUTOGRAD_DETAIL',
  'TEMPORARY',
  'ACTIVATION',
  'INPUT',
  'GRADIENT',
  'OPTIMIZER_STATE',
  'PARAMETER',
] as const;

/** Numbers of the categories; 0 is none. */
export const memoryCategory = {
  autogradDetail: 1,
  temporary: 2,
  activation: 3,
  input: 4,
  gradient: 5,
  optimizerState: 6,
  parameter: 7,
} as const;

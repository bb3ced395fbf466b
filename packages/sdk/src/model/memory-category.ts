// What a buffer is to the training, in the words of torch's memory timeline.

/** In order: what a buffer was found to be is only replaced by something that stands further up. */
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

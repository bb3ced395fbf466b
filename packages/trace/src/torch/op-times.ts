// Meaning of op times where they are not simply an op's length: on a device that works on after the op returned.

import { tfKeys } from '@ranktrace/protocol';

const meanings: Readonly<Record<string, string>> = {
  'host dispatch':
    'host dispatch (the device works on after an op has returned, and reading waits for it; experimentalConfig.fence measures the device)',
  'device, fenced': 'device, fenced (each op waited for its device: steps are slower than without)',
};

/** A line for the head of a table or report, from the metadata of a rank or its file; undefined if times are the ops' own. */
export function opTimesText(metadata: ReadonlyMap<string, unknown>): string | undefined {
  const meaning = metadata.get(tfKeys.opTimes);
  const text = typeof meaning === 'string' && Object.hasOwn(meanings, meaning) ? meanings[meaning] : undefined;
  return text === undefined ? undefined : `times of ops: ${text}`;
}

// Parts of the critical path whose worth is known, in words.

import type { ProfileWorth } from '@ranktrace/protocol';
import { boundText } from '../controls/path-bounds.ts';

const wholeOf: Readonly<Record<string, string>> = {
  cpu: 'work of hosts',
  communication: 'transfers',
  compute: 'kernels that compute',
};

/** `gemm`, `host, forward`, `all copies`; `shown` shortens a name. */
export function worthText(
  { bound, name }: Pick<ProfileWorth, 'bound' | 'name'>,
  shown: (name: string) => string = (whole) => whole,
): string {
  if (name === null) return `all ${wholeOf[bound] ?? boundText(bound)}`;
  if (bound !== 'cpu') return shown(name);
  return name === '' ? 'host, outside of phases' : `host, ${shown(name)}`;
}

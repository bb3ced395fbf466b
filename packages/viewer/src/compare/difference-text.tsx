// A difference of two times for a person: its amount, its share, and by sign and colour whether it is worse.

import type { JSX } from 'preact';
import { formatMorePart, formatMoreTime } from '../controls/signed.ts';
import { type Difference, verdictOf } from './differences.ts';

const signs = { slower: '▲', faster: '▼', same: '' } as const;

export function DifferenceText({ difference }: { readonly difference: Difference }): JSX.Element {
  const verdict = verdictOf(difference);
  const { more, part } = difference;
  if (verdict === undefined || more === undefined) return <span class="difference">–</span>;
  return (
    <span class={`difference is-${verdict}`}>
      <span class="difference-sign" aria-hidden="true">
        {signs[verdict]}
      </span>
      {formatMoreTime(more)}
      <span class="difference-part">{part === undefined ? 'new' : formatMorePart(part)}</span>
    </span>
  );
}

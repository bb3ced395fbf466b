// The verdict on B's steps against A's, as `ranktrace check` gives it.

import type { RunDifference } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { verdictSentence } from './differences.ts';

const signs = { slower: '▲', probably_slower: '▲', unchanged: '●', probably_faster: '▼', faster: '▼' } as const;

export function ComparedVerdict({ difference }: { readonly difference: RunDifference }): JSX.Element {
  const { verdict, longText, provableText } = difference;
  return (
    <div class={`compare-verdict is-${verdict ?? 'none'}`} role="status">
      <p>
        <span aria-hidden="true">{verdict === null ? '●' : signs[verdict]}</span> {verdictSentence(difference)}
      </p>
      {longText !== '' && <p>{longText}</p>}
      {provableText !== '' && <p class="muted">{provableText}</p>}
    </div>
  );
}

// The ranks that keep others waiting: those that come last into collectives, by how long the others wait for them.

import type { Overview } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatCount, formatDuration, formatPercent } from '../controls/format.ts';
import { PickLink } from '../controls/pick-link.tsx';
import './waiting-list.css';

export interface WaitingListProps {
  readonly waiting: Overview['waiting'];
  /** All of it, ns: the ranks' shares are of this. */
  readonly whole: number;
  readonly analysed: boolean;
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((rank: number) => void) | undefined;
}

const shownFirst = 5;

export function WaitingList({ waiting, whole, analysed, onPick }: WaitingListProps): JSX.Element {
  const [showsAll, setShowsAll] = useState(false);
  const sorted = [...waiting].filter(({ waitedFor }) => waitedFor > 0).sort((a, b) => b.waitedFor - a.waitedFor);
  if (sorted.length === 0) return <p class="muted">{analysed ? 'No collective with a known last rank.' : 'Not known yet.'}</p>;
  const known = sorted.reduce((sum, { waitedFor }) => sum + waitedFor, 0);
  const most = sorted[0]?.waitedFor ?? 1;
  return (
    <div class="waiting-list">
      <table>
        <caption class="only-aloud">Time that other ranks waited for a rank in collectives, all of them together</caption>
        <thead>
          <tr>
            <th scope="col">last in</th>
            <th scope="col" class="is-number" title="All ranks that waited, together">
              others waited
            </th>
            <th scope="col" class="is-number">
              of all
            </th>
            <th scope="col" class="is-number" title="Collectives in which this rank was clearly the last">
              times last
            </th>
          </tr>
        </thead>
        <tbody>
          {(showsAll ? sorted : sorted.slice(0, shownFirst)).map(({ rank, lastIn, waitedFor }) => (
            <tr key={rank}>
              <th scope="row">
                <PickLink onPick={onPick && (() => onPick(rank))}>rank {rank}</PickLink>
              </th>
              <td class="is-number">
                <span class="waiting-bar" style={{ width: `${(60 * waitedFor) / most}px` }} aria-hidden="true" />
                {formatDuration(waitedFor)}
              </td>
              <td class="is-number">{formatPercent(waitedFor / whole)}</td>
              <td class="is-number">{formatCount(lastIn)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {whole - known > 0.005 * whole && (
        <p class="muted">{formatPercent((whole - known) / whole)} of all waiting was for no rank that was clearly the last.</p>
      )}
      {sorted.length > shownFirst && (
        <button type="button" class="is-link" aria-expanded={showsAll} onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? 'Show fewer' : `Show all ${formatCount(sorted.length)}`}
        </button>
      )}
    </div>
  );
}

// The phases of each rank's steps in both runs, A above B, the largest change on top.

import { type Overview, otherPhase } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { JumpTarget } from '../client/view-state.ts';
import { formatDuration, formatMore } from '../controls/format.ts';
import { formatMoreTime } from '../controls/signed.ts';
import { PhaseBar, PhaseLegend } from '../overview/phase-bars.tsx';
import { lifeTarget } from '../overview/rank-target.ts';
import { DifferenceText } from './difference-text.tsx';
import { pairPhases, type RankPair } from './differences.ts';

export interface ComparedPhasesProps {
  readonly a: Overview;
  readonly b: Overview;
  readonly onGo: (side: 'a' | 'b', target: JumpTarget) => void;
}

const shownFirst = 6;
const shownMore = 24;

export function ComparedPhases({ a, b, onGo }: ComparedPhasesProps): JSX.Element {
  const [shown, setShown] = useState(shownFirst);
  const { phases, roles, ranks } = useMemo(() => pairPhases(a, b), [a, b]);
  if (ranks.length === 0) return <p class="muted">Neither run has steps.</p>;
  const longest = Math.max(1, ...ranks.flatMap((pair) => [barLength(pair.phasesA, pair.a?.mean), barLength(pair.phasesB, pair.b?.mean)]));
  return (
    <div class="compare-phases">
      <PhaseLegend phases={phases} />
      <table>
        <caption class="only-aloud">Mean step of each rank in A and B</caption>
        <thead>
          <tr>
            <th scope="col">rank</th>
            <th scope="col">A above, B below</th>
            <th scope="col">mean step, B − A</th>
            <th scope="col">changed most</th>
          </tr>
        </thead>
        <tbody>
          {ranks.slice(0, shown).map((pair) => (
            <tr key={pair.rank}>
              <th scope="row">{pair.rank}</th>
              <td>
                <Side side="a" pair={pair} phases={phases} roles={roles} longest={longest} onGo={onGo} />
                <Side side="b" pair={pair} phases={phases} roles={roles} longest={longest} onGo={onGo} />
              </td>
              <td>
                <DifferenceText difference={pair.mean} />
              </td>
              <td>{changedText(phases, pair)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {ranks.length > shown && (
        <button type="button" class="is-link" onClick={() => setShown(shown + shownMore)}>
          {formatMore(shownMore, ranks.length - shown, 'rank')}
        </button>
      )}
    </div>
  );
}

interface SideProps {
  readonly side: 'a' | 'b';
  readonly pair: RankPair;
  readonly phases: readonly string[];
  readonly roles: Overview['phaseRoles'];
  readonly longest: number;
  readonly onGo: ComparedPhasesProps['onGo'];
}

function Side({ side, pair, phases, roles, longest, onGo }: SideProps): JSX.Element {
  const of = side === 'a' ? pair.a : pair.b;
  const values = side === 'a' ? pair.phasesA : pair.phasesB;
  const name = side.toUpperCase();
  if (of === undefined) return <span class="compare-missing">{name}: no steps of this rank</span>;
  const text = phases.map((phase, at) => `${phase} ${formatDuration(values[at] ?? 0)}`).join(', ');
  return (
    <button type="button" class="compare-bar" title={text} onClick={() => onGo(side, lifeTarget(of))}>
      <span>{name}</span>
      {phases.length === 0 ? (
        <PhaseBar phases={[otherPhase]} roles={['work']} values={[of.mean]} longest={longest} />
      ) : (
        <PhaseBar phases={phases} roles={roles} values={values} longest={longest} />
      )}
      <span class="compare-length">{formatDuration(of.mean)}</span>
      <span class="only-aloud">
        , rank {pair.rank}: {text}. Show in the timeline
      </span>
    </button>
  );
}

const barLength = (phases: readonly number[], mean = 0): number =>
  Math.max(
    mean,
    phases.reduce((sum, phase) => sum + phase, 0),
  );

function changedText(phases: readonly string[], { changed, a, b }: RankPair): string {
  if (a === undefined || b === undefined || changed === undefined) return '–';
  // A change below a hundredth of a step is not worth a word.
  if (Math.abs(changed.more) < a.mean / 100) return 'none';
  return `${phases[changed.phase] ?? ''} ${formatMoreTime(changed.more)}`;
}

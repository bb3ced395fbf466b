// The phases of each rank's steps, outliers on top, below the median rank for comparison.
//
//   median rank  ▇▇▇▇ forward ▇▇▇▇▇▇▇▇ backward ▇▇▇ all_reduce
//   rank 3       ▇▇▇▇ forward ▇▇▇▇▇▇▇▇▇▇▇ backward ▏           +82 ms backward
//
// With very many ranks, only the first are shown until a person asks for more.

import { cutMiddle, isWaitingRole, type Overview, otherPhase, phaseMedians } from '@ranktrace/protocol';
import type { ComponentChildren, JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatDuration, formatMore } from '../controls/format.ts';
import { formatMoreTime } from '../controls/signed.ts';
import { shortRankName } from './rank-lives.ts';
import { type RankPhases, rankPhases } from './slow-ranks.ts';
import './phase-bars.css';

export interface PhaseBarsProps {
  readonly overview: Overview;
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((rank: number, process: number) => void) | undefined;
}

/** Ranks shown before a person asks for more, and by how many more each time. */
export const shownFirst = 8;
const shownMore = 32;
const nameCharsMax = 40;

/** Phases are parts of the host's step, also where steps are the devices'. */
export const phasesTitle = ({ stepsTakenBy }: Pick<Overview, 'stepsTakenBy'>): string =>
  stepsTakenBy === 'devices' ? "What a host's step is made of" : 'What a step is made of';

export function PhaseBars({ overview, onPick }: PhaseBarsProps): JSX.Element {
  const [shown, setShown] = useState(shownFirst);
  const { phases } = overview;
  const rows = useMemo(() => rankPhases(overview), [overview]);
  if (phases.length === 0) return <p class="muted">No phases were recorded: steps are known only as a whole.</p>;
  const medians = phaseMedians(overview);
  const longest = Math.max(1, sum(medians), ...rows.map(({ rank }) => sum(rank.phases)));
  return (
    <div class="phase-bars">
      <PhaseLegend phases={phases} />
      <ol>
        <li class="phase-row is-median">
          <span class="phase-rank" title="The median rank in each phase">
            median
          </span>
          <PhaseBar phases={phases} roles={overview.phaseRoles} values={medians} longest={longest} />
          {/* No length: the phases' medians may be of different ranks, so that no step is as long as their sum. */}
          <span class="phase-excess" />
        </li>
        {rows.slice(0, shown).map((row) => (
          <li key={`${row.rank.rank}/${row.rank.process}`}>
            <PhaseRow row={row} about={breakdownText(phases, row)} onPick={onPick}>
              <span class="phase-rank">rank {shortRankName(row.rank)}</span>
              <PhaseBar phases={phases} roles={overview.phaseRoles} values={row.rank.phases} longest={longest} />
              <span class="phase-excess">{excessText(phases, row)}</span>
              <span class="only-aloud">
                : {breakdownText(phases, row)}
                {onPick === undefined ? '' : '. Show in the timeline'}
              </span>
            </PhaseRow>
          </li>
        ))}
      </ol>
      <MoreRanks all={rows.length} shown={shown} onMore={setShown} />
    </div>
  );
}

/** A rank's row: a button that leads to the timeline, where there is one. */
function PhaseRow(props: {
  readonly row: RankPhases;
  readonly about: string;
  readonly onPick: PhaseBarsProps['onPick'];
  readonly children: ComponentChildren;
}): JSX.Element {
  const { row, about, onPick, children } = props;
  const kind = row.standsOut ? 'phase-row is-slow' : 'phase-row';
  if (onPick === undefined)
    return (
      <div class={kind} title={about}>
        {children}
      </div>
    );
  return (
    <button type="button" class={kind} title={about} onClick={() => onPick(row.rank.rank, row.rank.process)}>
      {children}
    </button>
  );
}

/** Shows more ranks; nothing where all are shown. */
export function MoreRanks(props: {
  readonly all: number;
  readonly shown: number;
  readonly onMore: (shown: number) => void;
}): JSX.Element | null {
  const left = props.all - props.shown;
  if (left <= 0) return null;
  return (
    <button type="button" class="is-link" onClick={() => props.onMore(props.shown + shownMore)}>
      {formatMore(shownMore, left, 'rank')}
    </button>
  );
}

/** The colours of the phases. */
export const PhaseLegend = ({ phases }: { readonly phases: readonly string[] }): JSX.Element => (
  <ul class="phase-legend">
    {phases.map((name, at) => (
      <li key={name}>
        <span class="phase-mark" style={{ background: `var(${phaseColour(phases, at)})` }} />
        <span title={name}>{cutMiddle(name, nameCharsMax)}</span>
      </li>
    ))}
  </ul>
);

/** One bar: phases side by side, in ns of `longest`. */
export function PhaseBar({
  phases,
  roles,
  values,
  longest,
  labels = [],
}: {
  phases: readonly string[];
  roles: Overview['phaseRoles'];
  values: readonly number[];
  longest: number;
  /** Texts in the parts, as far as there is room. */
  labels?: readonly string[];
}): JSX.Element {
  return (
    <span class="phase-bar" aria-hidden="true">
      {values.map((value, at) => (
        <span
          key={phases[at]}
          class={isWaitingRole(roles[at]) ? 'phase-part is-waiting' : 'phase-part'}
          style={{ width: `${(100 * value) / longest}%`, '--phase': `var(${phaseColour(phases, at)})` }}
        >
          {(labels[at] ?? '') !== '' && <span class="phase-label">{labels[at]}</span>}
        </span>
      ))}
    </span>
  );
}

/** The phase's colour variable; `other` and phases after the eighth are grey. */
export const phaseColour = (phases: readonly string[], at: number): string =>
  phases[at] === otherPhase || at > 6 ? '--series-8' : `--series-${at + 1}`;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function excessText(phases: readonly string[], { score, worst, isNoticeable, standsOut }: RankPhases): string {
  if (standsOut && !isNoticeable) return 'others wait';
  if (worst === undefined || !(score > 0)) return '';
  const more = formatMoreTime(score);
  return standsOut ? `${more} ${phases[worst]}` : more;
}

const breakdownText = (phases: readonly string[], { rank, excess }: RankPhases): string =>
  phases.map((name, at) => `${name} ${formatDuration(rank.phases[at] ?? 0)}${moreText(excess[at] ?? 0, rank.mean)}`).join(', ');

// A difference below a thousandth of a step is of no use to a person.
const moreText = (more: number, step: number): string =>
  Math.abs(more) < step / 1000 ? '' : ` (${formatMoreTime(more)} against the median rank)`;

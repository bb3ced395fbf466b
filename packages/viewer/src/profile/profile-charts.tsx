// Charts of a profile beside its tables: memory over time, the critical path as a bar with its parts, and what to change.

import {
  lineName,
  type ProfileMemory,
  type ProfilePath,
  type ProfilePathLine,
  type ProfileWorth,
  type RunProfile,
} from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatBytes, formatDuration, formatPercent, formatRanks } from '../controls/format.ts';
import { boundText } from '../controls/path-bounds.ts';
import { PhaseBar, PhaseLegend } from '../overview/phase-bars.tsx';
import { rankName } from '../overview/rank-lives.ts';
import { countColumn, shareColumn, timeColumn } from './profile-columns.tsx';
import { worthText } from './worth-text.ts';
import './profile.css';

/** The critical path of the step of median length, across ranks where there are several. */
export function PathSummary({ path }: { readonly path: ProfilePath }): JSX.Element {
  const names = path.byBound.map(([bound]) => boundText(bound));
  const share = (time: number): number => (path.total > 0 ? time / path.total : 0);
  const columns: readonly Column<ProfilePathLine>[] = [
    { key: 'rank', title: 'Rank', sort: ({ rank }) => rank, show: ({ rank }) => rank },
    {
      key: 'name',
      title: 'Part',
      sort: ({ name }) => name,
      show: ({ name }) => (
        <span class="data-table-name" title={name}>
          {lineName(name) || '–'}
        </span>
      ),
    },
    { key: 'bound', title: 'Bound by', sort: ({ bound }) => boundText(bound), show: ({ bound }) => boundText(bound) },
    timeColumn({ key: 'total', title: 'On the path', of: ({ total }) => total }),
    shareColumn({ key: 'share', title: 'Share', of: ({ total }) => share(total) }),
    countColumn({ key: 'count', title: 'Times', of: ({ count }) => count }),
  ];
  return (
    <div class="phase-bars profile-path">
      <p>
        Step {path.step}, {formatDuration(path.total)}
        {path.isAcross
          ? ` across ranks: ${path.byRank
              .slice(0, 4)
              .map(([rank, time]) => `rank ${rank} ${formatPercent(share(time))}`)
              .join(', ')}`
          : ` on rank ${path.byRank[0]?.[0] ?? 0}`}
      </p>
      <PhaseLegend phases={path.byBound.map(([bound, time]) => `${boundText(bound)} ${formatPercent(share(time))}`)} />
      <PhaseBar
        phases={names}
        roles={names.map(() => 'work' as const)}
        values={path.byBound.map(([, time]) => time)}
        longest={path.total}
      />
      <DataTable
        caption="The heaviest parts of the critical path"
        columns={columns}
        rows={path.lines}
        keyOf={({ rank, bound, name }) => JSON.stringify([rank, bound, name])}
        order={{ by: 'total', direction: 'down' }}
        empty="The path has no parts."
      />
      <WorthTable path={path} />
    </div>
  );
}

/** Savings of the step: less than the part's own time where something else then holds it back. */
function WorthTable({ path: { worth, total } }: { readonly path: ProfilePath }): JSX.Element | null {
  const rows = worth.filter(({ savesAtHalf, savesAtZero }) => savesAtHalf > 0 || savesAtZero > 0);
  if (rows.length === 0) return null;
  const columns: readonly Column<ProfileWorth>[] = [
    {
      key: 'part',
      title: 'What if it took half of its time',
      sort: (row) => worthText(row),
      show: (row) => (
        <span class="data-table-name" title={worthText(row)}>
          {worthText(row, (name) => lineName(name))}
        </span>
      ),
    },
    timeColumn({ key: 'path', title: 'On the path', of: ({ onPath }) => onPath }),
    timeColumn({
      key: 'half',
      title: 'The step saves',
      hint: 'The step run again with it at half, on all ranks',
      of: ({ savesAtHalf }) => savesAtHalf,
    }),
    shareColumn({ key: 'share', title: 'Share', of: ({ savesAtHalf }) => (total > 0 ? savesAtHalf / total : 0) }),
    timeColumn({ key: 'zero', title: 'At no time', hint: 'The step run again without it', of: ({ savesAtZero }) => savesAtZero }),
  ];
  return (
    <DataTable
      caption="What parts of the critical path are worth"
      columns={columns}
      rows={rows}
      keyOf={({ bound, name }) => JSON.stringify([bound, name])}
      order={{ by: 'half', direction: 'down' }}
      empty="No part is worth anything."
    />
  );
}

/** Rules that fire, each with its evidence. */
export function AdviceList({ profile: { advice } }: { readonly profile: RunProfile }): JSX.Element {
  if (advice.length === 0) return <p class="muted">Nothing: no rule fires.</p>;
  return (
    <ul class="profile-advice">
      {advice.map(({ rule, ranks, evidence, advice: text, saves }) => (
        <li key={rule}>
          <b>{text.charAt(0).toUpperCase() + text.slice(1)}.</b>{' '}
          <span class="muted">
            {ranks.length === 1 ? 'Rank' : 'Ranks'} {formatRanks(ranks, 4)}: {evidence}
            {saves !== null && saves > 0 ? `; up to ${formatDuration(saves)} a step` : ''}.
          </span>
        </li>
      ))}
    </ul>
  );
}

const width = 640;
const height = 120;

/** Allocated bytes over time: the greatest value of each stretch. */
export function MemoryCurve({ memory }: { readonly memory: ProfileMemory }): JSX.Element | null {
  const { curve, peak, device } = memory;
  const [first, last] = [curve[0], curve.at(-1)];
  if (first === undefined || last === undefined || curve.length < 2) return null;
  const length = Math.max(1, last[0] - first[0]);
  const points = curve.map(([time, bytes]) => {
    return `${((width * (time - first[0])) / length).toFixed(1)},${(height - (height * bytes) / Math.max(1, peak)).toFixed(1)}`;
  });
  const label = `Memory of rank ${rankName(memory)}, ${device}: up to ${formatBytes(peak)}`;
  return (
    <figure class="profile-curve">
      <figcaption>
        Rank {rankName(memory)}, {device}: up to {formatBytes(peak)}, {formatDuration(length)}
      </figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} />
      </svg>
    </figure>
  );
}

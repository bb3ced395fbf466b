// The tables of the old TensorBoard plugin, of one rank or of all: devices and advice, operators, kernels, memory, modules, communication. Each line
// leads to its longest event on the timeline.

import type { JSX } from 'preact';
import type { RunClient } from '../client/run-client.ts';
import type { ViewState } from '../client/view-state.ts';
import { Tabset } from '../controls/tabset.tsx';
import { ProfileSectionCards, profileSections } from './profile-sections.tsx';
import { showPlace } from './show-place.ts';
import { useProfile } from './use-profile.ts';
import './profile.css';

export function ProfileView({ client, state }: { readonly client: RunClient; readonly state: ViewState }): JSX.Element {
  const rank = state.tablesRank.value;
  const shown = profileSections.find(({ key }) => key === state.tables.value)?.key;
  const { profile, absent, problem } = useProfile(client, rank);
  if (profile === undefined) {
    return (
      <div class="overview-empty profile-empty">
        <p role="status">
          {problem ??
            (absent?.rank === rank && absent !== undefined ? `Rank ${rank} has no tables.` : 'Summing up operators, kernels and memory …')}
        </p>
        {absent !== undefined && <RankChoice ranks={absent.others} state={state} />}
      </div>
    );
  }
  // The first tab that has something: a run without devices begins with its operators.
  const section = shown ?? profileSections.find(({ isEmpty }) => !isEmpty(profile))?.key ?? 'operators';
  const show = (key: string): void => {
    state.tables.value = key;
  };
  return (
    <div class="profile">
      <Tabset
        label="Tables"
        tabs={profileSections}
        shown={section}
        onShow={show}
        aside={<RankChoice ranks={profile.ranks} state={state} />}
      >
        <div class="profile-body">
          {!profile.analysed && <p class="muted">Of what was read so far.</p>}
          <ProfileSectionCards section={section} profile={profile} onPlace={(name, place) => void showPlace(client, state, name, place)} />
        </div>
      </Tabset>
    </div>
  );
}

function RankChoice({ ranks, state }: { readonly ranks: readonly number[]; readonly state: ViewState }): JSX.Element {
  const rank = state.tablesRank.value;
  return (
    <label class="profile-rank">
      Rank
      <select
        value={rank ?? ''}
        onChange={({ currentTarget: { value } }) => {
          state.tablesRank.value = value === '' ? undefined : Number(value);
        }}
      >
        <option value="">all together</option>
        {rank !== undefined && !ranks.includes(rank) && <option value={rank}>{rank}</option>}
        {ranks.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  );
}

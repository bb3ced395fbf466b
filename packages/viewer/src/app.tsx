// The page around its three views: it chooses the run and the view, and shows whether the line to the service is up.

import { effect, useSignal } from '@preact/signals';
import type { RunLine } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Connection } from './client/connection.ts';
import { createOtherState } from './client/other-state.ts';
import { RunClient } from './client/run-client.ts';
import { chooseOther, chooseRun, type PageName, pageNames, type ViewState } from './client/view-state.ts';
import { CompareView } from './compare/compare-view.tsx';
import { formatMany } from './controls/format.ts';
import { type ThemeChoice, useThemeChoice } from './controls/theme.ts';
import { HelpDialog } from './help-dialog.tsx';
import { OverviewView } from './overview/overview-view.tsx';
import { isReading, readingText } from './overview/reading.ts';
import { ProfileView } from './profile/profile-view.tsx';
import { KeptSessions } from './timeline/kept-sessions.ts';
import { TimelineView } from './timeline/timeline-view.tsx';

const pageTitles: Readonly<Record<PageName, string>> = {
  overview: 'Overview',
  timeline: 'Timeline',
  compare: 'Compare',
  profile: 'Profile',
};

export function App({ connection, state }: { connection: Connection; state: ViewState }): JSX.Element {
  const runs = useRuns(connection, state);
  const client = useRunClient(connection, state.run.value);
  const isCompare = state.page.value === 'compare';
  // A run cannot be compared with itself.
  const other = useRunClient(connection, isCompare && state.other.value !== state.run.value ? state.other.value : undefined);
  const otherState = useMemo(() => createOtherState(state), [state]);
  const sessions = useMemo(() => new KeptSessions(), []);
  const isHelpOpen = useSignal(false);

  useEffect(() => {
    const down = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if ((event.target as HTMLElement).closest('dialog, input, select, textarea') !== null) return;
      const page = pageNames[Number(event.key) - 1];
      if (page !== undefined) state.page.value = page;
      else if (event.key === '?') isHelpOpen.value = true;
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', down);
    return () => removeEventListener('keydown', down);
  }, [state, isHelpOpen]);

  useEffect(
    () =>
      effect(() => {
        document.title = `${state.run.value === undefined ? '' : `${state.run.value} · `}ranktrace`;
      }),
    [state],
  );

  return (
    <>
      <header class="top">
        <strong class="brand">ranktrace</strong>
        <RunPicker label="Run" runs={runs} chosen={state.run.value} onChoose={(run) => chooseRun(state, run)} />
        {isCompare && (
          <RunPicker
            label="with"
            runs={runs?.filter(({ run }) => run !== state.run.value)}
            chosen={state.other.value}
            onChoose={(run) => chooseOther(state, run)}
          />
        )}
        <nav class="views" aria-label="Views">
          {pageNames.map((page) => (
            <button
              type="button"
              key={page}
              class="view"
              aria-current={state.page.value === page ? 'page' : undefined}
              onClick={() => {
                state.page.value = page;
              }}
            >
              {pageTitles[page]}
            </button>
          ))}
        </nav>
        <span class="spring" />
        {client !== undefined && <RunStatus client={client} isConnected={connection.state.value === 'open'} />}
        <ConnectionStatus connection={connection} />
        <ThemeButton />
        <button
          type="button"
          class="icon-button"
          aria-label="Help"
          title="Keys and mouse (?)"
          onClick={() => {
            isHelpOpen.value = true;
          }}
        >
          ?
        </button>
      </header>
      <main class="page-body">
        <h1 class="page-title">
          {pageTitles[state.page.value]}
          {state.run.value !== undefined && ` of ${state.run.value}`}
        </h1>
        <PageBody runs={runs} client={client} other={other} state={state} otherState={otherState} sessions={sessions} />
      </main>
      <HelpDialog isOpen={isHelpOpen} />
    </>
  );
}

function PageBody({
  runs,
  client,
  other,
  state,
  otherState,
  sessions,
}: {
  runs: readonly RunLine[] | undefined;
  client: RunClient | undefined;
  other: RunClient | undefined;
  state: ViewState;
  otherState: ViewState;
  sessions: KeptSessions;
}): JSX.Element {
  if (client === undefined) {
    return (
      <div class="empty" role="status">
        {runs === undefined ? (
          <span class="muted">Connecting …</span>
        ) : (
          <>
            <strong>No runs yet</strong>
            <span>As soon as a rank sends something, its run appears here.</span>
          </>
        )}
      </div>
    );
  }
  switch (state.page.value) {
    case 'overview':
      return <OverviewView key={client.run} client={client} state={state} />;
    case 'timeline':
      return <TimelineView key={client.run} session={sessions.of(client, state)} />;
    case 'profile':
      return <ProfileView key={client.run} client={client} state={state} />;
    case 'compare':
      return other === undefined ? (
        <div class="empty" role="status">
          <strong>Compare with what?</strong>
          <span>{(runs?.length ?? 0) < 2 ? 'There is no other run yet.' : 'Choose the second run above.'}</span>
        </div>
      ) : (
        <CompareView
          key={`${client.run} ${other.run}`}
          a={client}
          b={other}
          state={state}
          timeline={(each) => <TimelineView key={each.run} session={sessions.of(each, each === other ? otherState : state)} />}
        />
      );
  }
}

function RunPicker(props: {
  label: string;
  runs: readonly RunLine[] | undefined;
  chosen: string | undefined;
  onChoose: (run: string) => void;
}): JSX.Element {
  const runs = props.runs ?? [];
  const isKnown = runs.some(({ run }) => run === props.chosen);
  return (
    <label class="field">
      <span>{props.label}</span>
      <select value={props.chosen ?? ''} onChange={(event) => props.onChoose(event.currentTarget.value)}>
        {!isKnown && <option value={props.chosen ?? ''}>{props.chosen ?? '–'}</option>}
        {runs.map(({ run, ranks, live }) => (
          <option key={run} value={run}>
            {run}
            {/* A run that no page has opened yet has unknown contents. */}
            {ranks > 0 ? ` · ${formatMany(ranks, 'rank')}` : ''}
            {live === true ? ' · live' : ''}
          </option>
        ))}
      </select>
    </label>
  );
}

function RunStatus({ client, isConnected }: { client: RunClient; isConnected: boolean }): JSX.Element | null {
  const model = client.model.value;
  const problem = client.problem.value;
  // Without the service nothing is live, and nothing is being read.
  if (!isConnected) return null;
  if (problem !== undefined) {
    return (
      <span class="badge badge-alert" title={problem}>
        {model === undefined ? 'cannot be shown' : 'not up to date'}
      </span>
    );
  }
  if (model === undefined) return null;
  const ranks = new Set(model.processes.map(({ rank }) => rank)).size;
  const lost = model.processes.reduce((sum, { missing, droppedEvents }) => sum + missing + droppedEvents, 0);
  return (
    <span class="run-status">
      {model.live && (
        <span class="badge badge-good">
          <span class="live-dot" aria-hidden="true" />
          live
        </span>
      )}
      {isReading(model) && <span class="muted">{readingText(model)}</span>}
      {!isReading(model) && ranks < model.worldSize && (
        <span class="badge badge-warning">{formatMany(model.worldSize - ranks, 'rank')} missing</span>
      )}
      {lost > 0 && <span class="badge badge-alert">something was lost</span>}
      {model.clockConflicts.length > 0 && <span class="badge badge-warning">clocks contradict each other</span>}
      {(ranks > 0 || !isReading(model)) && <span class="muted">{formatMany(ranks, 'rank')}</span>}
    </span>
  );
}

function ConnectionStatus({ connection }: { connection: Connection }): JSX.Element | null {
  if (connection.state.value === 'open') return null;
  return (
    <span class="badge badge-warning" role="status">
      {connection.state.value === 'connecting' ? 'connecting …' : 'connection lost, trying again …'}
    </span>
  );
}

const nextTheme: Readonly<Record<ThemeChoice, ThemeChoice>> = { system: 'light', light: 'dark', dark: 'system' };
const themeSigns: Readonly<Record<ThemeChoice, string>> = { system: '◐', light: '☀', dark: '☾' };

function ThemeButton(): JSX.Element {
  const { choice } = useThemeChoice();
  const now = choice.value;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`Colours: ${now === 'system' ? 'as the system' : now}`}
      title={`Colours: ${now === 'system' ? 'as the system' : now}`}
      onClick={() => {
        choice.value = nextTheme[now];
      }}
    >
      {themeSigns[now]}
    </button>
  );
}

// The list of runs, for the life of the page; chooses the only run, or the first live one, when none is chosen.
function useRuns(connection: Connection, state: ViewState): readonly RunLine[] | undefined {
  const [runs, setRuns] = useState<readonly RunLine[]>();
  useEffect(() => {
    const take = (list: readonly RunLine[]): void => {
      setRuns(list);
      const first = list.find(({ live }) => live === true) ?? list[0];
      if (state.run.peek() === undefined && first !== undefined) state.run.value = first.run;
    };
    const stops = [
      connection.listen((reported) => {
        if (reported.type === 'runs') take(reported.runs);
      }),
      connection.onUp(() => {
        connection.request<readonly RunLine[]>({ type: 'runs' }).then(take, () => undefined);
      }),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }, [connection, state]);
  return runs;
}

// The client of a run while the run is open.
function useRunClient(connection: Connection, run: string | undefined): RunClient | undefined {
  const [client, setClient] = useState<RunClient>();
  useEffect(() => {
    if (run === undefined) {
      setClient(undefined);
      return;
    }
    const opened = new RunClient(connection, run);
    setClient(opened);
    return () => opened.close();
  }, [connection, run]);
  return client?.run === run ? client : undefined;
}

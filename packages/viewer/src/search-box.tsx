// Search by name: what is meant stays bright on the timeline, Enter goes to the next one, the list says which names there are.

import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { formatCount, formatDuration, formatMany } from './format.ts';
import { selectMatch } from './timeline/navigate.ts';
import type { TimelineSession } from './timeline/session.ts';

const namesShownMax = 12;

export function SearchBox({ session }: { session: TimelineSession }): JSX.Element {
  const { state } = session;
  const isOpen = useSignal(false);
  const matches = session.matches.value;
  const text = state.search.value;
  const total = matches?.result.names.reduce((sum, { count }) => sum + count, 0) ?? 0;
  const names = matches?.result.names.slice(0, namesShownMax) ?? [];
  const others = (matches?.result.names.length ?? 0) + (matches?.result.leftOut ?? 0) - names.length;
  return (
    <search
      class="search"
      onFocusIn={() => {
        isOpen.value = true;
      }}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) isOpen.value = false;
      }}
    >
      <input
        type="search"
        value={text}
        placeholder="Search names  /"
        aria-label="Search names"
        maxLength={256}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => {
          state.search.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') {
            event.preventDefault();
            void selectMatch(session, event.shiftKey ? 'previous' : 'next');
          } else if (event.key === 'Escape') {
            event.preventDefault();
            if (text === '') event.currentTarget.blur();
            else state.search.value = '';
          }
        }}
      />
      {matches !== undefined && (
        <>
          <span class="search-count muted" role="status">
            {total === 0 ? 'none' : formatCount(total)}
          </span>
          <span class="button-group">
            <button
              type="button"
              aria-label="The one before"
              title="The one before (Shift+Enter)"
              disabled={total === 0}
              onClick={() => void selectMatch(session, 'previous')}
            >
              ‹
            </button>
            <button
              type="button"
              aria-label="The next one"
              title="The next one (Enter)"
              disabled={total === 0}
              onClick={() => void selectMatch(session, 'next')}
            >
              ›
            </button>
          </span>
        </>
      )}
      {isOpen.value && matches !== undefined && (
        <div class="search-list">
          {names.length === 0 && <p class="muted">No name holds “{matches.text}”.</p>}
          {names.map(({ name, count, total: time }) => (
            <button type="button" class="search-hit" key={name} onClick={() => void selectMatch(session, 'next', name)}>
              <span class="search-name">{session.nameOf(name)}</span>
              <span class="muted">
                {formatCount(count)} × · {formatDuration(time)}
              </span>
            </button>
          ))}
          {others > 0 && <p class="muted">and {formatMany(others, 'more name')}</p>}
        </div>
      )}
    </search>
  );
}

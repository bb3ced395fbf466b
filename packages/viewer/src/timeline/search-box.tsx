// Search by name: matches stay bright on the timeline, Enter goes to the next one, the list shows the names found. `step 12` means the step, unless a
// name matches.

import { useSignal } from '@preact/signals';
import { cutMiddle } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { formatCount, formatDuration, formatMany } from '../controls/format.ts';
import { isReading } from '../overview/reading.ts';
import { stepsText } from '../overview/step-bins.ts';
import { goToMatch, selectMatch } from './navigate.ts';
import type { TimelineSession } from './session.ts';
import { hasStep, showStep, stepOf } from './step-search.ts';

const namesShownMax = 12;
const nameCharsMax = 44;
const aliasCharsMax = 30;

export function SearchBox({ session }: { session: TimelineSession }): JSX.Element {
  const { state } = session;
  const isOpen = useSignal(false);
  const matches = session.matches.value;
  const text = state.search.value;
  // The last answer stays in the list while another text is searched for; its number would be taken for that of the text.
  const isAnswered = matches?.text === text.trim();
  const total = matches?.result.names.reduce((sum, { count }) => sum + count, 0) ?? 0;
  const names = matches?.result.names.slice(0, namesShownMax) ?? [];
  const step = stepOf(text);
  const model = session.client.model.value;
  const overview = session.overview.now.value;
  const stepIsThere = step !== undefined && hasStep(step, overview, model) !== false;
  const isPartial = model === undefined || isReading(model);
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
        placeholder="Search names, step 12  /"
        aria-label="Search names and steps"
        maxLength={256}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => {
          state.search.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') {
            event.preventDefault();
            goToMatch(session, event.shiftKey ? 'previous' : 'next');
          } else if (event.key === 'Escape') {
            // Back to the lanes; the matches stay bright until Escape is pressed there.
            event.preventDefault();
            event.currentTarget.closest('.timeline')?.querySelector<HTMLElement>('.timeline-canvas')?.focus();
          }
        }}
      />
      {matches !== undefined && (
        <>
          <span class="search-count muted" role="status" aria-busy={!isAnswered}>
            {!isAnswered ? '…' : total > 0 ? formatCount(total) : stepIsThere ? 'a step' : isPartial ? 'none so far' : 'none'}
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
          {step !== undefined && !stepIsThere && overview !== undefined && (
            <p class="muted">
              There is no step {step} in this run: it has {stepsText(overview.fromStep, overview.toStep)}.
            </p>
          )}
          {step !== undefined && stepIsThere && (
            <button type="button" class="search-hit" onClick={() => void showStep(session, step)}>
              <span class="search-name">Step {step}</span>
              <span class="muted">on all ranks</span>
            </button>
          )}
          {names.length === 0 && step === undefined && (
            <p class="muted">
              No name {isPartial && 'so far '}holds “{matches.text}”.
            </p>
          )}
          {names.map(({ name, count, total: time, alias }) => (
            <button type="button" class="search-hit" key={name} onClick={() => void selectMatch(session, 'next', name)}>
              <span class="search-name" title={session.nameOf(name)}>
                {cutMiddle(session.shortNameOf(name), nameCharsMax)}
                {alias !== undefined && <span class="muted"> · recorded as {cutMiddle(alias, aliasCharsMax)}</span>}
              </span>
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

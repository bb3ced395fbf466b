// The bar above the lanes: grouping of ranks, zoom, following a live run, the read part of the run, search.

import type { JSX } from 'preact';
import type { Grouping } from '../client/view-state.ts';
import { isReading, readingText } from '../overview/reading.ts';
import { layerOf, layersIn, layerTitles } from './layers.ts';
import { LegendButton } from './legend.tsx';
import { SearchBox } from './search-box.tsx';
import type { TimelineSession } from './session.ts';

export function TimelineBar({ session }: { session: TimelineSession }): JSX.Element {
  const { state, client } = session;
  const model = client.model.value;
  const axes = [...new Set((model?.groups ?? []).map(({ axis }) => axis))].filter((axis) => axis !== 'world').sort();
  const options: readonly (readonly [Grouping, string])[] = [
    ['rank', 'Rank'],
    ['host', 'Host'],
    ...axes.map((axis) => [axis, axis] as const),
  ];
  return (
    <div class="timeline-bar">
      <label class="field">
        <span>Group by</span>
        <select
          value={state.grouping.value}
          onChange={(event) => {
            state.grouping.value = event.currentTarget.value;
          }}
        >
          {options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <span class="button-group">
        <button type="button" aria-label="Zoom out" title="Zoom out (S)" onClick={() => session.zoomAt(1.6, session.size.peek().width / 2)}>
          −
        </button>
        <button
          type="button"
          aria-label="Zoom in"
          title="Zoom in (W)"
          onClick={() => session.zoomAt(1 / 1.6, session.size.peek().width / 2)}
        >
          +
        </button>
        <button type="button" title="Show the whole run (0)" onClick={() => session.showWhole()}>
          All
        </button>
      </span>
      {model?.live === true && (
        <button
          type="button"
          class="follow"
          aria-pressed={state.follow.value}
          title="Move on with the newest data (L)"
          onClick={() => session.setFollow(!state.follow.peek())}
        >
          <span class="live-dot" aria-hidden="true" />
          {state.follow.value ? 'Following' : 'Follow'}
        </button>
      )}
      <Layers session={session} />
      {hasDevices(session) && (
        <button
          type="button"
          aria-pressed={state.path.value}
          title="What the step is as long as: draw and list it (C)"
          onClick={() => {
            state.path.value = !state.path.peek();
          }}
        >
          Critical path
        </button>
      )}
      <LegendButton session={session} />
      <Reading session={session} />
      <span class="spring" />
      <SearchBox session={session} />
    </div>
  );
}

const hasDevices = (session: TimelineSession): boolean => [...session.tracks.value.values()].some((track) => layerOf(track) === 'device');

/** A button for each layer of the run: pressed while it is shown. */
function Layers({ session }: { session: TimelineSession }): JSX.Element | null {
  const { hidden } = session.state;
  const found = layersIn([...session.tracks.value.values()]);
  if (found.length < 2) return null;
  return (
    <fieldset class="button-group layers" aria-label="Layers">
      {found.map((layer) => {
        const isShown = !hidden.value.has(layer);
        return (
          <button
            type="button"
            key={layer}
            aria-pressed={isShown}
            title={`${isShown ? 'Hide' : 'Show'} ${layerTitles[layer]}`}
            onClick={() => {
              const next = new Set(hidden.peek());
              if (isShown) next.add(layer);
              else next.delete(layer);
              hidden.value = next;
            }}
          >
            {layerTitles[layer]}
          </button>
        );
      })}
    </fieldset>
  );
}

function Reading({ session }: { session: TimelineSession }): JSX.Element | null {
  const model = session.client.model.value;
  if (model === undefined || !isReading(model)) {
    return session.isLoading.value ? <span class="reading muted">loading …</span> : null;
  }
  return (
    <span class="reading">
      <progress max={model.total} value={model.read} aria-label="Reading the run" />
      <span class="muted">{readingText(model)}</span>
    </span>
  );
}

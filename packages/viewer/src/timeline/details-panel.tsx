// All known facts of the selected event: its time, length and place, the rank's own fields, and the same collective or call on other ranks.

import { type EventDetails, type EventPlace, lineName, type RunModel, shortName } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { CopyButton } from '../controls/copy-button.tsx';
import { formatBound, formatCount, formatDuration, formatRanks, formatTime, formatWallClock } from '../controls/format.ts';
import { processNames } from '../overview/rank-lives.ts';
import { arrivalsOf, arrivalsTitle } from './arrivals.ts';
import { shownFields } from './detail-fields.ts';
import { type EventFacts, eventLink, eventText } from './event-text.ts';
import { fitSelection, goTo, markSelection, selectSameName } from './navigate.ts';
import { trackLabel } from './rows.ts';
import type { TimelineSession } from './session.ts';

export function DetailsPanel({ session }: { session: TimelineSession }): JSX.Element {
  const details = session.details.value;
  const model = session.client.model.value;
  const problem = session.detailsProblem.value;
  if (details === undefined || model === undefined) {
    return (
      <div class="panel-head">
        <h2 class="muted">{problem ?? '…'}</h2>
        <CloseButton session={session} />
      </div>
    );
  }
  const merged = session.mergedCount.value;
  const facts = factsOf(session, details, model);
  return (
    <>
      <div class="panel-head">
        <h2 title={details.name}>{shortName(details.name)}</h2>
        <span class="badge">{details.kind}</span>
        {details.category !== '' && details.category !== details.kind && <span class="badge">{details.category}</span>}
        {details.open && <span class="badge badge-warning">has not ended</span>}
        {merged > 1 && <span class="muted">the longest of {formatCount(merged)} drawn as one: zoom in to see each</span>}
        <span class="spring" />
        <button type="button" title="Zoom to it (F)" onClick={() => fitSelection(session)}>
          Zoom to it
        </button>
        <span class="button-group">
          <button type="button" title="The one of the same name before ([)" onClick={() => void selectSameName(session, 'previous')}>
            ← same
          </button>
          <button type="button" title="The one of the same name after (])" onClick={() => void selectSameName(session, 'next')}>
            same →
          </button>
        </span>
        <button type="button" title="Sum up its time (M)" onClick={() => markSelection(session)}>
          Sum up
        </button>
        <CopyButton
          title="Copy all that is known of it, as text"
          text={() => eventText(details, facts, { zero: session.zero.peek(), rank: rankOf(session, details) })}
        >
          Copy details
        </CopyButton>
        <CopyButton
          title="Copy an address that opens this event"
          text={() => eventLink(location, session.client.run, session.state.link.peek(), session.window.peek())}
        >
          Copy link
        </CopyButton>
        <CloseButton session={session} />
      </div>
      <div class="panel-body details">
        <Facts facts={facts} />
        {(details.partners.length > 0 || details.partnersMissing.length > 0) && <Partners session={session} details={details} />}
        <Launches session={session} details={details} />
        {details.stack.length > 0 && (
          <div class="details-part">
            <h3>Stack</h3>
            <ol class="stack">
              {details.stack.map((line, at) => (
                <li key={at}>{line}</li>
              ))}
            </ol>
          </div>
        )}
      </div>
    </>
  );
}

function factsOf(session: TimelineSession, details: EventDetails, model: RunModel): EventFacts {
  const track = session.tracks.value.get(details.track);
  const process = track === undefined ? undefined : session.processes.value.get(track.process);
  const zero = session.zero.value;
  const clock = formatWallClock(model.unixEpoch, details.start);
  const facts: (readonly [string, string])[] = [
    ...(shortName(details.name) === details.name ? [] : [['Name', details.name] as const]),
    ['Start', `${formatTime(details.start - zero, 1)}${clock === undefined ? '' : `  (${clock})`}`],
  ];
  if (details.kind !== 'instant') facts.push(['Length', `${formatDuration(details.length)}${details.open ? ' so far' : ''}`]);
  if (details.self !== null && details.self < details.length * 0.999) facts.push(['Self', formatDuration(details.self)]);
  if (process !== undefined && track !== undefined) {
    const name = processNames(model.processes).get(process.index) ?? String(process.rank);
    facts.push(['Where', `rank ${name} on ${process.hostName || process.host} · ${trackLabel(track)}`]);
    facts.push(['Clock', formatBound(details.bound ?? process.alignment.bound)]);
  }
  return [...facts, ...shownFields(details)];
}

function Facts({ facts }: { readonly facts: EventFacts }): JSX.Element {
  return (
    <div class="details-part">
      <table class="facts">
        <tbody>
          {facts.map(([name, value], at) => (
            <tr key={at}>
              <th scope="row">{name}</th>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// A device's work and the call that launched it lead to each other.
function Launches({ session, details }: { session: TimelineSession; details: EventDetails }): JSX.Element | null {
  const { launchedBy, launched, launchedLeftOut } = details;
  if (launchedBy.length + launched.length === 0) return null;
  const link = (place: EventPlace): JSX.Element => (
    <button type="button" class="link" title={place.name} onClick={() => goTo(session, place)}>
      {lineName(place.name, launchCharsMax)}
    </button>
  );
  const [call] = launchedBy;
  return (
    <div class="details-part launches">
      {launchedBy.length > 0 && call !== undefined && (
        <>
          <h3>Launched by</h3>
          <ol>
            {launchedBy.map((place) => (
              <li key={`${place.track}.${place.event}`}>
                {link(place)} <span class="muted">{formatDuration(place.length)}</span>
              </li>
            ))}
          </ol>
          <p class="muted">{formatDuration(details.start - call.start)} after the call began</p>
        </>
      )}
      {launched.length > 0 && (
        <>
          <h3>Launched</h3>
          <ol>
            {launched.map((place) => (
              <li key={`${place.track}.${place.event}`}>
                {link(place)}{' '}
                <span class="muted">
                  {formatDuration(place.length)}, {formatDuration(place.start - details.start)} later
                </span>
              </li>
            ))}
          </ol>
          {launchedLeftOut > 0 && <p class="muted">and {formatCount(launchedLeftOut)} more</p>}
        </>
      )}
    </div>
  );
}

const launchCharsMax = 48;

function rankOf(session: TimelineSession, { track }: EventDetails): number {
  return session.processes.value.get(session.tracks.value.get(track)?.process ?? -1)?.rank ?? -1;
}

// Order of arrival: in a collective, the last rank kept the others waiting.
function Partners({ session, details }: { session: TimelineSession; details: EventDetails }): JSX.Element {
  const rank = rankOf(session, details);
  const isCollective = details.kind === 'collective';
  return (
    <div class="details-part">
      <h3>{arrivalsTitle(details)}</h3>
      <table class="partners">
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">{isCollective ? 'Came in' : 'Start'}</th>
            {isCollective && <th scope="col">Waited</th>}
            <th scope="col">Length</th>
          </tr>
        </thead>
        <tbody>
          {arrivalsOf(details, rank).map(({ place, rank: of, isThis, isLast, cameIn, waited }) => (
            <tr key={`${place.track}.${place.event}`} class={isThis ? 'is-this' : isLast ? 'is-last' : ''}>
              <th scope="row">
                {isThis ? (
                  `${of}`
                ) : (
                  <button type="button" class="link" onClick={() => goTo(session, place)}>
                    {of}
                  </button>
                )}
              </th>
              <td>{cameIn}</td>
              {waited !== undefined && <td>{waited}</td>}
              <td>{formatDuration(place.length)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {details.partnersMissing.length > 0 && <p class="warning">Not found on rank {formatRanks(details.partnersMissing)}</p>}
    </div>
  );
}

function CloseButton({ session }: { session: TimelineSession }): JSX.Element {
  return (
    <button type="button" class="panel-close" aria-label="Close" title="Close (Esc)" onClick={() => session.select(undefined)}>
      ×
    </button>
  );
}

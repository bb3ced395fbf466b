// Requests that follow the view: details of the selection, arrows in view, names of the search. Each function keeps a signal of the session up to
// date until the returned function is called; outdated answers change nothing.

import { batch, computed, effect, signal } from '@preact/signals';
import type { EventDetails, ViewTrack } from '@ranktrace/protocol';
import { Refresher } from '../client/refresh.ts';
import { eventOf, linkTo, slackNs } from '../client/track-keys.ts';
import type { EventLink, Selection } from '../client/view-state.ts';
import { isReading } from '../overview/reading.ts';
import { goToMatch } from './navigate.ts';
import type { TimelineSession } from './session.ts';

/** Debounce: the view must rest for this long before its arrows are requested. */
const linksDelayMs = 180;
const tracksAskedMax = 512;
const searchDelayMs = 120;
/** Least time between two searches for the same, while the run grows. */
const askedAgainMs = 1000;
/** Lengths of one event by two fits of the clocks differ by less, ns. */
const lengthSlackNs = 1000;

/** `session.details` of `state.selected`; requested again as the run grows while the event has not ended, or was not found in what is read. */
export function followSelection(session: TimelineSession): () => void {
  const { state, client } = session;
  const isReady = computed(() => client.model.value !== undefined);
  const isOpen = computed(() => session.details.value?.open === true);
  // A link may lead to an event that is read in a moment.
  const notFound = signal<Selection | undefined>(undefined);
  return effect(() => {
    const selected = state.selected.value;
    if (!isReady.value) return;
    if ((isOpen.value || (selected !== undefined && notFound.value === selected)) && session.isShown.value) void client.model.value;
    if (selected === undefined) {
      batch(() => {
        session.details.value = undefined;
        session.detailsProblem.value = undefined;
        session.place.value = undefined;
      });
      return;
    }
    const before = session.details.peek();
    if (before !== undefined && (before.track !== selected.track || before.event !== selected.event)) session.details.value = undefined;
    const isStill = (): boolean => !session.isDisposed && state.selected.peek() === selected;
    client.event(selected.track, selected.event).then(
      (details) => {
        if (!isStill()) return;
        const shown = session.details.peek();
        if (shown !== undefined && state.link.peek() !== undefined && isOther(shown, details)) {
          // Its rank was read again, and events have other numbers: `link` leads to it.
          batch(() => {
            session.details.value = undefined;
            state.selected.value = undefined;
          });
          return;
        }
        const isFromLink = session.place.peek() === undefined;
        const keys = session.keys.peek();
        batch(() => {
          session.details.value = details;
          session.detailsProblem.value = undefined;
          notFound.value = undefined;
          session.place.value = details;
          state.link.value = keys && linkTo(details, keys);
          if (isFromLink) session.toReveal.value = details;
        });
      },
      (error: Error) => {
        if (!isStill()) return;
        session.detailsProblem.value = error.message;
        notFound.value = selected;
      },
    );
  });
}

/** Whether two answers for one number are of different events: clocks that are fitted anew move an event, but keep its length. */
function isOther(before: EventDetails, now: EventDetails): boolean {
  if (before.depth !== now.depth || before.name !== now.name) return true;
  if (Math.abs(before.start - now.start) <= slackNs || (before.open && now.open)) return false;
  return Math.abs(before.length - now.length) > lengthSlackNs;
}

/** Selects the event of `state.link` while none is selected; looked for again as the run grows, for it may be read in a moment. */
export function followLinkedEvent(session: TimelineSession): () => void {
  const { client, state } = session;
  const wanted = computed(() => (state.selected.value === undefined ? state.link.value : undefined));
  const ask = async (link: EventLink): Promise<void> => {
    const [keys, model] = [session.keys.peek(), client.model.peek()];
    if (keys === undefined || model === undefined) return;
    const event = await eventOf(link, keys, client).catch(() => undefined);
    if (session.isDisposed || wanted.peek() !== link) return;
    if (event !== undefined) state.selected.value = event;
    else if (!model.live && !isReading(model)) session.say('The event that the address names is not in this run');
  };
  let [sought, refresher]: [EventLink?, Refresher?] = [];
  const stop = effect(() => {
    const link = wanted.value;
    if (link !== sought) {
      refresher?.close();
      [sought, refresher] = [link, link && new Refresher(() => ask(link), askedAgainMs)];
    }
    if (client.model.value !== undefined && session.isShown.value) refresher?.changed();
  });
  return () => {
    stop();
    refresher?.close();
  };
}

/** `session.links` of the lanes in view; requested again as the run grows, at most once a second. */
export function followLinks(session: TimelineSession): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort: AbortController | undefined;
  let refresher: Refresher | undefined;
  const giveUp = (): void => {
    clearTimeout(timer);
    refresher?.close();
    refresher = undefined;
    abort?.abort(new DOMException('moved on', 'AbortError'));
    abort = undefined;
  };
  const inView = computed(() => {
    const { height } = session.size.value;
    const top = session.scrollTop.value;
    return session.layout.value.rows
      .filter((row) => row.top < top + height && row.top + row.height > top)
      .flatMap((row) => (row.kind === 'track' ? [(row.track as ViewTrack).track] : row.lanes.map(({ track }) => track)))
      .slice(0, tracksAskedMax)
      .join();
  });
  const ask = async (): Promise<void> => {
    const tracks = inView.peek();
    if (tracks === '') {
      session.links.value = undefined;
      return;
    }
    const mine = new AbortController();
    abort = mine;
    await session.client.links({ ...session.window.peek(), tracks: tracks.split(',').map(Number) }, mine.signal).then(
      (links) => {
        if (!mine.signal.aborted) session.links.value = links;
      },
      () => undefined,
    );
  };
  const isReady = computed(() => session.isShown.value && session.client.model.value !== undefined && session.size.value.width > 0);
  const stopView = effect(() => {
    // A window that moves because the run grows never rests.
    const isMoving = session.state.follow.value || session.state.from.value === undefined;
    if (!isMoving) void session.window.value;
    void session.scrollTop.value;
    void inView.value;
    giveUp();
    if (!isReady.value) return;
    timer = setTimeout(() => {
      refresher = new Refresher(ask, askedAgainMs);
      refresher.changed();
    }, linksDelayMs);
  });
  const stopGrowth = effect(() => {
    // A request under way goes on: a live run grows more often than a slow line answers.
    void session.client.model.value;
    refresher?.changed();
  });
  return () => {
    stopView();
    stopGrowth();
    giveUp();
  };
}

/** Time between two requests for a path that is not there yet, and their greatest number. */
const pathDelayMs = 2000;
const pathRequestsMax = 150;

/**
 * `session.path` while it is shown; requested again until the analysis has one, once the analysis covers the whole run, and of a run of another
 * epoch. While a run goes on, the path that a person looks at stays.
 */
export function followPath(session: TimelineSession): () => void {
  const wanted = computed(() => {
    const model = session.client.model.value;
    if (!session.state.path.value || !session.isShown.value || model === undefined) return undefined;
    const isWhole = !model.live && !isReading(model) && session.overview.now.value?.analysed === true;
    return `${model.epoch} ${isWhole}`;
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort: AbortController | undefined;
  const giveUp = (): void => {
    clearTimeout(timer);
    abort?.abort(new DOMException('moved on', 'AbortError'));
    abort = undefined;
  };
  const ask = (left: number): void => {
    const mine = new AbortController();
    abort = mine;
    session.client.path(mine.signal).then(
      (path) => {
        if (mine.signal.aborted) return;
        if (path?.step !== session.path.peek()?.step) session.pathAt.value = undefined;
        session.path.value = path;
        if (path === null && left > 0) timer = setTimeout(() => ask(left - 1), pathDelayMs);
      },
      () => {
        // The line broke, or the service is too busy.
        if (!mine.signal.aborted && left > 0) timer = setTimeout(() => ask(left - 1), pathDelayMs);
      },
    );
  };
  const stop = effect(() => {
    giveUp();
    if (wanted.value !== undefined) ask(pathRequestsMax);
    else if (!session.state.path.value) {
      session.path.value = undefined;
      session.pathAt.value = undefined;
    }
  });
  return () => {
    stop();
    giveUp();
  };
}

/** `session.matches` of `state.search`; searched again as the run grows, and in a run of another epoch. */
export function followSearch(session: TimelineSession): () => void {
  const { client, state } = session;
  const epoch = computed(() => client.model.value?.epoch);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort: AbortController | undefined;
  let refresher: Refresher | undefined;
  const giveUp = (): void => {
    clearTimeout(timer);
    refresher?.close();
    refresher = undefined;
    abort?.abort(new DOMException('moved on', 'AbortError'));
    abort = undefined;
  };
  const ask = async (text: string): Promise<void> => {
    const mine = new AbortController();
    abort = mine;
    await client.search(text, mine.signal).then(
      (result) => {
        if (mine.signal.aborted) return;
        session.matches.value = { text, result, names: new Set(result.names.map(({ name }) => name)) };
        const wanted = session.wantedMatch;
        session.wantedMatch = undefined;
        if (wanted !== undefined) goToMatch(session, wanted);
      },
      () => {
        if (!mine.signal.aborted) session.wantedMatch = undefined;
      },
    );
  };
  const stopText = effect(() => {
    const text = state.search.value.trim();
    const isReady = epoch.value !== undefined;
    giveUp();
    if (text === '' || !isReady) {
      session.matches.value = undefined;
      if (text === '') session.wantedMatch = undefined;
      return;
    }
    timer = setTimeout(() => {
      refresher = new Refresher(() => ask(text), askedAgainMs);
      refresher.changed();
    }, searchDelayMs);
  });
  const stopGrowth = effect(() => {
    // Names and their counts grow with the run; the last growth is the end of reading.
    void client.model.value;
    if (session.isShown.value) refresher?.changed();
  });
  return () => {
    stopText();
    stopGrowth();
    giveUp();
  };
}

// The view in the address, after the #: the server never sees it, and a link opens the same view for somebody else.
//
//   #/timeline?run=train&from=1200000000&until=1300000000&group=host&fold=r3,r4&pin=r3-1kq0zb&hide=host&path=1&q=nccl
//   #/timeline?run=train&sel=r3-1kq0zb_1200000456_2_9f&area=1000000000_2000000000_r3-1kq0zb_r4-1kq0zb
//   #/overview?run=train&steps=47-91&sort=host&cells=waiting
//   #/profile?run=train&tables=kernels&rank=3
//
// Unreadable parts are left out; no address can make the page fail. Moving the window replaces the address; another page, run, tab or rank, or
// other steps add one to the history, so that Back returns to the previous view.

import { batch, effect } from '@preact/signals';
import { linkText } from './client/track-keys.ts';
import { type EventLink, type PageName, pageNames, type ViewState } from './client/view-state.ts';

/** Longer lists than these do not belong in a link. */
const keysMax = 200;
/** A host's name or a group's may hold commas (`tp [0, 1]`). */
const keyPattern = /^[^\n\r]{1,300}$/;
const writeMs = 250;

/** The part after the # that describes the view; '' for a page's default. */
export function formatAddress(state: ViewState): string {
  const query = new URLSearchParams();
  const put = (key: string, value: string | undefined): void => {
    if (value !== undefined && value !== '') query.set(key, value);
  };
  const keys = (values: Iterable<string>): string =>
    [...values]
      .slice(0, keysMax)
      .map((key) => key.replace(/[%,]/g, encodeURIComponent))
      .join(',');
  put('run', state.run.value);
  put('other', state.other.value);
  if (state.otherShift.value !== 0) put('shift', String(Math.round(state.otherShift.value)));
  const [from, until] = [state.from.value, state.until.value];
  if (!state.follow.value && from !== undefined && until !== undefined) {
    put('from', shortTime(from, until - from));
    put('until', shortTime(until, until - from));
  }
  if (state.grouping.value !== 'rank') put('group', state.grouping.value);
  put('fold', keys(state.folded.value));
  put('open', keys(state.unfolded.value));
  put('pin', keys(state.pinned.value));
  put('hide', keys(state.hidden.value));
  put('order', keys(state.order.value));
  put('ranks', [...state.highlighted.value].slice(0, keysMax).join('.'));
  const link = state.link.value;
  if (link !== undefined) put('sel', linkText(link));
  const area = state.area.value;
  // A part of its tracks would be another area.
  if (area !== undefined && area.tracks.length <= keysMax) {
    put('area', `${Math.round(area.from)}_${Math.round(area.until)}_${area.tracks.join('_')}`);
  }
  if (state.path.value) put('path', '1');
  put('q', state.search.value);
  const steps = state.steps.value;
  if (steps !== undefined) put('steps', `${steps.fromStep}-${steps.toStep}`);
  put('sort', state.rankOrder.value);
  put('cells', state.cells.value);
  put('tables', state.tables.value);
  put('rank', state.tablesRank.value?.toString());
  put('tab', state.compareTab.value);
  put('align', state.alignment.value);
  const text = query.toString();
  return `#/${state.page.value}${text === '' ? '' : `?${text}`}`;
}

/** Puts an address's view into the state. */
export function readAddress(hash: string, state: ViewState): void {
  const [path = '', text = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s, 2);
  const query = new URLSearchParams(text);
  const get = (key: string): string | undefined => query.get(key) ?? undefined;
  const keys = (key: string): string[] =>
    (get(key) ?? '')
      .split(',')
      .slice(0, keysMax)
      .map(decoded)
      .filter((each) => keyPattern.test(each));
  batch(() => {
    if (pageNames.includes(path as PageName)) state.page.value = path as PageName;
    state.run.value = get('run');
    state.other.value = get('other');
    state.otherShift.value = numberOf(get('shift')) ?? 0;
    const [from, until] = [numberOf(get('from')), numberOf(get('until'))];
    const isRange = from !== undefined && until !== undefined && from < until;
    state.from.value = isRange ? from : undefined;
    state.until.value = isRange ? until : undefined;
    // A link to a time leads there, also from a run that is followed.
    if (isRange) state.follow.value = false;
    state.grouping.value = get('group')?.slice(0, 200) ?? 'rank';
    state.folded.value = new Set(keys('fold'));
    state.unfolded.value = new Set(keys('open'));
    state.pinned.value = keys('pin');
    state.hidden.value = new Set(keys('hide'));
    state.order.value = keys('order');
    state.highlighted.value = new Set(wholes(get('ranks') ?? ''));
    // The same event stays selected; another one is looked for.
    const link = linkOf(get('sel'));
    if (JSON.stringify(link) !== JSON.stringify(state.link.peek())) {
      state.selected.value = undefined;
      state.link.value = link;
    }
    const [areaFrom, areaUntil, ...tracks] = (get('area') ?? '').split('_');
    const [start, end] = [numberOf(areaFrom), numberOf(areaUntil)];
    state.area.value =
      start === undefined || end === undefined || !(start < end)
        ? undefined
        : { from: start, until: end, tracks: tracks.slice(0, keysMax).filter(isTrackKey) };
    state.path.value = get('path') === '1';
    state.search.value = (get('q') ?? '').slice(0, 256);
    state.steps.value = stepsOf(get('steps'));
    state.rankOrder.value = choice(get('sort'));
    state.cells.value = choice(get('cells'));
    state.tables.value = choice(get('tables'));
    state.tablesRank.value = wholes(get('rank') ?? '')[0];
    state.compareTab.value = choice(get('tab'));
    state.alignment.value = choice(get('align'));
  });
}

/** Synchronises the address and the state from now on. The returned function stops it. */
export function followAddress(state: ViewState): () => void {
  readAddress(location.hash, state);
  let shown = placeOf(state);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const write = (): void => {
    timer = undefined;
    const address = formatAddress(state);
    if (address === location.hash) return;
    const place = placeOf(state);
    if (place === shown) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    shown = place;
  };
  const stop = effect(() => {
    formatAddress(state);
    // Browsers reject more than some hundred changes of the address in half a minute.
    timer ??= setTimeout(write, writeMs);
  });
  const read = (): void => {
    const [run, area] = [state.run.peek(), state.area.peek()];
    batch(() => {
      readAddress(location.hash, state);
      // An address without a run means the one that is shown.
      state.run.value ??= run;
      // An area that no address has room for stays.
      if (area !== undefined && area.tracks.length > keysMax && state.run.value === run) state.area.value ??= area;
    });
    shown = placeOf(state);
  };
  addEventListener('popstate', read);
  return () => {
    stop();
    clearTimeout(timer);
    removeEventListener('popstate', read);
  };
}

/** Views that Back returns from. */
function placeOf({ page, run, other, steps, tables, tablesRank, compareTab }: ViewState): string {
  const { fromStep, toStep } = steps.value ?? {};
  return JSON.stringify(
    [page, run, other, tables, tablesRank, compareTab].map(({ value }) => value ?? null).concat(fromStep ?? null, toStep ?? null),
  );
}

const choice = (text: string | undefined): string | undefined => (text === '' ? undefined : text?.slice(0, 4096));

const trackKey = /^r\d{1,5}[a-z0-9.]{0,20}-[a-z0-9]{1,7}$/;
const isTrackKey = (text: string): boolean => trackKey.test(text);

function linkOf(text: string | undefined): EventLink | undefined {
  const [track = '', startText, depthText = '', name = ''] = (text ?? '').split('_');
  const start = numberOf(startText);
  if (!isTrackKey(track) || start === undefined || !/^\d{1,3}$/.test(depthText) || !/^[a-z0-9]{1,7}$/.test(name)) return undefined;
  return { track, start, depth: Math.min(Number(depthText), 255), name };
}

function stepsOf(text: string | undefined): ViewState['steps']['value'] {
  const [, from, to] = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? '') ?? [];
  const [fromStep, toStep] = [Number(from), Number(to)];
  return fromStep <= toStep ? { fromStep, toStep } : undefined;
}

// As many digits as a window of that length needs to be the same to a tenth of a pixel.
const shortTime = (time: number, length: number): string =>
  length >= 1e6 ? String(Math.round(time)) : String(Number(time.toFixed(length >= 1000 ? 1 : 3)));

const numberOf = (text: string | undefined): number | undefined => {
  const value = text === undefined || text === '' ? Number.NaN : Number(text);
  return Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : undefined;
};

const wholes = (text: string): number[] =>
  text
    .split('.')
    .slice(0, keysMax)
    .filter((each) => /^\d{1,10}$/.test(each))
    .map(Number)
    .filter((each) => each < 2 ** 32);

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

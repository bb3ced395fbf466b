// The actions of the keys: one list for the handler and for the help, so that neither forgets the other.

export type KeyAction =
  | 'zoomIn'
  | 'zoomOut'
  | 'panLeft'
  | 'panRight'
  | 'next'
  | 'previous'
  | 'up'
  | 'down'
  | 'fit'
  | 'whole'
  | 'area'
  | 'clear'
  | 'search'
  | 'help'
  | 'nextSame'
  | 'previousSame'
  | 'pin'
  | 'path'
  | 'nextOnPath'
  | 'previousOnPath'
  | 'follow';

/** Actions that continue while the key is held. */
export const heldActions: ReadonlySet<KeyAction> = new Set(['zoomIn', 'zoomOut', 'panLeft', 'panRight']);

export interface KeyHelp {
  readonly keys: readonly string[];
  readonly text: string;
  readonly actions: readonly KeyAction[];
}

/** In the help's order. */
export const keyHelp: readonly KeyHelp[] = [
  { keys: ['W', 'S'], text: 'Zoom in and out at the pointer', actions: ['zoomIn', 'zoomOut'] },
  { keys: ['A', 'D'], text: 'Move to earlier and later', actions: ['panLeft', 'panRight'] },
  { keys: ['←', '→'], text: 'Select the span before and after', actions: ['previous', 'next'] },
  { keys: ['↑', '↓'], text: 'Select the span around and inside, or on the next lane', actions: ['up', 'down'] },
  { keys: ['[', ']'], text: 'Select the one of the same name before and after', actions: ['previousSame', 'nextSame'] },
  { keys: ['F', 'Enter'], text: 'Zoom to what is selected', actions: ['fit'] },
  { keys: ['0'], text: 'Show the whole run', actions: ['whole'] },
  { keys: ['M'], text: 'Sum up the time of the selected span', actions: ['area'] },
  { keys: ['P'], text: 'Pin the lane of the selected span to the top', actions: ['pin'] },
  { keys: ['C'], text: 'Show or hide the critical path', actions: ['path'] },
  { keys: [',', '.'], text: 'Go to the segment of the path before and after', actions: ['previousOnPath', 'nextOnPath'] },
  { keys: ['L'], text: 'Follow a live run', actions: ['follow'] },
  { keys: ['Esc'], text: 'Clear the area, the selection, the path, the search; leaves the search field', actions: ['clear'] },
  { keys: ['/'], text: 'Search', actions: ['search'] },
  { keys: ['?'], text: 'This help', actions: ['help'] },
];

/** Actions of the mouse, for the help. */
export const mouseHelp: readonly (readonly [string, string])[] = [
  ['Drag', 'Move'],
  ['Shift + drag', 'Mark an area: table and flame graph of what is in it'],
  ['Wheel', 'Scroll the lanes'],
  ['Ctrl or Alt + wheel', 'Zoom at the pointer'],
  ['Shift + wheel', 'Move to earlier and later'],
  ['Click', 'Select a span'],
  ['Double click', 'Zoom to a span'],
];

const actions: Readonly<Record<string, KeyAction>> = {
  w: 'zoomIn',
  s: 'zoomOut',
  a: 'panLeft',
  d: 'panRight',
  '+': 'zoomIn',
  '=': 'zoomIn',
  '-': 'zoomOut',
  ArrowRight: 'next',
  ArrowLeft: 'previous',
  ArrowUp: 'up',
  ArrowDown: 'down',
  f: 'fit',
  Enter: 'fit',
  '0': 'whole',
  m: 'area',
  Escape: 'clear',
  '/': 'search',
  '?': 'help',
  ']': 'nextSame',
  '[': 'previousSame',
  p: 'pin',
  l: 'follow',
  c: 'path',
  ',': 'previousOnPath',
  '.': 'nextOnPath',
};

/** The action of a key; undefined for none. Keys with Ctrl, Alt or Meta are the browser's. */
export function actionOf(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'altKey' | 'metaKey'>): KeyAction | undefined {
  if (event.ctrlKey || event.altKey || event.metaKey) return undefined;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return Object.hasOwn(actions, key) ? actions[key] : undefined;
}

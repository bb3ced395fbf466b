// Tabs after the ARIA practices: one of them is in the tab order, arrow keys move between them, the panel belongs to the chosen one.

import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';
import { isBrowsers } from './browser-keys.ts';
import './tabset.css';

export interface TabsetProps<Key extends string> {
  readonly label: string;
  readonly tabs: readonly { readonly key: Key; readonly title: string }[];
  readonly shown: Key;
  readonly onShow: (key: Key) => void;
  /** At the right of the tabs. */
  readonly aside?: ComponentChildren;
  /** The chosen tab's panel. */
  readonly children: ComponentChildren;
}

export function Tabset<Key extends string>({ label, tabs, shown, onShow, aside, children }: TabsetProps<Key>): JSX.Element {
  const id = useId();
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (by === 0 || isBrowsers(event)) return;
    const next = tabs[(tabs.findIndex(({ key }) => key === shown) + by + tabs.length) % tabs.length];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onShow(next.key);
    document.getElementById(`${id}-${next.key}`)?.focus();
  };
  return (
    <div class="tabset">
      <div class="tabset-bar">
        <div class="tabset-list" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
          {tabs.map(({ key, title }) => (
            <button
              key={key}
              id={`${id}-${key}`}
              type="button"
              role="tab"
              aria-selected={key === shown}
              aria-controls={`${id}-panel`}
              tabIndex={key === shown ? 0 : -1}
              onClick={() => onShow(key)}
            >
              {title}
            </button>
          ))}
        </div>
        {aside}
      </div>
      <div id={`${id}-panel`} class="tabset-panel" role="tabpanel" aria-labelledby={`${id}-${shown}`}>
        {children}
      </div>
    </div>
  );
}

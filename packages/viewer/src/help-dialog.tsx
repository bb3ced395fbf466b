// All keys, and the actions of the mouse.

import type { Signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { pageNames } from './client/view-state.ts';
import { keyHelp, mouseHelp } from './timeline/keys.ts';

export function HelpDialog({ isOpen }: { isOpen: Signal<boolean> }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const isShown = isOpen.value;
  useEffect(() => {
    if (isShown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isShown]);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => {
        isOpen.value = false;
      }}
    >
      <div class="panel-head">
        <h2 id="help-title">Keys and mouse</h2>
        <span class="spring" />
        <button
          type="button"
          class="panel-close"
          aria-label="Close"
          onClick={() => {
            isOpen.value = false;
          }}
        >
          ×
        </button>
      </div>
      <div class="help-columns">
        <table>
          <tbody>
            {keyHelp.map(({ keys, text }) => (
              <tr key={text}>
                <th scope="row">
                  {keys.map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </th>
                <td>{text}</td>
              </tr>
            ))}
            <tr>
              <th scope="row">
                {pageNames.map((name, at) => (
                  <kbd key={name}>{at + 1}</kbd>
                ))}
              </th>
              <td>Overview, Timeline, Compare, Profile</td>
            </tr>
          </tbody>
        </table>
        <table>
          <tbody>
            {mouseHelp.map(([what, text]) => (
              <tr key={what}>
                <th scope="row">{what}</th>
                <td>{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </dialog>
  );
}

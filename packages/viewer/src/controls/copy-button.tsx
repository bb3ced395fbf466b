// A button that copies text, and says beside it whether the browser let it.

import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { copyText } from './save-text.ts';
import './copy-button.css';

export interface CopyButtonProps {
  /** Made when the button is pressed. */
  readonly text: () => string;
  readonly title: string;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function CopyButton({ text, title, class: className = '', children }: CopyButtonProps): JSX.Element {
  const [state, setState] = useState('');
  const copy = (): void => {
    copyText(text()).then(
      () => setState('copied'),
      () => setState('this browser forbids copying'),
    );
  };
  return (
    <span class="copy-button">
      <button type="button" class={className} title={title} onClick={copy}>
        {children}
      </button>
      <span role="status" class="muted">
        {state}
      </span>
    </span>
  );
}

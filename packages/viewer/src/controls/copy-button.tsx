// A button that copies a text, and says whether it did.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { copyText } from './save-text.ts';

const shownMs = 4000;

export interface CopyButtonProps {
  readonly title: string;
  readonly class?: string;
  /** The text, made when the button is pressed. */
  readonly text: () => string;
  readonly children: ComponentChildren;
}

export function CopyButton({ title, class: name, text, children }: CopyButtonProps): JSX.Element {
  const [state, setState] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setState(''), shownMs);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = (): void => {
    copyText(text()).then(
      () => setState('copied'),
      () => setState('this browser forbids copying'),
    );
  };
  return (
    <>
      <button type="button" class={name} title={title} onClick={copy}>
        {children}
      </button>{' '}
      <span role="status">{state}</span>
    </>
  );
}

// A titled part of a page.

import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';
import './card.css';

export interface CardProps {
  readonly title: string;
  /** A short note on the contents, after the title. */
  readonly aside?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, aside = '', children }: CardProps): JSX.Element {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>
        {title} {aside !== '' && <small>{aside}</small>}
      </h2>
      {children}
    </section>
  );
}

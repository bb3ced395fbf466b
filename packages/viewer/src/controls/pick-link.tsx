// A link to the timeline; plain text where there is none to go to, as in a report's file.

import type { ComponentChildren, JSX } from 'preact';

export function PickLink(props: {
  readonly onPick: (() => void) | undefined;
  readonly title?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  const { onPick, title = 'Show in the timeline', children } = props;
  if (onPick === undefined) return <span>{children}</span>;
  return (
    <button type="button" class="is-link" title={title} onClick={onPick}>
      {children}
    </button>
  );
}

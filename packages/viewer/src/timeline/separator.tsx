// A line between two parts of the page that can be moved.

import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { isBrowsers } from '../controls/browser-keys.ts';

/** Dragged, or moved with the arrow keys; `onMove` receives the pixels to the right and down. */
export function Separator(props: {
  class: string;
  orientation: 'horizontal' | 'vertical';
  label: string;
  onMove: (x: number, y: number) => void;
}): JSX.Element {
  const last = useRef<readonly [number, number] | undefined>(undefined);
  const stepPx = 24;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a rule that can be moved is no <hr>
    <div
      class={props.class}
      role="separator"
      aria-orientation={props.orientation}
      aria-label={props.label}
      aria-valuenow={0}
      tabIndex={0}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        last.current = [event.clientX, event.clientY];
      }}
      onPointerMove={(event) => {
        if (last.current === undefined) return;
        props.onMove(event.clientX - last.current[0], event.clientY - last.current[1]);
        last.current = [event.clientX, event.clientY];
      }}
      onPointerUp={() => {
        last.current = undefined;
      }}
      onKeyDown={(event) => {
        const by: Readonly<Record<string, readonly [number, number]>> = {
          ArrowLeft: [-stepPx, 0],
          ArrowRight: [stepPx, 0],
          ArrowUp: [0, -stepPx],
          ArrowDown: [0, stepPx],
        };
        const move = by[event.key];
        if (move === undefined || isBrowsers(event)) return;
        event.preventDefault();
        event.stopPropagation();
        props.onMove(...move);
      }}
    />
  );
}

// Texts to write over a painted frame, and markers of its instants: noted while lines are painted.

import type { SpanTile } from '@ranktrace/protocol';
import type { Frame } from './frame-painter.ts';
import { mixed } from './palette.ts';
import type { LineEvents } from './span-line.ts';

/** A text to write, in CSS pixels. */
export interface Label {
  left: number;
  right: number;
  middle: number;
  name: number;
  isDimmed: boolean;
  isStep: boolean;
  clipTop: number;
  clipBottom: number;
}

/** Largest number of texts: nobody reads more at once, and each costs time. */
const labelsMax = 700;
const labelPxMin = 28;
const stepLabelPxMin = 18;

export class FrameTexts {
  /** The first `labelCount` are of this frame; objects are reused. */
  readonly labels: Label[] = [];
  labelCount = 0;
  /** Instants of the row that is being painted, device pixels. */
  readonly markers: { readonly x: number; readonly y: number; readonly colour: number }[] = [];

  clear(): void {
    this.labelCount = 0;
    this.markers.length = 0;
  }

  /** One more text, if there is room for it. */
  addLabel(
    left: number,
    right: number,
    middle: number,
    name: number,
    isDimmed: boolean,
    isStep: boolean,
    clipTop: number,
    clipBottom: number,
  ): void {
    if (this.labelCount >= labelsMax) return;
    const label = this.labels[this.labelCount];
    if (label === undefined) this.labels.push({ left, right, middle, name, isDimmed, isStep, clipTop, clipBottom });
    else {
      label.left = left;
      label.right = right;
      label.middle = middle;
      label.name = name;
      label.isDimmed = isDimmed;
      label.isStep = isStep;
      label.clipTop = clipTop;
      label.clipBottom = clipBottom;
    }
    this.labelCount++;
  }

  /** Later texts on a line lie on top: removes those since `first` that a later one would overlap. */
  dropOverlapping(first: number): void {
    const kept: Label[] = [];
    for (let at = this.labelCount - 1; at >= first; at--) {
      const label = this.labels[at] as Label;
      if (kept.every(({ left, right }) => label.right <= left || label.left >= right)) kept.push({ ...label });
    }
    for (const [at, label] of kept.entries()) this.labels[first + at] = label;
    this.labelCount = first + kept.length;
  }

  addMarker(x: number, y: number, colour: number): void {
    const before = this.markers.at(-1);
    if (before === undefined || before.y !== y || (before.x | 0) !== (x | 0)) this.markers.push({ x, y, colour });
  }
}

/** Collects texts and markers of a line for the frame. */
export class LineSink implements LineEvents {
  readonly labelPxMin: number;
  readonly #texts: FrameTexts;
  readonly #frame: Frame;
  readonly #isStep: boolean;
  readonly #clipTop: number;
  readonly #clipBottom: number;
  #top = 0;
  #tall = 0;

  constructor(texts: FrameTexts, frame: Frame, isStep: boolean, clipTop: number, clipBottom: number) {
    this.#texts = texts;
    this.#frame = frame;
    this.#isStep = isStep;
    this.#clipTop = clipTop;
    this.#clipBottom = clipBottom;
    this.labelPxMin = (isStep ? stepLabelPxMin : labelPxMin) * frame.ratio;
  }

  at(top: number, tall: number): void {
    this.#top = top;
    this.#tall = tall;
  }

  label(left: number, right: number, item: number, tile: SpanTile, isDimmed: boolean): void {
    const { ratio } = this.#frame;
    const middle = this.#top + this.#tall / 2;
    this.#texts.addLabel(
      left / ratio,
      right / ratio,
      middle,
      tile.name[item] as number,
      isDimmed,
      this.#isStep,
      this.#clipTop,
      this.#clipBottom,
    );
  }

  instant(x: number, item: number, tile: SpanTile): void {
    const { palette, colours, means, ratio } = this.#frame;
    const name = tile.name[item] as number;
    const isDimmed = means !== undefined && !means(name);
    const colour = mixed(palette.instant, palette.spans[colours.span(name)] as number, 0.35);
    this.#texts.addMarker(x, Math.round((this.#top + this.#tall) * ratio), isDimmed ? palette.separatorStrong : colour);
  }
}

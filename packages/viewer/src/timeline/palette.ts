// Colours for pixels and the canvas. A hash of the name chooses its colour, so a name has one colour on every rank, in every run and on every day;
// twenty hues of even lightness, chosen so that the theme's text reads on each (contrast ≥ 4.5, asserted in the test). Communication has a stronger
// colour of its own, whatever the name.
//
// A pixel is 0xAABBGGRR: the byte order of ImageData on the little-endian machines that browsers run on.

import type { ThemeName } from '../controls/theme.ts';

export interface Palette {
  /** Colours of names, as pixels. */
  readonly spans: Uint32Array;
  /** The same, for spans that do not match a search. */
  readonly dimmed: Uint32Array;
  /** Steps, by the parity of their number. */
  readonly steps: Uint32Array;
  readonly background: number;
  readonly header: number;
  readonly pinned: number;
  readonly separator: number;
  readonly separatorStrong: number;
  readonly loading: number;
  readonly unknown: number;
  readonly gap: number;
  readonly gapLine: number;
  readonly clockStep: number;
  readonly counter: number;
  readonly counterBand: number;
  readonly counterLine: number;
  readonly bandRange: number;
  readonly bandMedian: number;
  readonly instant: number;
  /** For the canvas, as CSS. */
  readonly text: string;
  readonly textDimmed: string;
  readonly muted: string;
  readonly grid: string;
  readonly accent: string;
  readonly accentSoft: string;
  readonly hover: string;
  readonly link: string;
  readonly bound: string;
  readonly slow: string;
  /** The critical path. */
  readonly path: string;
  readonly alert: string;
}

// biome-ignore format: rows of ten
const light = [
  '#96c1f9', '#aadbb3', '#e1b679', '#e6bce7', '#6fd0d5', '#f9bbab', '#b7b6f7', '#c5d49d', '#7cc9ee', '#f8b8c5',
  '#7ad1ba', '#dbcc94', '#cbafee', '#f3c09e', '#a1bdfa', '#b7d8a7', '#72cde3', '#f1b9d7', '#73d1c5', '#fab9b8',
];
// biome-ignore format: rows of ten
const dark = [
  '#416593',
  '#386242',
  '#7f5c25',
  '#6a496c',
  '#007176',
  '#78483c',
  '#5e5c92',
  '#525c2e',
  '#236c8a',
  '#774651',
  '#1c7360',
  '#635625',
  '#6f568a',
  '#754c2f',
  '#4b6294',
  '#455f37',
  '#0e6f81',
  '#724660',
  '#0d736a',
  '#794646',
];

/** Number of the colour of communication in `Palette.spans`: the one after those of names. */
export const communicationColour = light.length;
const communication = { light: '#ff9d3c', dark: '#a04d00' } as const;
const communicationName =
  /nccl|rccl|^gloo:|^(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier|send|recv)(?![a-z])/i;

/** `#rrggbb` as a pixel. */
export function pixelOf(hex: string): number {
  const rgb = Number.parseInt(hex.slice(1), 16);
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >>> 16)) >>> 0;
}

/** `part` (0 to 1) of `over`, the rest of `under`. */
export function mixed(under: number, over: number, part: number): number {
  const p = (part * 256) | 0;
  const q = 256 - p;
  const redBlue = (((under & 0xff00ff) * q + (over & 0xff00ff) * p) >>> 8) & 0xff00ff;
  const green = (((under & 0xff00) * q + (over & 0xff00) * p) >>> 8) & 0xff00;
  return (0xff000000 | redBlue | green) >>> 0;
}

/** A pixel as CSS. */
export const cssOf = (pixel: number): string => `rgb(${pixel & 0xff} ${(pixel >>> 8) & 0xff} ${(pixel >>> 16) & 0xff})`;

const spanColours = (hexes: readonly string[]): Uint32Array => Uint32Array.from(hexes, pixelOf);
const dimmedColours = (hexes: readonly string[], background: string, part: number): Uint32Array =>
  Uint32Array.from(hexes, (hex) => mixed(pixelOf(background), pixelOf(hex), part));

export const palettes: Readonly<Record<ThemeName, Palette>> = {
  light: {
    spans: spanColours([...light, communication.light]),
    dimmed: dimmedColours([...light, communication.light], '#ffffff', 0.22),
    steps: Uint32Array.of(pixelOf('#dfe6ef'), pixelOf('#cdd8e6')),
    background: pixelOf('#ffffff'),
    header: pixelOf('#f7f8fa'),
    pinned: pixelOf('#f3f7fd'),
    separator: pixelOf('#eef1f4'),
    separatorStrong: pixelOf('#d9dee5'),
    loading: pixelOf('#f4f6f8'),
    unknown: pixelOf('#f3f3f0'),
    gap: pixelOf('#faf1f0'),
    gapLine: pixelOf('#e0a3a5'),
    clockStep: pixelOf('#d9822b'),
    counter: pixelOf('#d6e6fb'),
    counterBand: pixelOf('#b0cdf4'),
    counterLine: pixelOf('#3b76d6'),
    bandRange: pixelOf('#d5e3f5'),
    bandMedian: pixelOf('#3b76d6'),
    instant: pixelOf('#5b6573'),
    text: '#1b2027',
    textDimmed: '#8d97a5',
    muted: '#5b6573',
    grid: 'rgb(30 45 70 / 7%)',
    accent: '#1f66d6',
    accentSoft: 'rgb(31 102 214 / 14%)',
    hover: 'rgb(20 30 45 / 55%)',
    link: 'rgb(150 60 150 / 75%)',
    bound: 'rgb(150 60 150 / 22%)',
    slow: '#c2293a',
    path: '#b00020',
    alert: '#c2293a',
  },
  dark: {
    spans: spanColours([...dark, communication.dark]),
    dimmed: dimmedColours([...dark, communication.dark], '#14171c', 0.28),
    steps: Uint32Array.of(pixelOf('#2b3340'), pixelOf('#394454')),
    background: pixelOf('#14171c'),
    header: pixelOf('#1a1e25'),
    pinned: pixelOf('#171d27'),
    separator: pixelOf('#1d222a'),
    separatorStrong: pixelOf('#2f3641'),
    loading: pixelOf('#181c22'),
    unknown: pixelOf('#1b1b1b'),
    gap: pixelOf('#1f191d'),
    gapLine: pixelOf('#7a464c'),
    clockStep: pixelOf('#f0a35a'),
    counter: pixelOf('#1d2c45'),
    counterBand: pixelOf('#2f4a78'),
    counterLine: pixelOf('#6ea8ff'),
    bandRange: pixelOf('#22344f'),
    bandMedian: pixelOf('#6ea8ff'),
    instant: pixelOf('#b6c0cd'),
    text: '#f0f2f5',
    textDimmed: '#6b7583',
    muted: '#9aa5b4',
    grid: 'rgb(200 215 240 / 7%)',
    accent: '#6ea8ff',
    accentSoft: 'rgb(110 168 255 / 18%)',
    hover: 'rgb(230 235 245 / 60%)',
    link: 'rgb(225 150 225 / 75%)',
    bound: 'rgb(225 150 225 / 24%)',
    slow: '#ff7b86',
    path: '#ff5c6c',
    alert: '#ff7b86',
  },
};

// Among 400 000 seeds tried, this one keeps the colours of common names in training programs (data, forward, backward, optimizer, all_reduce …)
// furthest apart: the tried names differ by 40° of hue and more.
const seed = 126_189;

/** Index of a name's colour: the same for names that differ only in digits, so that `step 1` and `step 2` belong together. */
export function colourOf(name: string): number {
  if (communicationName.test(name)) return communicationColour;
  let hash = seed;
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    if (code >= 48 && code <= 57) continue;
    hash = Math.imul(hash ^ code, 0x01000193);
  }
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  hash ^= hash >>> 13;
  return (hash >>> 0) % light.length;
}

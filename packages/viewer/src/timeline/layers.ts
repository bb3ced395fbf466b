// Layers of the timeline: work of devices, calls of the host, counters; frames of Python are lines of a host's track. Each layer can be hidden.

import type { ViewTrack } from '@ranktrace/protocol';

export type Layer = 'device' | 'host' | 'frames' | 'memory' | 'counters';

/** In the order of the buttons. */
export const layers: readonly Layer[] = ['device', 'host', 'frames', 'memory', 'counters'];

export const layerTitles: Readonly<Record<Layer, string>> = {
  device: 'GPU',
  host: 'Host',
  frames: 'Python frames',
  memory: 'Memory',
  counters: 'Counters',
};

/** Trace files keep streams as threads with such names. */
const deviceName = /^GPU \d+\b/;
const memoryName = /memory|\bRSS\b|heap/i;

/** The layer of a track; its frames of Python are of the layer `frames`. */
export function layerOf({ kind, name, unit }: Pick<ViewTrack, 'kind' | 'name' | 'unit'>): Layer | undefined {
  if (kind === 'steps') return undefined;
  if (kind === 'counter') return /^(b|bytes?)$/i.test(unit) && memoryName.test(name) ? 'memory' : 'counters';
  return kind === 'stream' || kind === 'device' || deviceName.test(name) ? 'device' : 'host';
}

/** The layers that a run has, in order: only they have a button. */
export function layersIn(tracks: readonly ViewTrack[]): readonly Layer[] {
  const found = new Set(tracks.map(layerOf));
  return layers.filter((layer) => (layer === 'frames' ? tracks.some(({ frameDepth }) => frameDepth > 0) : found.has(layer)));
}

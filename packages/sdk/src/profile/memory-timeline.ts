// `exportMemoryTimeline`: memory by category over time, in torch's three forms.

import { memoryTimeline, memoryTimelineJson, memoryTimelinePage, memoryTimelineRawJson } from '@ranktrace/trace/torch';
import { SdkError } from '../model/errors.ts';
import type { Recording } from './recording.ts';
import { checkPath, writeResult } from './result-file.ts';

/** Writes the timeline of `device` (`cpu`, or any other name for the device; default: where memory was recorded). Throws SdkError. */
export function writeMemoryTimeline(recording: Recording, path: string, device: string | undefined): void {
  checkPath(path);
  const plain = path.replace(/\.gz$/, '');
  const { table } = recording.events;
  const timeline = memoryTimeline(table, device === undefined ? {} : { device: device === 'cpu' ? 'cpu' : 'device' });
  if (path.endsWith('.html')) {
    const { run, rank } = recording.about;
    writeResult(path, memoryTimelinePage(timeline, { title: `run ${run}, rank ${rank}` }));
  } else if (plain.endsWith('.raw.json')) writeResult(path, memoryTimelineRawJson(timeline));
  else if (plain.endsWith('.json')) writeResult(path, memoryTimelineJson(timeline));
  else {
    const wanted = 'it must end in .html, .json or .raw.json, the latter two also in .gz';
    throw new SdkError('bad_option', `Cannot export the memory timeline to "${path}": ${wanted}`);
  }
}

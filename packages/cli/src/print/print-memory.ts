// The report's part about memory: the peak of each device, what it was by category, and which ops held it.

import { type ProfileMemory, tensorBytesText } from '@ranktrace/protocol';
import { percentText } from '@ranktrace/trace';
import { formatBytes, formatCount, formatTable, nameInLine } from '../terminal/format.ts';

const devicesShown = 8;
const holdersShown = 3;
const nameCharsMax = 48;

/** The part as text, without a final line end; '' where no allocations were recorded. */
export function formatMemory(memory: readonly ProfileMemory[]): string {
  if (memory.length === 0) return '';
  const shown = memory.toSorted((a, b) => b.peak - a.peak).slice(0, devicesShown);
  const rows = shown.map(({ rank, device, peak, kinds, holders }) => {
    const parts = kinds.map(([kind, bytes]) => `${kind} ${percentText(peak > 0 ? bytes / peak : 0)}`);
    const held = holders.slice(0, holdersShown).map(({ name, place, bytes }) => {
      return `${nameInLine(name, nameCharsMax) || 'no op'} in ${place} ${formatBytes(bytes)}`;
    });
    return [`rank ${rank}, ${device}`, formatBytes(peak), parts.join(', '), held.join(', ')];
  });
  const lines = [formatTable([['memory', 'peak', 'what it was', 'held most by'], ...rows], [false, true, false, false])];
  if (memory.length > shown.length) {
    lines.push(`(the ${shown.length} highest peaks of ${formatCount(memory.length)}; all of them with --json)`);
  }
  if (shown.some(({ of }) => of === 'tensors')) lines.push(tensorBytesText);
  return lines.join('\n');
}

/** The part as data, bytes and ns, without the curves, which only pages draw. */
export const memoryData = (memory: readonly ProfileMemory[]): unknown => memory.map(({ curve: _, ...one }) => one);

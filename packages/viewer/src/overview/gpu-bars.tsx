// What each rank's GPU did over its recorded steps: compute, communication, copies, and idle time by cause.
//
//   rank 0  ▇▇▇▇▇▇▇▇▇▇ compute ▇▇ hidden ▒▒▒▒ exposed ▏      93.0 % busy
//   rank 1  ▇▇▇▇▇▇▇▇▇▇ compute ▇ hidden ▒ exposed ░░░░ idle   79.4 % busy    host late, most in data

import type { OverviewGpu } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatDuration, formatPercent } from '../controls/format.ts';
import { MoreRanks, PhaseBar, PhaseLegend, shownFirst } from './phase-bars.tsx';
import './gpu-bars.css';

export interface GpuBarsProps {
  readonly gpus: readonly OverviewGpu[];
  readonly onPick: (rank: number) => void;
}

const parts = [
  { name: 'compute', of: ({ compute }: OverviewGpu) => compute },
  { name: 'communication behind compute', of: ({ overlapped }: OverviewGpu) => overlapped },
  { name: 'communication alone', of: ({ exposed }: OverviewGpu) => exposed },
  { name: 'copies', of: ({ copies }: OverviewGpu) => copies },
  { name: 'idle: host late', of: ({ hostLate }: OverviewGpu) => hostLate },
  { name: 'idle: launch', of: ({ launch }: OverviewGpu) => launch },
  { name: 'idle: waiting', of: ({ dependency }: OverviewGpu) => dependency },
  { name: 'other', of: ({ unknown }: OverviewGpu) => unknown },
] as const;
const names = parts.map(({ name }) => name);
/** Communication alone is waiting and transfer. */
const roles = parts.map(({ name }) => (name === 'communication alone' ? 'wait' : 'work'));

/** Ranks with the least busy GPU come first. */
export function GpuBars({ gpus, onPick }: GpuBarsProps): JSX.Element {
  const [shown, setShown] = useState(shownFirst);
  const rows = [...gpus].sort((a, b) => busyPart(a) - busyPart(b) || a.rank - b.rank);
  return (
    <div class="phase-bars gpu-bars">
      <PhaseLegend phases={names} />
      <ol>
        {rows.slice(0, shown).map((gpu) => (
          <li key={gpu.rank}>
            <button type="button" class="phase-row" title={aboutText(gpu)} onClick={() => onPick(gpu.rank)}>
              <span class="phase-rank">rank {gpu.rank}</span>
              <PhaseBar phases={names} roles={roles} values={parts.map(({ of }) => of(gpu))} longest={Math.max(1, gpu.length)} />
              <span class="phase-excess">{formatPercent(busyPart(gpu))} busy</span>
              <span class="only-aloud">: {aboutText(gpu)}. Show in the timeline</span>
            </button>
          </li>
        ))}
      </ol>
      <MoreRanks all={rows.length} shown={shown} onMore={setShown} />
    </div>
  );
}

const busyPart = ({ length, hostLate, launch, dependency, unknown }: OverviewGpu): number =>
  length > 0 ? 1 - (hostLate + launch + dependency + unknown) / length : 0;

function aboutText(gpu: OverviewGpu): string {
  const of = parts.flatMap((part) => {
    const time = part.of(gpu);
    return time > 0 ? [`${part.name} ${formatDuration(time)}`] : [];
  });
  return gpu.hostLate > 0 && gpu.hostPlace !== '' ? `${of.join(', ')}; the host was late most in ${gpu.hostPlace}` : of.join(', ');
}

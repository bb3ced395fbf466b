// The work of each rank's GPU over its recorded steps: compute, communication, copies, and idle time by cause. A rank unfolds into figures: idle time by
// cause with the host's place, and its kernels with most time.
//
//   rank 0  ▇▇ compute 66.6 % ▇▇ hidden ▒▒ alone 22.3 % ▒▒ ▏     93.0 % busy  ▸
//   rank 1  ▇▇ compute 67.6 % ▇ hidden ▒ ░░ host late 15.6 % ░   79.4 % busy  ▾
//             idle 20.6 %: host late 15.6 %, most in CompiledFxGraph, …      kernels: gemm 21.2 ms, all_reduce 8.1 ms, …

import { lineName, type OverviewGpu, shortName } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatDuration, formatPercent } from '../controls/format.ts';
import { PickLink } from '../controls/pick-link.tsx';
import { MoreRanks, PhaseBar, PhaseLegend, shownFirst } from './phase-bars.tsx';
import './gpu-bars.css';

export interface GpuBarsProps {
  readonly gpus: readonly OverviewGpu[];
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((gpu: OverviewGpu) => void) | undefined;
  /** Unfolds the first of them: where nobody can click, as in print. */
  readonly unfolded?: number;
}

const parts = [
  { name: 'compute', of: ({ compute }: OverviewGpu) => compute },
  { name: 'communication behind compute', of: ({ overlapped }: OverviewGpu) => overlapped },
  { name: 'communication alone', of: ({ exposed }: OverviewGpu) => exposed },
  { name: 'copies', of: ({ copies }: OverviewGpu) => copies },
  { name: 'idle: host late', of: ({ hostLate }: OverviewGpu) => hostLate },
  { name: 'idle: launch', of: ({ launch }: OverviewGpu) => launch },
  { name: 'idle: waiting', of: ({ dependency }: OverviewGpu) => dependency },
  { name: 'idle: unknown', of: ({ unknown }: OverviewGpu) => unknown },
] as const;
const names = parts.map(({ name }) => name);
/** Communication alone is waiting and transfer. */
const roles = parts.map(({ name }) => (name === 'communication alone' ? 'wait' : 'work'));
/** A part of at least this share has its figure in the bar. */
const labelledMin = 0.08;

/** Ranks with the least busy GPU come first. */
export function GpuBars({ gpus, onPick, unfolded = 0 }: GpuBarsProps): JSX.Element {
  const [shown, setShown] = useState(shownFirst);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const rows = [...gpus].sort((a, b) => busyPart(a) - busyPart(b) || a.rank - b.rank);
  const toggle = (name: string): void =>
    setToggled(new Set(toggled.has(name) ? [...toggled].filter((one) => one !== name) : [...toggled, name]));
  return (
    <div class="phase-bars gpu-bars">
      <PhaseLegend phases={names} />
      <ol>
        {rows.slice(0, shown).map((gpu, at) => {
          const name = gpu.life === undefined ? `rank ${gpu.rank}` : `rank ${gpu.rank}, life ${gpu.life}`;
          const isOpen = toggled.has(name) !== at < unfolded;
          const values = parts.map(({ of }) => of(gpu));
          return (
            <li key={name}>
              <div class="phase-row">
                <PickLink title={aboutText(gpu)} onPick={onPick && (() => onPick(gpu))}>
                  {name}
                  <span class="only-aloud">
                    : {aboutText(gpu)}
                    {onPick === undefined ? '' : '. Show in the timeline'}
                  </span>
                </PickLink>
                <PhaseBar
                  phases={names}
                  roles={roles}
                  values={values}
                  longest={Math.max(1, gpu.length)}
                  labels={values.map((value) => (value >= labelledMin * gpu.length ? formatPercent(value / gpu.length) : ''))}
                />
                <span class="phase-excess">{formatPercent(busyPart(gpu))} busy</span>
                <button
                  type="button"
                  class="gpu-fold"
                  aria-expanded={isOpen}
                  aria-label={`Figures of ${name}`}
                  onClick={() => toggle(name)}
                >
                  {isOpen ? '▾' : '▸'}
                </button>
              </div>
              {isOpen && <GpuFigures gpu={gpu} />}
            </li>
          );
        })}
      </ol>
      <MoreRanks all={rows.length} shown={shown} onMore={setShown} />
    </div>
  );
}

function GpuFigures({ gpu }: { readonly gpu: OverviewGpu }): JSX.Element {
  const part = (time: number): string => `${formatDuration(time)} (${formatPercent(gpu.length > 0 ? time / gpu.length : 0)})`;
  return (
    <dl class="gpu-figures">
      {parts.map(({ name, of }) => {
        const time = of(gpu);
        if (time <= 0) return null;
        return (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {part(time)}
              {name === 'idle: host late' && gpu.hostPlace !== '' && `, most in ${shortName(gpu.hostPlace)}`}
            </dd>
          </div>
        );
      })}
      {gpu.top.map(({ name, total }, at) => (
        <div key={name}>
          <dt>{at === 0 ? 'kernels' : ''}</dt>
          <dd>
            <span class="data-table-name" title={name}>
              {lineName(name, 48)}
            </span>{' '}
            {formatDuration(total)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

const busyPart = ({ length, hostLate, launch, dependency, unknown }: OverviewGpu): number =>
  length > 0 ? 1 - (hostLate + launch + dependency + unknown) / length : 0;

function aboutText(gpu: OverviewGpu): string {
  const of = parts.flatMap((part) => {
    const time = part.of(gpu);
    return time > 0 ? [`${part.name} ${formatDuration(time)}`] : [];
  });
  return gpu.hostLate > 0 && gpu.hostPlace !== ''
    ? `${of.join(', ')}; the host was late most in ${shortName(gpu.hostPlace)}`
    : of.join(', ');
}

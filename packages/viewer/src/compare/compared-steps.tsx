// Step times of both runs over the same steps.

import type { Overview } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { JumpTarget } from '../client/view-state.ts';
import { formatMorePart } from '../controls/signed.ts';
import { binOfStep, binRange } from '../overview/step-bins.ts';
import { StepChart } from '../overview/step-chart.tsx';
import type { StepRange } from '../overview/use-overview.ts';
import { alignSteps, differenceOf } from './differences.ts';

export interface ComparedStepsProps {
  readonly a: Overview;
  readonly b: Overview;
  readonly offset: number;
  readonly onRange: (range: StepRange) => void;
  readonly onGo: (side: 'a' | 'b', target: JumpTarget) => void;
}

export function ComparedSteps({ a, b, offset, onRange, onGo }: ComparedStepsProps): JSX.Element {
  const aligned = useMemo(() => alignSteps(a, b, offset), [a, b, offset]);
  const lines = useMemo(
    () => [
      { label: 'A', values: aligned.a, colour: '--series-1', width: 1.8 },
      { label: 'B', values: aligned.b, colour: '--series-2', width: 1.8 },
    ],
    [aligned],
  );
  if (aligned.steps.length === 0) return <p class="muted">Neither run has steps.</p>;
  const ends = [a, b].flatMap((run, at) => (run.steps === 0 ? [] : [[run.fromStep - at * offset, run.toStep - at * offset]]));
  const [fromStep, toStep] = [Math.min(...ends.map(([from]) => from as number)), Math.max(...ends.map(([, to]) => to as number))];
  const pick = (point: number): void => {
    const step = aligned.steps[point] ?? 0;
    const side = binOfStep(a, step) === undefined ? 'b' : 'a';
    const [run, own] = side === 'a' ? [a, step] : [b, step + offset];
    const at = binRange(run, binOfStep(run, own) ?? 0);
    if (at !== undefined) onGo(side, { from: at.from, until: at.until, step: at.fromStep });
  };
  const about = (point: number): string => {
    const { part } = differenceOf(aligned.a[point] ?? undefined, aligned.b[point] ?? undefined);
    return part === undefined ? '' : `: B ${formatMorePart(part)}`;
  };
  return (
    <StepChart
      label="Step time of A and B over steps"
      steps={aligned.steps}
      fromStep={fromStep}
      toStep={toStep}
      lines={lines}
      height={190}
      nameOf={(point) => nameOf(aligned.steps[point] ?? 0, offset)}
      about={about}
      onPick={pick}
      onZoom={(from, to) => onRange({ fromStep: from, toStep: to })}
      onReset={() => onRange({})}
    />
  );
}

const nameOf = (step: number, offset: number): string =>
  offset === 0 ? `from step ${step}` : `from step ${step} of A, ${step + offset} of B`;

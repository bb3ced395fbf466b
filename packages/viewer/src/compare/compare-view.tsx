// Two runs compared: A is the chosen run, B the other one. First the differences, then both timelines below each other.
//
//   ┌ step time: A and B over the same steps ──────────────┐ ┌ percentiles: A, B, difference ┐
//   ├ phases per rank, A above B, what changed most on top ┤ └───────────────────────────────┘
//   ├ names: A, B, difference ─────────────────────────────┤
//
// Steps of A and B match by their numbers, or by counting from each run's first. Zooming into steps narrows everything to them.

import { batch } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { AnswerState } from '../client/answer-state.tsx';
import type { RunClient } from '../client/run-client.ts';
import { useAnswer } from '../client/use-answer.ts';
import { type JumpTarget, jump, swapRuns, type ViewState } from '../client/view-state.ts';
import { Tabset } from '../controls/tabset.tsx';
import { useWidth } from '../controls/use-width.ts';
import { Card } from '../overview/card.tsx';
import { readingText } from '../overview/reading.ts';
import { binsFor, stepsText, timeOfStep } from '../overview/step-bins.ts';
import { type OverviewAnswer, type StepRange, useOverview } from '../overview/use-overview.ts';
import { useIsPartial } from '../overview/use-reading.ts';
import { ComparedNames } from './compared-names.tsx';
import { ComparedPhases } from './compared-phases.tsx';
import { ComparedSteps } from './compared-steps.tsx';
import { ComparedTimes } from './compared-times.tsx';
import { ComparedVerdict } from './compared-verdict.tsx';
import { commonSteps } from './differences.ts';
import './compare.css';

export interface CompareProps {
  readonly a: RunClient;
  readonly b: RunClient;
  readonly state: ViewState;
  readonly timeline: (client: RunClient) => JSX.Element;
}

/** As `ranktrace check` and `diff` judge by default. */
const failOn = 0.03;

type Tab = 'differences' | 'timelines';
type Alignment = 'number' | 'first';

const tabs = [
  { key: 'differences', title: 'Differences' },
  { key: 'timelines', title: 'Timelines' },
] as const;

export function CompareView({ a, b, state, timeline }: CompareProps): JSX.Element {
  const page = useRef<HTMLDivElement>(null);
  const width = useWidth(page);
  const tab: Tab = state.compareTab.value === 'timelines' ? 'timelines' : 'differences';
  const alignment: Alignment = state.alignment.value === 'first' ? 'first' : 'number';
  /** In A's step numbers. */
  const range: StepRange = state.steps.value ?? {};
  const setRange = ({ fromStep, toStep }: StepRange): void => {
    state.steps.value = fromStep === undefined || toStep === undefined ? undefined : { fromStep, toStep };
  };
  const setTab = (key: Tab): void => {
    state.compareTab.value = key === 'timelines' ? key : undefined;
  };
  const [ranksA, ranksB] = [a.model.value?.processes.length, b.model.value?.processes.length];
  const ranks = ranksA === undefined || ranksB === undefined ? undefined : Math.max(ranksA, ranksB);
  const bins = width === 0 ? 0 : binsFor(ranks, width * 0.6);
  const [wholeA, wholeB] = [useFirstStep(a, bins), useFirstStep(b, bins)];
  const offset = alignment === 'first' && wholeA !== undefined && wholeB !== undefined ? wholeB - wholeA : 0;
  const ofA = useOverview(a, bins, range);
  const ofB = useOverview(b, bins, shifted(range, offset));
  const align = (
    <label class="compare-align">
      Same steps are those with
      <select
        value={alignment}
        onChange={({ currentTarget }) => {
          batch(() => {
            state.alignment.value = currentTarget.value === 'first' ? 'first' : undefined;
            state.otherShift.value = 0;
          });
        }}
      >
        <option value="number">the same number</option>
        <option value="first">the same distance from the first</option>
      </select>
    </label>
  );
  return (
    <div ref={page} class="compare">
      <Tabset label="Comparison" tabs={tabs} shown={tab} onShow={setTab} aside={<Sides a={a} b={b} align={align} />}>
        {tab === 'differences' ? (
          <Differences a={a} b={b} state={state} ofA={ofA} ofB={ofB} offset={offset} range={range} onRange={setRange} />
        ) : (
          <Timelines a={a} b={b} state={state} ofA={ofA} ofB={ofB} offset={offset} timeline={timeline} />
        )}
      </Tabset>
    </div>
  );
}

/** The number of a run's first step, from the first overview of all its steps. */
function useFirstStep(client: RunClient, bins: number): number | undefined {
  const { overview } = useOverview(client, bins === 0 ? 0 : 1);
  return overview === undefined || overview.steps === 0 ? undefined : overview.fromStep;
}

const shifted = ({ fromStep, toStep }: StepRange, offset: number): StepRange => ({
  ...(fromStep === undefined ? {} : { fromStep: Math.max(0, fromStep + offset) }),
  ...(toStep === undefined ? {} : { toStep: Math.max(0, toStep + offset) }),
});

const Sides = ({ a, b, align }: { a: RunClient; b: RunClient; align: JSX.Element }): JSX.Element => (
  <p class="compare-sides">
    <span class="compare-side is-a">
      <b>A</b> {a.run}
    </span>
    <span class="compare-side is-b">
      <b>B</b> {b.run}
    </span>
    {align}
  </p>
);

interface BothProps {
  readonly a: RunClient;
  readonly b: RunClient;
  readonly state: ViewState;
  readonly ofA: OverviewAnswer;
  readonly ofB: OverviewAnswer;
  readonly offset: number;
}

function Differences(props: BothProps & { readonly range: StepRange; readonly onRange: (range: StepRange) => void }): JSX.Element {
  const { a, b, state, ofA, ofB, offset, range, onRange } = props;
  const [epochA, epochB] = [a.model.value?.epoch, b.model.value?.epoch];
  const isRead = ofA.overview !== undefined && ofB.overview !== undefined;
  // Asked once per range of steps, and not again while a run grows: it merges both runs, and a moving table cannot be read.
  const answer = useAnswer(
    (options) => a.diff(b.run, range, offset, failOn, options),
    isRead && epochA !== undefined && epochB !== undefined
      ? `${epochA} ${epochB} ${range.fromStep ?? ''} ${range.toStep ?? ''} ${offset}`
      : undefined,
  );
  const [isPartialA, isPartialB] = [useIsPartial(a.model.value, ofA.overview), useIsPartial(b.model.value, ofB.overview)];
  const problem = ofA.problem ?? ofB.problem ?? a.problem.value ?? b.problem.value;
  if (problem !== undefined) return <p class="compare-empty">{problem}</p>;
  if (ofA.overview === undefined || ofB.overview === undefined || isPartialA || isPartialB) {
    return (
      <p class="compare-empty" role="status">
        {sideText('A', a, isPartialA)}, {sideText('B', b, isPartialB)}. They are compared once both are read.
      </p>
    );
  }
  const [overviewA, overviewB] = [ofA.overview, ofB.overview];
  const isZoomed = range.fromStep !== undefined;
  const common = commonSteps(overviewA, overviewB, offset);
  const go = (side: 'a' | 'b', target: JumpTarget): void => {
    // The timeline shows the chosen run: B becomes the chosen one, compared with A.
    if (side === 'b') swapRuns(state);
    jump(state, target);
  };
  return (
    <div class="compare-page">
      <p class="compare-range">
        {(a.model.value?.live === true || b.model.value?.live === true) && answer.value !== undefined && (
          <button type="button" onClick={answer.again}>
            Compare again
          </button>
        )}
        {isZoomed ? stepsText(range.fromStep ?? 0, range.toStep ?? 0) : 'All steps of both.'}
        {isZoomed && (
          <button type="button" onClick={() => onRange({})}>
            Show all steps
          </button>
        )}
        {!isZoomed && common !== undefined && !isSame(common, overviewA, overviewB, offset) && (
          <button type="button" onClick={() => onRange(common)}>
            Only {stepsText(common.fromStep, common.toStep)}, which both have
          </button>
        )}
        {!isZoomed && common === undefined && overviewA.steps > 0 && overviewB.steps > 0 && (
          <span class="muted">They have no step in common.</span>
        )}
      </p>
      {answer.value !== undefined && <ComparedVerdict difference={answer.value} />}
      <div class="compare-columns">
        <Card title="Step time" aside="median rank">
          <ComparedSteps a={overviewA} b={overviewB} offset={offset} onRange={onRange} onGo={go} />
        </Card>
        <Card title="How long a step takes">
          <ComparedTimes a={overviewA} b={overviewB} />
        </Card>
      </div>
      <Card title="What a step is made of" aside="mean per rank, what changed most on top">
        <ComparedPhases a={overviewA} b={overviewB} onGo={go} />
      </Card>
      <Card title="Names" aside="self time per step and rank, median over steps">
        <AnswerState answer={answer} what="Comparing A and B" />
        {answer.value !== undefined && <ComparedNames difference={answer.value} />}
      </Card>
    </div>
  );
}

/** `A: Reading 58 %`. */
function sideText(side: string, { model }: RunClient, isPartial: boolean): string {
  if (!isPartial) return `${side}: read`;
  return `${side}: ${model.value === undefined ? 'opening' : readingText(model.value)}`;
}

const isSame = (
  { fromStep, toStep }: { readonly fromStep: number; readonly toStep: number },
  a: { readonly fromStep: number; readonly toStep: number },
  b: { readonly fromStep: number; readonly toStep: number },
  offset: number,
): boolean => fromStep === a.fromStep && toStep === a.toStep && fromStep + offset === b.fromStep && toStep + offset === b.toStep;

function Timelines({ a, b, state, ofA, ofB, offset, timeline }: BothProps & Pick<CompareProps, 'timeline'>): JSX.Element {
  const common = ofA.overview === undefined || ofB.overview === undefined ? undefined : commonSteps(ofA.overview, ofB.overview, offset);
  const [step, setStep] = useState<number | undefined>(undefined);
  const at = step ?? common?.fromStep;
  const alignAt = (number: number): void => {
    const [timeA, timeB] = [ofA.overview && timeOfStep(ofA.overview, number), ofB.overview && timeOfStep(ofB.overview, number + offset)];
    if (timeA !== undefined && timeB !== undefined) state.otherShift.value = timeB - timeA;
  };
  // Both show the same length of time, though one run may be longer.
  const model = a.model.value;
  useEffect(() => {
    if (model === undefined || state.from.peek() !== undefined) return;
    batch(() => {
      state.from.value = model.from;
      state.until.value = Math.max(model.until, model.from + 1);
    });
  }, [model === undefined]);
  // Both begin with the same step, unless a person has moved one. The offset may be known after the steps are.
  const aligned = useRef(0);
  useEffect(() => {
    const shift = state.otherShift.peek();
    if ((shift !== 0 && shift !== aligned.current) || common === undefined) return;
    alignAt(common.fromStep);
    aligned.current = state.otherShift.peek();
  }, [common === undefined, offset, state.alignment.value]);
  return (
    <div class="compare-timelines">
      {common !== undefined && at !== undefined && (
        <form
          class="compare-at"
          onSubmit={(event) => {
            event.preventDefault();
            alignAt(at);
          }}
        >
          <label>
            Step{' '}
            <input
              type="number"
              required
              min={common.fromStep}
              max={common.toStep}
              value={Number.isNaN(at) ? '' : at}
              onInput={({ currentTarget }) => setStep(currentTarget.valueAsNumber)}
              onKeyDown={(event) => event.stopPropagation()}
            />{' '}
            of both
          </label>
          <button type="submit">Put below each other</button>
        </form>
      )}
      {[
        { client: a, side: 'A' },
        { client: b, side: 'B' },
      ].map(({ client, side }) => (
        <section key={side} class={`compare-timeline is-${side.toLowerCase()}`} aria-label={`Timeline of ${side}, ${client.run}`}>
          {timeline(client)}
        </section>
      ))}
    </div>
  );
}

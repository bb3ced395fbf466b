// The first page of a run, to be read from the top left: length of steps, slow ranks, time and phase of the slowness, findings.
//
//   sentence: length of a step, outliers                       figures: p50 p95 p99, steps, ranks
//   ┌ step time over steps ───────────────────────┐ ┌ findings ─────────────┐
//   ├ heat map rank × step ───────────────────────┤ ├ phases of each rank ──┤
//   └─────────────────────────────────────────────┘ └ waiting by rank ──────┘
//   table of all ranks
//
// Everything leads into the timeline (`jump`). The chart and the heat map have the same steps above each other.

import type { Overview, OverviewRank, RunModel, ViewFinding } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import type { RunClient } from '../client/run-client.ts';
import { jump, type ViewState } from '../client/view-state.ts';
import { formatCount, formatDuration, formatPercent, formatRanks } from '../controls/format.ts';
import { PickLink } from '../controls/pick-link.tsx';
import { useWidth } from '../controls/use-width.ts';
import { Card } from './card.tsx';
import { FindingsList } from './findings-list.tsx';
import { GpuBars } from './gpu-bars.tsx';
import { costText, nobodyText, scopeText, waitingText } from './headline-text.ts';
import type { HeatMeasure } from './heat-cells.ts';
import { HeatMap, type HeatMapProps, measuresOf } from './heat-map.tsx';
import { onsetsOf } from './onsets.ts';
import { PhaseBars, phasesTitle } from './phase-bars.tsx';
import { rankCount } from './rank-lives.ts';
import { RankTable } from './rank-table.tsx';
import { processOfGpu, rankTarget } from './rank-target.ts';
import { comparedText, noStepsText, readingText } from './reading.ts';
import { type Headline, headlineOf, rankPhases, wholeWaiting } from './slow-ranks.ts';
import { binOfStep, binRange, binsFor, cellRange, lastStepOf, longestSteps, slowestRankIn, stepsText } from './step-bins.ts';
import { type ChartLine, StepChart } from './step-chart.tsx';
import { useHeat } from './use-heat.ts';
import { type StepRange, useOverview } from './use-overview.ts';
import { useIsPartial } from './use-reading.ts';
import { WaitingList } from './waiting-list.tsx';
import './overview.css';

export interface OverviewProps {
  readonly client: RunClient;
  readonly state: ViewState;
}

const rankOrders = ['slow', 'rank', 'host'] as const;
export type RankOrder = (typeof rankOrders)[number];

/** With more ranks than this, outliers are on top of the heat map, as not all ranks are visible at once. */
const ranksInOrderMax = 64;

export function OverviewView({ client, state }: OverviewProps): JSX.Element {
  const page = useRef<HTMLDivElement>(null);
  const width = useWidth(page);
  const range: StepRange = state.steps.value ?? {};
  const setRange = ({ fromStep, toStep }: StepRange): void => {
    state.steps.value = fromStep === undefined || toStep === undefined ? undefined : { fromStep, toStep };
  };
  const model = client.model.value;
  const bins = width === 0 ? 0 : binsFor(model?.processes.length, width * 0.6);
  const { overview, problem } = useOverview(client, bins, range);
  const isPartial = useIsPartial(model, overview);
  return (
    <div ref={page} class="overview">
      {(problem ?? client.problem.value) !== undefined && (
        <p class="overview-problem" role="alert">
          {problem ?? client.problem.value}
        </p>
      )}
      {model === undefined || overview === undefined ? (
        <p class="overview-empty" role="status">
          {model === undefined ? 'Opening the run …' : `${readingText(model)} …`}
        </p>
      ) : (
        <>
          {isPartial && (
            <p class="overview-reading" role="status">
              <progress max={Math.max(1, model.total)} value={model.read} aria-label="Reading the run" />
              {comparedText(model, overview)}
            </p>
          )}
          <Filled
            client={client}
            model={model}
            overview={overview}
            bins={bins}
            isPartial={isPartial}
            state={state}
            range={range}
            onRange={setRange}
          />
        </>
      )}
    </div>
  );
}

interface FilledProps {
  readonly client: RunClient;
  readonly model: RunModel;
  readonly overview: Overview;
  /** Bins that `overview` was requested with. */
  readonly bins: number;
  /** The run is still being read. */
  readonly isPartial: boolean;
  readonly state: ViewState;
  readonly range: StepRange;
  readonly onRange: (range: StepRange) => void;
}

function Filled({ client, model, overview, bins, isPartial, state, range, onRange }: FilledProps): JSX.Element {
  const isZoomed = range.fromStep !== undefined;
  const isCluster = rankCount(overview.ranks) > 1;
  const pickRank = (rank: number, process?: number): void => jump(state, rankTarget(overview, isZoomed, rank, process));
  const pickBin = (bin: number, row: OverviewRank | undefined): void => {
    const at = row === undefined ? binRange(overview, bin) : cellRange(overview, row, bin);
    const where = row === undefined ? { ranks: [] } : { ranks: [row.rank], process: row.process };
    if (at !== undefined) jump(state, { ...where, from: at.from, until: at.until, step: at.fromStep });
  };
  const pickFinding = ({ ranks, from, until }: ViewFinding): void =>
    jump(state, { ranks, ...(from === undefined ? {} : { from, until: until ?? from + 1e6 }) });
  const findings = (
    <Card
      title="Findings"
      aside={`${overview.findings.length > 0 ? formatCount(overview.findings.length) : ''}${isZoomed ? ' of the whole run' : ''}`}
    >
      <FindingsList
        findings={overview.findings}
        analysed={overview.analysed}
        since={overview.analysedSince}
        onPick={pickFinding}
        run={model.run}
        captures={overview.captures ?? []}
      />
    </Card>
  );
  if (overview.bins.length === 0)
    return (
      <>
        <p class="overview-empty">{noStepsText(model, range, isPartial)}</p>
        <p class="overview-ways">
          {isZoomed && (
            <button type="button" onClick={() => onRange({})}>
              Show all steps
            </button>
          )}
          <button type="button" onClick={() => jump(state, {})}>
            Open the timeline
          </button>
        </p>
        {findings}
      </>
    );
  return (
    <>
      <Summary model={model} overview={overview} range={range} onRange={onRange} onPick={pickRank} />
      <div class="overview-columns">
        <div class="overview-column">
          <Card title="Step time">
            <StepTimes overview={overview} onRange={onRange} onPick={(bin) => pickBin(bin, slowestRankIn(overview.ranks, bin))} />
          </Card>
          {isCluster && (
            <Card title="Each rank against the others">
              <RankHeat
                client={client}
                model={model}
                overview={overview}
                bins={bins}
                state={state}
                range={range}
                onPick={(rank, bin) => pickBin(bin, rank)}
              />
            </Card>
          )}
        </div>
        <div class="overview-column">
          {findings}
          <Card title={phasesTitle(overview)} aside="mean per rank, slowest on top">
            <PhaseBars overview={overview} onPick={pickRank} />
          </Card>
          {overview.gpus !== undefined && (
            <Card title="What the GPUs did" aside={`over ${isZoomed ? 'all ' : 'the '}recorded steps, least busy on top`}>
              <GpuBars gpus={overview.gpus} onPick={(gpu) => pickRank(gpu.rank, processOfGpu(overview, gpu))} />
            </Card>
          )}
          {isCluster && (
            <Card title="Who is waited for" aside={isZoomed ? 'in the whole run' : ''}>
              <WaitingList waiting={overview.waiting} whole={wholeWaiting(overview)} analysed={overview.analysed} onPick={pickRank} />
            </Card>
          )}
        </div>
      </div>
      <Card title="Ranks">
        <RankTable overview={overview} model={model} onPick={pickRank} />
      </Card>
    </>
  );
}

export interface SummaryProps extends Pick<FilledProps, 'overview' | 'range' | 'onRange'> {
  readonly model: Pick<RunModel, 'worldSize' | 'live' | 'from' | 'until'>;
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((rank: number, process?: number) => void) | undefined;
}

export function Summary({ model, overview, range, onRange, onPick }: SummaryProps): JSX.Element {
  const { percentiles, percentilesOf, steps, fromStep, toStep } = overview;
  const takers = takersText(overview);
  const isZoomed = range.fromStep !== undefined;
  return (
    <header class="overview-summary">
      <Sentence overview={overview} isZoomed={isZoomed} onPick={onPick} />
      <dl class="overview-figures">
        {percentileHints.map(([name, hint]) => (
          <Figure
            key={name}
            name={name}
            hint={`${hint}. ${percentiles === null ? unknownHint : percentilesOf === 'rank' ? ofRankHint : ofStepsHint}${takers}`}
            value={formatDuration(percentiles?.[name] ?? Number.NaN)}
          />
        ))}
        <Figure name={isZoomed ? stepsText(fromStep, toStep) : 'steps'} value={formatCount(steps)} />
        <Figure name="ranks" hint="With steps, of all that take part" value={ranksText(overview, model)} />
        <Figure name={isZoomed ? 'whole run' : model.live ? 'live' : 'ended'} value={formatDuration(model.until - model.from)} />
      </dl>
      {isZoomed && (
        <button type="button" class="overview-reset" onClick={() => onRange({})}>
          Show all steps
        </button>
      )}
    </header>
  );
}

const percentileHints = [
  ['p50', 'Half of the steps are shorter'],
  ['p95', '95 of 100 steps are shorter'],
  ['p99', '99 of 100 steps are shorter'],
] as const;

const ofStepsHint = 'A step is as long as that of its slowest rank';
const ofRankHint = 'Of the rank whose steps are the longest: those of all ranks are not kept one by one';
const unknownHint = 'Not known of these steps, which are not kept one by one; show all steps to see it of the run';

/** Whose steps these are, where that is to be said. */
function takersText({ stepsTakenBy, hostMedian }: Overview): string {
  if (stepsTakenBy === 'unknown') return '. These are the steps of hosts: those of the GPUs are not known of all ranks and steps';
  if (stepsTakenBy === undefined) return '';
  const hosts = hostMedian === undefined ? '' : `; the hosts run ahead of them, with a median of ${formatDuration(hostMedian)}`;
  return `. Steps are as the GPUs take them${hosts}`;
}

const Figure = ({ name, value, hint }: { name: string; value: string; hint?: string }): JSX.Element => (
  <div title={hint}>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);

/** The run in one sentence, to be read in five seconds. */
function Sentence({ overview, isZoomed, onPick }: Pick<SummaryProps, 'overview' | 'onPick'> & { readonly isZoomed: boolean }): JSX.Element {
  const headline = useMemo(() => headlineOf(overview), [overview]);
  const { tone, cause, ranks } = headline;
  const p50 = overview.percentiles?.p50;
  const pace = overview.steps === 1 ? 'The only step took' : 'A step takes';
  const isNobody = ranks.length === 0 && cause === undefined;
  const hasOthers = rankCount(overview.ranks) > 1;
  return (
    <p class={`overview-sentence is-${tone}`}>
      {p50 !== undefined && (
        <>
          {pace} <b>{formatDuration(p50)}</b>
          {overview.stepsTakenBy === 'devices' ? ' on the GPUs' : ''}
          {isZoomed ? ' here' : ''}.{' '}
        </>
      )}
      {isZoomed && overview.analysed && scopeText(headline, hasOthers)}
      {ranks.length > 0 && <Blame headline={headline} onPick={onPick} />}
      {cause !== undefined && `${cause.charAt(0).toUpperCase()}${cause.slice(1)}${cause.endsWith('.') ? ' ' : '. '}`}
      {isNobody && tone === 'alert' && 'No rank stands out in a phase, but there are findings.'}
      {isNobody && tone !== 'alert' && hasOthers && nobodyText(headline, overview.analysed)}
      {!isNobody && waitingText(headline)}
    </p>
  );
}

function Blame({ headline, onPick }: { headline: Headline; onPick: SummaryProps['onPick'] }): JSX.Element {
  const { ranks, phase, costs, more, part, isOver } = headline;
  const { rank: first = 0, process } = ranks[0]?.rank ?? {};
  const others = ranks.slice(1).map(({ rank }) => rank.rank);
  const isOne = others.length === 0;
  const cost = costText(costs);
  const verb = isOver ? (isOne ? 'was' : 'were') : isOne ? 'is' : 'are';
  return (
    <>
      <PickLink onPick={onPick && (() => onPick(first, process))}>Rank {first}</PickLink>{' '}
      {others.length > 0 && (
        <>and {others.length === 1 ? `rank ${others[0]}` : `${formatCount(others.length)} more (${formatRanks(others, 3)})`} </>
      )}
      {cost === '' && more === undefined ? (
        <>{isOne ? 'keeps' : 'keep'} the others waiting. </>
      ) : (
        <>
          {verb} slow{phase === undefined ? '' : ' in '}
          {phase !== undefined && <b>{phase}</b>}: {cost !== '' && `${cost}. `}
          {cost === '' &&
            `${isOne ? '' : 'up to '}${formatDuration(more ?? 0)} more per step than the median rank, ${formatPercent(part)} of its mean step. `}
        </>
      )}
    </>
  );
}

const lineShapes = [
  { key: 'slowest', label: 'slowest rank', colour: '--series-2', width: 1.5 },
  { key: 'median', label: 'median rank', colour: '--series-1', width: 2 },
  { key: 'fastest', label: 'fastest rank', colour: '--series-3', width: 1.5 },
] as const;

/** A bin of several steps shows its longest one: in their mean a single long step vanishes. */
function linesOf(overview: Overview, isOneRank: boolean, isBinned: boolean): readonly ChartLine[] {
  const longest = { label: 'longest step', colour: '--series-4', width: 1, values: isBinned ? longestSteps(overview) : [] };
  const means: readonly ChartLine[] = isOneRank
    ? [{ ...lineShapes[1], label: isBinned ? 'mean step' : 'step time', values: overview.median }]
    : lineShapes.map((line) => ({ ...line, label: isBinned ? `${line.label}, mean` : line.label, values: overview[line.key] }));
  return isBinned ? [longest, ...means] : means;
}

export function StepTimes({
  overview,
  onRange,
  onPick,
}: {
  overview: Overview;
  onRange?: (range: StepRange) => void;
  onPick?: (bin: number) => void;
}): JSX.Element {
  const isOneRank = rankCount(overview.ranks) < 2;
  const isBinned = overview.toStep - overview.fromStep >= overview.bins.length;
  const lines = useMemo(() => linesOf(overview, isOneRank, isBinned), [overview, isOneRank, isBinned]);
  const steps = useMemo(() => overview.bins.map((step, bin) => (step + lastStepOf(overview, bin)) / 2), [overview]);
  const onsets = useMemo(() => onsetsOf(overview), [overview]);
  const nameOf = (bin: number): string => stepsText(overview.bins[bin] ?? 0, lastStepOf(overview, bin));
  const about = (bin: number): string => {
    const slowest = isOneRank ? undefined : slowestRankIn(overview.ranks, bin);
    const began = onsets.filter(({ step }) => binOfStep(overview, step) === bin).map(({ text }) => `. ${text}`);
    return `${slowest === undefined ? '' : `, ${isBinned ? 'longest' : 'slowest'}: rank ${slowest.rank}`}${began.join('')}`;
  };
  return (
    <StepChart
      label={`Step time over steps: ${isBinned ? 'the longest step, and the mean of ' : ''}the slowest, the median and the fastest rank`}
      steps={steps}
      fromStep={overview.fromStep}
      toStep={overview.toStep}
      lines={lines}
      {...(!isOneRank && { band: isBinned ? [1, 3] : [0, 2] })}
      flags={onsets}
      height={168}
      nameOf={nameOf}
      about={about}
      {...(onPick && { onPick })}
      {...(onRange && { onZoom: (fromStep, toStep) => onRange({ fromStep, toStep }), onReset: () => onRange({}) })}
    />
  );
}

function RankHeat({
  client,
  model,
  overview,
  bins,
  state,
  range,
  onPick,
}: {
  client: RunClient;
  bins: number;
  state: ViewState;
  range: StepRange;
  model: RunModel;
  overview: Overview;
  onPick: (rank: OverviewRank, bin: number) => void;
}): JSX.Element {
  const measures = measuresOf(overview);
  const measure = measures.find((one) => one === state.cells.value) ?? (measures[0] as HeatMeasure);
  const measured = useHeat(client, overview, measure, bins, range);
  const setMeasure = (chosen: HeatMeasure): void => {
    state.cells.value = chosen;
  };
  const setOrder = (order: RankOrder): void => {
    state.rankOrder.value = order;
  };
  const order = rankOrders.find((one) => one === state.rankOrder.value);
  return <OrderedHeat {...{ model, overview, onPick, measure, measured, order }} onMeasure={setMeasure} onOrder={setOrder} />;
}

/** The heat map with a choice of its order. */
export function OrderedHeat({
  model,
  overview,
  order: chosen,
  onOrder,
  ...props
}: {
  readonly model: Pick<RunModel, 'processes'>;
  readonly order: RankOrder | undefined;
  readonly onOrder: (order: RankOrder) => void;
} & Omit<HeatMapProps, 'ranks' | 'marked' | 'orderChoice'>): JSX.Element {
  const order = chosen ?? (overview.ranks.length > ranksInOrderMax ? 'slow' : 'rank');
  // Processes of a live run change several times a second; here only their hosts count.
  const ranks = useMemo(() => inOrder(overview, model, order), [overview, order, order === 'host' ? model : undefined]);
  const marked = useMemo(
    () => new Set(rankPhases(overview).flatMap(({ rank, standsOut }) => (standsOut ? [rank.process] : []))),
    [overview],
  );
  const choice = (
    <label>
      Order
      <select value={order} onChange={({ currentTarget }) => onOrder(currentTarget.value as RankOrder)}>
        <option value="slow">slowest on top</option>
        <option value="rank">by rank</option>
        <option value="host">by host</option>
      </select>
    </label>
  );
  return <HeatMap {...props} overview={overview} ranks={ranks} marked={marked} orderChoice={choice} />;
}

function inOrder(overview: Overview, { processes }: Pick<RunModel, 'processes'>, order: RankOrder): readonly OverviewRank[] {
  if (order === 'slow') return rankPhases(overview).map(({ rank }) => rank);
  const byRank = [...overview.ranks].sort((a, b) => a.rank - b.rank || a.process - b.process);
  if (order === 'rank') return byRank;
  const hosts = new Map(processes.map(({ index, hostName, host }) => [index, `${hostName} ${host}`]));
  // Stable: by rank within a host.
  return byRank.sort((a, b) => (hosts.get(a.process) ?? '').localeCompare(hosts.get(b.process) ?? '', 'en', { numeric: true }));
}

function ranksText({ ranks }: Overview, { worldSize }: Pick<RunModel, 'worldSize'>): string {
  const present = rankCount(ranks);
  return worldSize > present ? `${formatCount(present)} of ${formatCount(worldSize)}` : formatCount(present);
}

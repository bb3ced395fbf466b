// A report as one page to read, print and send: the overview's charts, then the tables of the profile. Nothing in it leads to a timeline, and
// nothing is asked of anybody.

import type { ReportPage } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatCount, formatMany, formatWallClock } from '../controls/format.ts';
import { Card } from '../overview/card.tsx';
import { FindingsList } from '../overview/findings-list.tsx';
import { GpuBars } from '../overview/gpu-bars.tsx';
import type { HeatMeasure } from '../overview/heat-cells.ts';
import { OrderedHeat, type RankOrder, StepTimes, Summary } from '../overview/overview-view.tsx';
import { PhaseBars, phasesTitle } from '../overview/phase-bars.tsx';
import { rankCount } from '../overview/rank-lives.ts';
import { RankTable } from '../overview/rank-table.tsx';
import { wholeWaiting } from '../overview/slow-ranks.ts';
import { WaitingList } from '../overview/waiting-list.tsx';
import { ProfileSectionCards, profileSections } from '../profile/profile-sections.tsx';
import '../overview/overview.css';
import './report.css';

/** Ranks whose figures are unfolded: the least busy GPUs. */
const unfolded = 4;
const tableRows = 20;

export function ReportView({ report }: { readonly report: ReportPage }): JSX.Element {
  const { run, model, overview, profile, input, version } = report;
  const hasSteps = overview.bins.length > 0;
  const isCluster = rankCount(overview.ranks) > 1;
  const since = formatWallClock(model.unixEpoch, model.from);
  const sections = profile === null ? [] : profileSections.filter(({ isEmpty }) => !isEmpty(profile));
  return (
    <main class="report">
      <h1>
        {run} <small>{formatMany(new Set(model.processes.map(({ rank }) => rank)).size, 'rank')}</small>
      </h1>
      {hasSteps ? (
        <Summary model={model} overview={overview} range={{}} onRange={() => undefined} onPick={undefined} />
      ) : (
        <p class="overview-sentence">No steps were recorded: the tables cover all of the run.</p>
      )}
      <div class="report-cards">
        <Card title="Findings" aside={overview.findings.length > 0 ? formatCount(overview.findings.length) : ''}>
          <FindingsList findings={overview.findings} analysed since={null} onPick={undefined} all run={run} captures={[]} />
        </Card>
        {hasSteps && (
          <Card title="Step time">
            <StepTimes overview={overview} />
          </Card>
        )}
        {hasSteps && isCluster && (
          <Card title="Each rank against the others">
            <ReportHeat report={report} />
          </Card>
        )}
        {hasSteps && (
          <Card title={phasesTitle(overview)} aside="mean per rank, slowest on top">
            <PhaseBars overview={overview} onPick={undefined} />
          </Card>
        )}
        {overview.gpus !== undefined && (
          <Card title="What the GPUs did" aside="over the recorded steps, least busy on top">
            <GpuBars gpus={overview.gpus} onPick={undefined} unfolded={unfolded} />
          </Card>
        )}
        {isCluster && overview.waiting.length > 0 && (
          <Card title="Who is waited for">
            <WaitingList waiting={overview.waiting} whole={wholeWaiting(overview)} analysed onPick={undefined} />
          </Card>
        )}
        {profile !== null &&
          sections.map(({ key }) => (
            <ProfileSectionCards key={key} section={key} profile={profile} onPlace={undefined} pageRows={tableRows} />
          ))}
        {hasSteps && (
          <Card title="Ranks">
            <RankTable overview={overview} model={model} onPick={undefined} />
          </Card>
        )}
      </div>
      <footer>
        {input}
        {since === undefined ? '' : `, begun ${since}`}. Made by ranktrace {version}.
      </footer>
    </main>
  );
}

function ReportHeat({ report: { model, overview, heat } }: { readonly report: ReportPage }): JSX.Element {
  const measures = useMemo(() => [...heat.map(({ measure }) => measure as HeatMeasure), 'mean' as const, 'longest' as const], [heat]);
  const [measure, setMeasure] = useState<HeatMeasure>(measures[0] as HeatMeasure);
  const measured = useMemo(() => {
    const cells = heat.find((one) => one.measure === measure)?.rows;
    return cells && new Map(cells.map((row) => [row.process, row.cells]));
  }, [heat, measure]);
  const [order, setOrder] = useState<RankOrder | undefined>(undefined);
  return (
    <OrderedHeat
      {...{ model, overview, measure, measured, measures, order }}
      onPick={undefined}
      onMeasure={setMeasure}
      onOrder={setOrder}
    />
  );
}

// Time of both runs by name: over the same steps, per step and rank, so that runs of different lengths and sizes compare.
//
// The page asks once per range of steps, and not again while a run grows: the question reads much, and a moving table cannot be read.

import type { AreaTable } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useId, useMemo, useState } from 'preact/hooks';
import { AnswerState } from '../client/answer-state.tsx';
import type { RunClient } from '../client/run-client.ts';
import { type Answer, useAnswer } from '../client/use-answer.ts';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatCount, formatDuration, formatMany, formatNumber } from '../controls/format.ts';
import { wordFilter } from '../controls/sort-rows.ts';
import { binRange } from '../overview/step-bins.ts';
import type { OverviewAnswer, StepRange } from '../overview/use-overview.ts';
import { DifferenceText } from './difference-text.tsx';
import { type NamePair, pairNames, stepsOfRanks } from './differences.ts';

export interface ComparedNamesProps {
  readonly a: RunClient;
  readonly b: RunClient;
  readonly ofA: OverviewAnswer;
  readonly ofB: OverviewAnswer;
  readonly offset: number;
  /** In A's step numbers. */
  readonly range: StepRange;
}

/** A table, and the number of steps of all ranks that it covers. */
interface NamesOfRun {
  readonly table: AreaTable;
  readonly steps: number;
}

type Measure = 'step' | 'whole';

export function ComparedNames({ a, b, ofA, ofB, offset, range }: ComparedNamesProps): JSX.Element {
  const [measure, setMeasure] = useState<Measure>('step');
  const [filter, setFilter] = useState('');
  const filterId = useId();
  const isNow = isOf(ofA, range, 0) && isOf(ofB, range, offset);
  const [namesA, namesB] = [useNames(a, ofA, isNow, range, 0), useNames(b, ofB, isNow, range, offset)];
  const pairs = useMemo(() => {
    if (namesA.value === undefined || namesB.value === undefined) return undefined;
    const dividers = measure === 'whole' ? { a: 1, b: 1 } : { a: namesA.value.steps, b: namesB.value.steps };
    return pairNames(namesA.value.table.rows, namesB.value.table.rows, dividers);
  }, [namesA.value, namesB.value, measure]);
  const shown = useMemo(() => {
    const holds = wordFilter(filter);
    return pairs?.filter(({ name, kind }) => holds(`${name} ${kind}`));
  }, [pairs, filter]);
  const leftOut = (namesA.value?.table.leftOut ?? 0) + (namesB.value?.table.leftOut ?? 0);
  const again = (): void => {
    namesA.again();
    namesB.again();
  };
  return (
    <div class="compare-names">
      <p class="compare-controls">
        <label>
          Times{' '}
          <select value={measure} onChange={({ currentTarget }) => setMeasure(currentTarget.value as Measure)}>
            <option value="step">per step and rank</option>
            <option value="whole">of all steps and ranks</option>
          </select>
        </label>
        <label for={filterId}>Filter</label>
        <input id={filterId} type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        {shown !== undefined && pairs !== undefined && (
          <span class="muted" aria-live="polite">
            {formatCount(shown.length)} of {formatMany(pairs.length, 'name')}
          </span>
        )}
        {(a.model.value?.live === true || b.model.value?.live === true) && (
          <button type="button" onClick={again}>
            Add up again
          </button>
        )}
        {leftOut > 0 && (
          <span class="compare-left-out">▲ {formatMany(leftOut, 'event is', 'events are')} not in it: there are too many</span>
        )}
      </p>
      <Waiting answer={namesA} name="A" />
      <Waiting answer={namesB} name="B" />
      {shown !== undefined && (
        <DataTable
          key={measure}
          caption="Time by name in A and B"
          columns={columnsOf(measure)}
          rows={shown}
          keyOf={({ kind, name }) => `${kind} ${name}`}
          order={{ by: 'change', direction: 'down' }}
          pageRows={25}
          empty="No name matches the filter."
        />
      )}
    </div>
  );
}

const Waiting = ({ answer, name }: { readonly answer: Answer<unknown>; readonly name: string }): JSX.Element => (
  <AnswerState answer={answer} what={`Adding up ${name}`} />
);

/** Whether an overview already covers these steps. */
const isOf = ({ overview, of }: OverviewAnswer, { fromStep, toStep }: StepRange, offset: number): boolean =>
  overview !== undefined &&
  of.fromStep === (fromStep === undefined ? undefined : Math.max(0, fromStep + offset)) &&
  of.toStep === (toStep === undefined ? undefined : Math.max(0, toStep + offset));

function useNames(client: RunClient, followed: OverviewAnswer, isNow: boolean, range: StepRange, offset: number): Answer<NamesOfRun> {
  const epoch = client.model.value?.epoch;
  const key = isNow && epoch !== undefined ? `${epoch} ${range.fromStep ?? ''} ${range.toStep ?? ''} ${offset}` : undefined;
  return useAnswer(async (options) => {
    const { overview } = followed;
    const model = client.model.peek();
    const [first, last] = [overview && binRange(overview, 0), overview && binRange(overview, overview.bins.length - 1)];
    const isWhole = range.fromStep === undefined;
    const from = isWhole ? model?.from : first?.from;
    const until = isWhole ? model?.until : last?.until;
    const area = { from: from ?? 0, until: Math.max(until ?? 0, from ?? 0), tracks: [] };
    return { table: await client.area(area, options), steps: stepsOfRanks(overview?.ranks ?? []) };
  }, key);
}

function columnsOf(measure: Measure): readonly Column<NamePair>[] {
  const time = (key: 'a' | 'b', title: string): Column<NamePair> => ({
    key,
    title,
    hint: measure === 'step' ? 'Time in it per step and rank' : 'Time in it on all ranks',
    isNumber: true,
    sort: ({ total }) => total[key],
    show: ({ total, ...row }) => (row[key] === undefined ? '–' : formatDuration(total[key] ?? Number.NaN)),
  });
  return [
    {
      key: 'name',
      title: 'Name',
      sort: ({ name }) => name,
      show: ({ name }) => (
        <span class="compare-name" title={name}>
          {name}
        </span>
      ),
    },
    { key: 'kind', title: 'Kind', sort: ({ kind }) => kind, show: ({ kind }) => kind },
    time('a', 'A'),
    time('b', 'B'),
    {
      key: 'change',
      title: 'B − A',
      hint: 'Sorted by how much it changed, either way',
      isNumber: true,
      sort: ({ total }) => Math.abs(total.more ?? 0),
      show: ({ total }) => <DifferenceText difference={total} />,
    },
    {
      key: 'self',
      title: 'Self, B − A',
      hint: 'The same of the time that no span inside of it covers',
      isNumber: true,
      sort: ({ self }) => Math.abs(self.more ?? 0),
      show: ({ self }) => <DifferenceText difference={self} />,
    },
    {
      key: 'count',
      title: 'Count A → B',
      isNumber: true,
      sort: ({ count }) => Math.abs(count.more ?? 0),
      show: ({ count }) => `${formatNumber(count.a ?? 0)} → ${formatNumber(count.b ?? 0)}`,
    },
  ];
}

// Step times of both runs, and their ranks and steps.

import type { Overview } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { formatCount, formatDuration } from '../controls/format.ts';
import { rankCount } from '../overview/rank-lives.ts';
import { DifferenceText } from './difference-text.tsx';
import { differenceOf } from './differences.ts';

const percentiles = ['p50', 'p90', 'p95', 'p99'] as const;

export function ComparedTimes({ a, b }: { readonly a: Overview; readonly b: Overview }): JSX.Element {
  return (
    <table class="compare-times">
      <caption class="only-aloud">Percentiles of step time in A and B</caption>
      <thead>
        <tr>
          <td />
          <th scope="col">A</th>
          <th scope="col">B</th>
          <th scope="col">B − A</th>
        </tr>
      </thead>
      <tbody>
        {percentiles.map((key) => {
          const difference = differenceOf(a.percentiles?.[key], b.percentiles?.[key]);
          return (
            <tr key={key}>
              <th scope="row">{key}</th>
              <td>{formatDuration(difference.a ?? Number.NaN)}</td>
              <td>{formatDuration(difference.b ?? Number.NaN)}</td>
              <td>
                <DifferenceText difference={difference} />
              </td>
            </tr>
          );
        })}
        <tr>
          <th scope="row">steps</th>
          <td>{formatCount(a.steps)}</td>
          <td>{formatCount(b.steps)}</td>
          <td />
        </tr>
        <tr>
          <th scope="row">ranks with steps</th>
          <td>{formatCount(rankCount(a.ranks))}</td>
          <td>{formatCount(rankCount(b.ranks))}</td>
          <td />
        </tr>
      </tbody>
    </table>
  );
}

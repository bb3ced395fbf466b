import { StepSummarySink } from '@ranktrace/trace';
import { expect, it } from 'vitest';
import { HeadlineSinks } from './print-headline.ts';
import { formatReport } from './print-summary.ts';

const header = { run: 'night-42', worldSize: 2, unixEpoch: undefined, processes: [] };

it('says of a recording without steps that slow ranks are not looked for, and what ends a step', () => {
  const report = { header, totals: [], summary: new StepSummarySink().summary, findings: [] };
  const { blame } = new HeadlineSinks();
  const stepsLine = (text: string) => text.split('\n').find((line) => line.startsWith('steps: '));
  expect(stepsLine(formatReport(report, blame, ''))).toMatch(
    /^steps: none in this recording, so slow ranks are not looked for; .*prof\.step\(\)/,
  );
  // Work of GPUs is judged in windows of time.
  expect(stepsLine(formatReport(report, { ...blame, cutAt: 'all_reduce' }, ''))).toMatch(
    /^steps: none in this recording, so windows .*judged; /,
  );
});

// `ranktrace report INPUT…`: where the time of a run went, between its ranks: steps, who is to blame, clocks, collectives, remote calls, and what
// never ended.

import { CollectiveSink, clockReport, OpenWorkSink, RpcSink, StepBlameSink } from '@ranktrace/trace';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport, openMergeInputs } from '../merge-inputs.ts';
import { blameData, formatBlame } from '../print-blame.ts';
import { clocksData, formatClocks } from '../print-clocks.ts';
import { collectivesData, formatCollectives } from '../print-collectives.ts';
import { formatOpenWork, openWorkData } from '../print-open-work.ts';
import { formatRpcs, rpcsData } from '../print-rpcs.ts';
import { formatReport, reportData } from '../print-summary.ts';

export async function report(inputs: readonly string[], options: { run?: string; json?: boolean }): Promise<number> {
  using opened = await openMergeInputs(inputs, options.run);
  using interrupt = abortOnInterrupt();
  const [collectives, rpcs, openWork, steps] = [new CollectiveSink(), new RpcSink(), new OpenWorkSink(), new StepBlameSink()];
  const merged = await mergeAndReport(opened.sources, undefined, [collectives, rpcs, openWork, steps], interrupt.signal);
  const { blame } = steps;
  const clocks = clockReport(merged.totals);
  const { clockConflicts } = merged.header;
  if (options.json === true) {
    const { findings } = blame;
    const data = {
      ...(reportData(merged) as object),
      verdict: blame.verdict,
      // Blame first, then what is known to be missing: each with `kind` and `ranks`.
      findings: [...findings, ...merged.findings],
      blame: blameData(blame),
      clocks: clocksData(clocks, clockConflicts),
      collectives: collectivesData(collectives.summary),
      remoteCalls: rpcsData(rpcs.summary),
      openWork: openWorkData(openWork.summary),
    };
    process.stdout.write(`${JSON.stringify(data)}\n`);
    return 0;
  }
  const blocks = [
    formatReport(merged, blame),
    formatBlame(blame),
    formatClocks(clocks, clockConflicts),
    formatCollectives(collectives.summary),
    formatRpcs(rpcs.summary),
    formatOpenWork(openWork.summary),
  ];
  process.stdout.write(`${blocks.filter((block) => block !== '').join('\n\n')}\n`);
  return 0;
}

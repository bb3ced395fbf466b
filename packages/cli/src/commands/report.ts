// `ranktrace report INPUT…`: where the time of a run went, between its ranks: steps, clocks, collectives, remote calls, and what never ended.

import { CollectiveSink, clockReport, OpenWorkSink, RpcSink } from '@ranktrace/trace';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport, openMergeInputs } from '../merge-inputs.ts';
import { clocksData, formatClocks } from '../print-clocks.ts';
import { collectivesData, formatCollectives } from '../print-collectives.ts';
import { formatOpenWork, openWorkData } from '../print-open-work.ts';
import { formatRpcs, rpcsData } from '../print-rpcs.ts';
import { formatReport, reportData } from '../print-summary.ts';

export async function report(inputs: readonly string[], options: { run?: string; json?: boolean }): Promise<number> {
  using opened = await openMergeInputs(inputs, options.run);
  using interrupt = abortOnInterrupt();
  const [collectives, rpcs, openWork] = [new CollectiveSink(), new RpcSink(), new OpenWorkSink()];
  const merged = await mergeAndReport(opened.sources, undefined, [collectives, rpcs, openWork], interrupt.signal);
  const clocks = clockReport(merged.totals);
  const { clockConflicts } = merged.header;
  if (options.json === true) {
    const data = {
      ...(reportData(merged) as object),
      clocks: clocksData(clocks, clockConflicts),
      collectives: collectivesData(collectives.summary),
      remoteCalls: rpcsData(rpcs.summary),
      openWork: openWorkData(openWork.summary),
    };
    process.stdout.write(`${JSON.stringify(data)}\n`);
    return 0;
  }
  const blocks = [
    formatReport(merged),
    formatClocks(clocks, clockConflicts),
    formatCollectives(collectives.summary),
    formatRpcs(rpcs.summary),
    formatOpenWork(openWork.summary),
  ];
  process.stdout.write(`${blocks.filter((block) => block !== '').join('\n\n')}\n`);
  return 0;
}

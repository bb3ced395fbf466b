// `ranktrace dump INPUT…`: every event of a run as one line of text, in order of time; `--batches` lists the stored batches instead.

import { inflate, mergeStored } from '@ranktrace/aggregator';
import { decodeBatch, decodeBatchHeader, printable, tableNames } from '@ranktrace/protocol';
import { dumpWriter } from '@ranktrace/trace';
import { kindNames } from '../inputs/input-kinds.ts';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import { leftOutText } from '../print/left-out.ts';
import { CliError } from '../terminal/errors.ts';
import { say, writeBytes } from '../terminal/output.ts';

export async function dump(inputs: readonly string[], options: InputOptions & { readonly batches?: boolean }): Promise<number> {
  using opened = await openRun(inputs, options);
  if (options.batches === true) {
    if (opened.kind !== 'store') {
      throw new CliError('bad_usage', `--batches lists what is stored: "${inputs[0]}" is ${kindNames[opened.kind]}, which has no batches`);
    }
    for (const source of opened.stored) {
      for (let index = 0; index < source.count; index++) {
        const bytes = source.read(index);
        if (bytes !== undefined) printBatch(bytes);
      }
    }
    return 0;
  }
  const warn = (error: unknown): void => {
    say(`skipped an unreadable batch: ${(error as Error).message}`);
  };
  await mergeStored(opened.input, [dumpWriter(writeBytes)], {
    onUnreadable: warn,
    onSkipped: (skipped) => {
      const text = leftOutText(skipped);
      if (text !== undefined) say(text);
    },
  });
  return 0;
}

function printBatch(bytes: Uint8Array): void {
  const { run, rank, incarnation, sequence, watermark, last, pruned } = decodeBatchHeader(bytes);
  const { tables } = decodeBatch(bytes, inflate);
  const rows = tableNames.filter((name) => tables[name].length > 0).map((name) => `${name} ${tables[name].length}`);
  const about = `run ${run}  rank ${rank}  incarnation ${incarnation}  batch ${pruned === undefined ? '' : `${pruned.from} to `}${sequence}  ${bytes.length} B  watermark ${watermark} ns`;
  writeBytes(
    Buffer.from(`${printable(about)}${last ? '  last' : ''}${pruned === undefined ? '' : `  ${pruned.what} pruned`}  ${rows.join(', ')}\n`),
  );
}

// The walk-through of docs/tutorial.md: where does a forward pass spend its time and memory, and what helps?
//
//   node main.js                one stage after the other
//   node main.js --stage 2      one of them
//   node main.js --json         the facts, one line of JSON for each stage
//
// Read masked-linear.ts first (the module), then searches.ts (what changes from stage to stage), then profile-stage.ts (how it is profiled).

import * as tf from '@tensorflow/tfjs';
import { setThreadsCount } from '@tensorflow/tfjs-backend-wasm';
import { type Options, readOptions, UsageError } from './options.ts';
import { profileStage, type StageReport } from './profile-stage.ts';

async function main({ stages, json, out }: Options): Promise<void> {
  // One thread, so that times are those of the work and not of the cores that happen to be free.
  setThreadsCount(1);
  if (!(await tf.setBackend('wasm'))) throw new Error('Cannot use the wasm backend of TensorFlow.js');
  for (const stage of stages) {
    const report = await profileStage(stage, out);
    if (json) {
      const { timeTable: _time, memoryTable: _memory, ...facts } = report;
      console.log(JSON.stringify(facts));
    } else {
      print(report);
    }
  }
}

function print({ stage, title, values, found, maskIndices, trace, timeTable, memoryTable }: StageReport): void {
  console.log(`stage ${stage}: ${title}\n\nby time\n${timeTable}\nby memory\n${memoryTable}`);
  console.log(`found ${found} of ${values} values; copied in MASK INDICES: ${maskIndices.copiedBytes} bytes`);
  console.log(`trace: ${trace}\n`);
}

try {
  await main(readOptions(process.argv.slice(2)));
} catch (error) {
  const isUsage = error instanceof UsageError;
  console.error(isUsage ? error.message : (error as Error).stack);
  process.exitCode = isUsage ? 2 : 1;
}

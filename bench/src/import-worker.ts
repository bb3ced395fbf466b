// One side of the benchmark `import`: a torch.profiler file from its bytes, into columns with all arguments or through JSON.parse.

import { workerData } from 'node:worker_threads';
import { readKineto } from '@ranktrace/trace/torch';
import { answerTurns } from './turn-worker.ts';

export interface ImportWork {
  readonly side: 'columns' | 'objects';
  /** Unzipped. */
  readonly bytes: Uint8Array;
}

const { side, bytes } = workerData as ImportWork;
answerTurns(() => {
  if (side === 'columns') readKineto(bytes, { keep: 'all' });
  else JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString());
});

// Loads the GPU library late, as the SDK does, and records until its standard input ends: node gpu-rank.mjs RING CAPACITY

import { loadGpuLibrary } from '@ranktrace/gpu';

const [ring, capacity] = process.argv.slice(2);
const library = loadGpuLibrary();
console.log(JSON.stringify({ began: `${process.hrtime.bigint()}`, why: library.missing ?? library.start(ring, Number(capacity)) }));
process.stdin.resume().on('end', () => {
  library.stop?.();
  process.exit(0);
});

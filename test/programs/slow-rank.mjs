// A rank of a job that trains in lockstep: some work, then an all-reduce that ends when all ranks have entered it. Between two steps, one rank is
// slower in `forward`.
//
//   node slow-rank.mjs STEPS SLOW_RANK FROM_STEP UNTIL_STEP SLOW_MS [BATCH_SIZE_STEP]
//
// Rank 0 is the meeting point, at MASTER_ADDR:MASTER_PORT. From BATCH_SIZE_STEP on the batch is twice as large, and so is `forward`, on all ranks.

import { connect, createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [steps, slowRank, fromStep, untilStep, slowMs, batchSizeStep = Number.POSITIVE_INFINITY] = process.argv.slice(2).map(Number);
const { MASTER_ADDR: host, MASTER_PORT: port } = process.env;
const [rank, worldSize] = [Number(process.env.RANK), Number(process.env.WORLD_SIZE)];

if (rank === 0) {
  const sockets = new Set();
  let entered = 0;
  const meeting = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      entered += data.length;
      if (entered < worldSize) return;
      entered -= worldSize;
      for (const one of sockets) one.write('.');
    });
  });
  await new Promise((resolve) => meeting.listen(Number(port), host, resolve));
}

let socket;
while (socket === undefined) {
  const tried = connect({ host, port: Number(port), noDelay: true });
  socket = await new Promise((resolve) => tried.once('connect', () => resolve(tried)).once('error', () => resolve(undefined)));
  if (socket === undefined) await setTimeout(50);
}
socket.on('error', () => {});
let left = () => {};
socket.on('data', () => left());
const meet = () =>
  new Promise((resolve) => {
    left = resolve;
    socket.write('.');
  });

const prof = profile().start();
prof.addMetadata('batch_size', '32');
for (let step = 0; step < steps; step++) {
  const isSlow = rank === slowRank && step >= fromStep && step < untilStep;
  if (step === batchSizeStep) prof.addMetadata('batch_size', '64');
  await recordFunction('data', () => setTimeout(2));
  await recordFunction('forward', () => setTimeout((step >= batchSizeStep ? 16 : 8) + (isSlow ? slowMs : 0)));
  await prof.collective({ op: 'all_reduce', bytes: 1024 }, meet);
  prof.step();
}
await prof.stop();
process.exit(0);

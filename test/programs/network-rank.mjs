// A rank on a network host: steps of some work, a real all-reduce with all others, and a call to a rank on another host. Beside its
// recording it writes the true times, by the clock that all hosts of the test share.
//
//   node network-rank.mjs STEPS COORDINATOR RPC_PORT PEER TRUTH_FILE ZERO      COORDINATOR, PEER: ADDRESS:PORT
//
// Truth, ns of CLOCK_MONOTONIC after ZERO: { steps: [[before, after]], collectives: [[before, inside, leaving, left]] }.

import { writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { profile } from '@ranktrace/sdk';

const [steps, coordinatorAt, rpcPort, peerAt, truthFile, zero] = process.argv.slice(2);
const [rank, worldSize] = [Number(process.env.RANK), Number(process.env.WORLD_SIZE)];
const now = () => Number(process.hrtime.bigint() - BigInt(zero));
const truth = { steps: [], collectives: [] };

function open(address) {
  const [host, port] = address.split(':');
  return connect({ host, port: Number(port), noDelay: true });
}

// The parent was killed.
process.stdin.resume().on('end', () => process.exit(1));
const coordinator = open(coordinatorAt);
let answered = () => {};
let rest = Buffer.alloc(0);
coordinator.on('data', (data) => {
  rest = Buffer.concat([rest, data]);
  if (rest.length < 16) return;
  const sum = rest.readDoubleLE(8);
  rest = rest.subarray(16);
  answered(sum);
});
function allReduce(sequence, value) {
  return new Promise((resolve) => {
    answered = resolve;
    const message = Buffer.alloc(16);
    message.writeDoubleLE(sequence, 0);
    message.writeDoubleLE(value, 8);
    coordinator.write(message);
  });
}

function lines(socket, take) {
  let text = '';
  socket.setEncoding('utf8').on('data', (data) => {
    const whole = (text + data).split('\n');
    text = whole.pop();
    for (const line of whole) take(line);
  });
}

const prof = profile().start();
const server = createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => {});
  lines(socket, (line) => {
    const { from, carrier } = JSON.parse(line);
    prof.rpcServer('Push', { carrier, peer: `rank ${from}` }, () => {});
    socket.write('done\n');
  });
});
await new Promise((resolve) => server.listen(Number(rpcPort), '0.0.0.0', resolve));
await allReduce(-1, rank);
const peer = open(peerAt);
let replied = () => {};
lines(peer, () => replied());
const push = (carrier) =>
  new Promise((resolve) => {
    replied = resolve;
    peer.write(`${JSON.stringify({ from: rank, carrier })}\n`);
  });

const expected = (worldSize * (worldSize - 1)) / 2;
for (let step = 0; step < Number(steps); step++) {
  await setTimeout(4 + 8 * Math.random());
  const times = [now(), 0, 0, 0];
  const sum = await prof.collective({ op: 'all_reduce', bytes: 8 }, async () => {
    times[1] = now();
    const sum = await allReduce(step, rank);
    times[2] = now();
    return sum;
  });
  times[3] = now();
  if (sum !== expected) throw new Error(`the sum is ${sum}`);
  truth.collectives.push(times);
  await prof.rpcClient('Push', { peer: 'next host' }, push);
  const before = now();
  prof.step();
  truth.steps.push([before, now()]);
}
// No rank leaves while others may still call.
await allReduce(-2, rank);
for (const socket of [coordinator, peer]) socket.destroy();
await prof.stop();
writeFileSync(truthFile, JSON.stringify(truth));
process.exit();

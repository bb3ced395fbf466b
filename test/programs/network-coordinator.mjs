// The rendezvous of ranks on several hosts: no rank gets the sum before all have given a value.
//
//   node network-coordinator.mjs WORLD_SIZE      prints its port; ends with stdin
//
// A message is two doubles, there [sequence, value], back [sequence, sum]. Sums go out in another order each time: two cores cannot wake six
// ranks at once, and no host should always be the last.

import { createServer } from 'node:net';

const worldSize = Number(process.argv[2]);
const ranks = [];
let given = [];

const server = createServer({ noDelay: true }, (socket) => {
  ranks.push(socket);
  let rest = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (data) => {
    rest = Buffer.concat([rest, data]);
    for (; rest.length >= 16; rest = rest.subarray(16)) give(rest.readDoubleLE(0), rest.readDoubleLE(8));
  });
});

function give(sequence, value) {
  given.push(value);
  if (given.length < worldSize) return;
  const answer = Buffer.alloc(16);
  answer.writeDoubleLE(sequence, 0);
  answer.writeDoubleLE(
    given.reduce((sum, one) => sum + one, 0),
    8,
  );
  given = [];
  for (let left = ranks.length; left > 1; left--) {
    const chosen = Math.floor(Math.random() * left);
    [ranks[left - 1], ranks[chosen]] = [ranks[chosen], ranks[left - 1]];
  }
  for (const socket of ranks) socket.write(answer);
}

server.listen(0, '0.0.0.0', () => console.log(`port ${server.address().port}`));
process.stdin.resume().on('end', () => process.exit());

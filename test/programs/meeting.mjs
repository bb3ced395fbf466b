// The rendezvous of a test job's ranks: each enters, and all leave once the last has. Rank 0 hosts it, at MASTER_ADDR:MASTER_PORT.

import { connect, createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';

const { MASTER_ADDR: host, MASTER_PORT: port } = process.env;
const [rank, worldSize] = [Number(process.env.RANK), Number(process.env.WORLD_SIZE)];

/** Joins the others. Returns a function that enters a rendezvous, and resolves when all ranks have. */
export async function joinMeeting() {
  if (rank === 0) await openMeeting();
  let socket;
  while (socket === undefined) {
    const tried = connect({ host, port: Number(port), noDelay: true });
    socket = await new Promise((resolve) => tried.once('connect', () => resolve(tried)).once('error', () => resolve(undefined)));
    if (socket === undefined) await setTimeout(50);
  }
  socket.on('error', () => {});
  let left = () => {};
  socket.on('data', () => left());
  return () =>
    new Promise((resolve) => {
      left = resolve;
      socket.write('.');
    });
}

async function openMeeting() {
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

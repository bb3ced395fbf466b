// One connection between two ranks, over a real socket.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { answerAll, evaluateOnMaster } from './evaluation-rpc.ts';
import { connectToPeer, type PeerConnection } from './peer-connection.ts';
import { PeerListener } from './peer-listener.ts';

/** A raw socket and the connection that receives from it. */
async function pair(): Promise<{ socket: Socket; connection: PeerConnection }> {
  using listener = await PeerListener.open('127.0.0.1', 0);
  const socket = connect(listener.port, '127.0.0.1');
  await once(socket, 'connect');
  return { socket, connection: await listener.accept('rank 3') };
}

test('receives exactly the bytes asked for, however they were sent', async () => {
  const { socket, connection } = await pair();
  socket.write(Buffer.of(1, 2));
  setTimeout(() => socket.write(Buffer.of(3, 4, 5)), 20);
  expect([...(await connection.receive(4))]).toEqual([1, 2, 3, 4]);
  expect([...(await connection.receive(1))]).toEqual([5]);
  connection[Symbol.dispose]();
});

test('reads lines that come together or in pieces, and bytes after a line', async () => {
  const { socket, connection } = await pair();
  socket.write('{"a":1}\n{"b":2}\n{"c"');
  expect(await connection.receiveJson()).toEqual({ a: 1 });
  expect(await connection.receiveJson()).toEqual({ b: 2 });
  setTimeout(() => socket.write(':3}\nxyz'), 20);
  expect(await connection.receiveJson()).toEqual({ c: 3 });
  expect(Buffer.from(await connection.receive(3)).toString()).toBe('xyz');
  connection[Symbol.dispose]();
});

test('an end in the middle of a message is an error that names the rank', async () => {
  const { socket, connection } = await pair();
  socket.end(Buffer.of(1, 2));
  await expect(connection.receive(4)).rejects.toMatchObject({
    code: 'peer_lost',
    message: 'Lost rank 3: its connection was closed by the other end',
  });
  await expect(connection.receive(4)).rejects.toMatchObject({ code: 'peer_lost' });
});

test('a reset connection is an error, for the sender too', async () => {
  const { socket, connection } = await pair();
  socket.resetAndDestroy();
  await expect(connection.receive(4)).rejects.toMatchObject({
    code: 'peer_lost',
    message: 'Lost rank 3: its connection broke (ECONNRESET)',
  });
  await expect(connection.send(Buffer.of(1))).rejects.toMatchObject({ code: 'peer_lost' });
});

test('silence ends after the time given', async () => {
  const { connection } = await pair();
  const message = 'Gave up waiting for rank 3: it has sent nothing for 0.02 s';
  await expect(connection.receive(1, 20)).rejects.toMatchObject({ code: 'peer_silent', message });
  connection[Symbol.dispose]();
});

test.each([
  ['hello\n', 'Cannot read a message from rank 3: "hello" is not JSON'],
  ['x'.repeat(70_000), 'Cannot read a message from rank 3: it is longer than 65536 bytes'],
])('what is not the protocol is refused', async (sent, message) => {
  const { socket, connection } = await pair();
  socket.write(sent);
  await expect(connection.receiveJson()).rejects.toMatchObject({ code: 'bad_message', message });
  connection[Symbol.dispose]();
});

test('connecting to nobody ends with an error that says where and why', async () => {
  const listener = await PeerListener.open('127.0.0.1', 0);
  const { port } = listener;
  listener[Symbol.dispose]();
  const message = `Cannot reach rank 0 at 127.0.0.1:${port} within 0.15 s: ECONNREFUSED`;
  await expect(connectToPeer({ host: '127.0.0.1', port, peer: 'rank 0', withinMs: 150 })).rejects.toMatchObject({
    code: 'cannot_meet',
    message,
  });
});

test('an evaluation call carries its headers to rank 0 and the accuracy back', async () => {
  using listener = await PeerListener.open('127.0.0.1', 0);
  using master = await connectToPeer({ host: '127.0.0.1', port: listener.port, peer: 'rank 0' });
  using worker = await listener.accept('rank 1');
  const call = { rank: 1, epoch: 4, headers: { traceparent: '00-abc' } };
  const accuracy = evaluateOnMaster(master, call);
  await answerAll([worker], (received) => {
    expect(received).toMatchObject(call);
    return 0.934;
  });
  expect(await accuracy).toBe(0.934);
});

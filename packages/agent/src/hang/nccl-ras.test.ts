// NCCL's RAS is played by a server of our own, in the format that NCCL's src/ras/client_support.cc writes.

import { getEventListeners } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { agentLimits as limits } from '../model/limits.ts';
import { rasStatus } from '../testing/ras-status.ts';
import { askRas, type RasAddress } from './nccl-ras.ts';

const { signal } = new AbortController();

/** Calls `answer` with each line that comes. */
async function serve(answer: (line: string, socket: Socket) => void): Promise<RasAddress> {
  const server = createServer((socket) => {
    let rest = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      const lines = `${rest}${chunk}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) answer(line, socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { host: '127.0.0.1', port: (server.address() as { port: number }).port };
}

const answering = (status: string): Promise<RasAddress> =>
  serve((line, socket) => {
    if (line === 'SET FORMAT json') socket.write('OK\n');
    else if (line === 'STATUS') socket.end(status);
  });

describe("NCCL's counts", () => {
  it('are those of each rank in each communicator, of all kinds but sends', async () => {
    const ranks = [
      { pid: 11, AllReduce: 17, Broadcast: 2, Send: 9 },
      { pid: 12, AllReduce: 16, Broadcast: 2, Send: 9 },
    ];
    expect(await askRas(await answering(rasStatus([{ hash: '0x1f', ranks }])), signal)).toEqual([
      { communicator: 'communicator 0x1f', host: '127.0.0.1', pid: 11, launched: 19 },
      { communicator: 'communicator 0x1f', host: '127.0.0.1', pid: 12, launched: 18 },
    ]);
  });

  it('are unknown where nothing listens, and there is no error', async () => {
    const address = await answering('');
    expect(await askRas({ ...address, port: 1 }, signal)).toBeUndefined();
  });

  it('are not asked of an NCCL that knows no JSON: one line says so', async () => {
    const old = await serve((line, socket) => {
      if (line.startsWith('SET')) socket.write(`ERROR: Unknown command ${line}\n`);
      else socket.end('NCCL version 2.27.3\nJob summary\n');
    });
    await expect(askRas(old, signal)).rejects.toThrow(/it knows no JSON \(NCCL before 2\.28\.7\): it answered "ERROR: Unknown command/);
  });

  it.each([
    ['nothing', ''],
    ['a list', '[]'],
    ['null', 'null'],
    ['other types', '{"communicators":[{"hash":7,"ranks":{}},{"hash":"0x1","ranks":[{"host":"::1","pid":"x"},null,7]}]}'],
    ['no counts', '{"communicators":[{"hash":"0x1","ranks":[{"host":"::1","pid":3,"collective_counts":null}]}]}'],
    ['counts too large', '{"communicators":[{"hash":"0x1","ranks":[{"host":"::1","pid":3,"collective_counts":{"a":9e15,"b":9e15}}]}]}'],
  ])('come from no answer of %s', async (_, status) => {
    const found = await askRas(await answering(status), signal).catch((error: Error) => error.message);
    expect(found).toEqual(status === '' ? expect.stringMatching(/its status is no JSON/) : []);
  });
});

describe('an answer', () => {
  it('that never ends is broken off at its bound', async () => {
    const piece = Buffer.alloc(1 << 20, ' ');
    const endless = await serve((line, socket) => {
      if (line !== 'STATUS') return void socket.write('OK\n');
      const more = (): void => {
        while (!socket.destroyed && socket.write(piece));
        if (!socket.destroyed) socket.once('drain', more);
      };
      more();
    });
    await expect(askRas(endless, signal)).rejects.toThrow(`its answer may have ${limits.rasBytesMax} bytes`);
  });

  it('that never comes is not waited for', async () => {
    const silent = await serve(() => {});
    await expect(askRas(silent, signal, 200)).rejects.toThrow(/no answer within 0\.2 s/);
  });

  it('is broken off when the agent ends; and nothing stays on its signal however often it asks', async () => {
    const ending = new AbortController();
    const silent = await serve(() => {});
    for (let turn = 0; turn < 3; turn++) await askRas({ host: '127.0.0.1', port: 1 }, ending.signal);
    expect(getEventListeners(ending.signal, 'abort')).toHaveLength(0);
    const asked = askRas(silent, ending.signal);
    ending.abort(new Error('the agent ends'));
    await expect(asked).rejects.toThrow(/the agent ends/);
    await expect(askRas(silent, ending.signal)).rejects.toThrow(/the agent ends/);
  });

  it('that is cut off is none', async () => {
    const whole = rasStatus([{ hash: '0x1f', ranks: [{ pid: 11, AllReduce: 17 }] }]);
    await expect(askRas(await answering(whole.slice(0, -9)), signal)).rejects.toThrow(/its status is no JSON/);
  });
});

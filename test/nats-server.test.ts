// The server the other tests stand on: real, durable over kill -9, and gone afterwards.

import { existsSync } from 'node:fs';
import { connect } from 'nats';
import { expect, test } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';

test('acknowledged messages survive kill -9 and a restart on the same port', async () => {
  let storeDirectory: string;
  {
    await using server = await startNatsServer();
    storeDirectory = server.storeDirectory;
    const first = await connect({ servers: server.url, reconnect: false });
    const manager = await first.jetstreamManager();
    await manager.streams.add({ name: 'TEST', subjects: ['test.>'] });
    for (let index = 0; index < 20; index++)
      await first.jetstream().publish(`test.${index}`, new Uint8Array([index]), { msgID: `${index}` });
    const closed = first.closed();
    await server.kill9();
    await closed;
    await server.restart();
    const second = await connect({ servers: server.url });
    const { state } = await (await second.jetstreamManager()).streams.info('TEST');
    const again = await second.jetstream().publish('test.0', new Uint8Array([0]), { msgID: '0' });
    await second.close();
    expect({ messages: state.messages, duplicate: again.duplicate }).toEqual({ messages: 20, duplicate: true });
  }
  expect(existsSync(storeDirectory)).toBe(false);
});

test('a server that cannot start says why', async () => {
  await expect(startNatsServer({ config: 'no_such_option { }' })).rejects.toThrow(/it said:\n.*no_such_option/s);
});

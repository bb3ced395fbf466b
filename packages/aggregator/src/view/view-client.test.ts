import type { RunModel, SearchResult } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { HttpService } from '../http/http-service.ts';
import { ExampleRuns } from '../testing/example-runs.ts';
import { ViewClient } from './view-client.ts';

async function withClient(use: (client: ViewClient, service: HttpService) => Promise<void>): Promise<void> {
  const service = await HttpService.listen({ listen: {}, view: new ExampleRuns('demo'), token: 'secret', onNotice: () => undefined });
  try {
    using client = await ViewClient.connect(service.address, { token: 'secret' });
    await use(client, service);
  } finally {
    await service.close();
  }
}

test('asks what a page asks', () =>
  withClient(async (client) => {
    const runs = await client.ask<readonly { readonly run: string }[]>({ type: 'runs' });
    const [first] = runs;
    if (first === undefined) throw new Error('no run');
    const model = await client.ask<RunModel>({ type: 'open', run: first.run });
    expect(model.run).toBe(first.run);
    const found = await Promise.all(['even', 'nowhere'].map((text) => client.ask<SearchResult>({ type: 'search', run: first.run, text })));
    expect(found.map(({ leftOut }) => leftOut)).toEqual([0, 0]);
    await expect(client.ask({ type: 'open', run: 'absent' })).rejects.toMatchObject({ name: 'ViewError', code: 'no_such_run' });
  }));

test('says that it is refused, and that the service is gone', () =>
  withClient(async (client, service) => {
    const { address } = service;
    await expect(ViewClient.connect(address, { token: undefined })).rejects.toThrow(/^Cannot connect to ws:.*401/);
    await service.close();
    await expect.poll(() => client.isOpen).toBe(false);
    await expect(client.ask({ type: 'runs' })).rejects.toThrow('The connection to the service is closed');
    await expect(ViewClient.connect(address, { token: 'secret' })).rejects.toMatchObject({ name: 'ViewError', code: 'failed' });
  }));

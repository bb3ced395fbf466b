// A real HTTP server that receives alerts: keeps the requests, and answers as configured.

import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

export interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly requests: ReceivedRequest[];
  /** The next answers; 0: none at all, the connection stays open. Default 200. */
  answer: { code: number; headers?: Record<string, string>; body?: string };
}

export async function startReceiver(port = 0): Promise<Receiver> {
  const requests: ReceivedRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      requests.push({ path: request.url ?? '', headers: request.headers, body: text === '' ? undefined : JSON.parse(text) });
      const { code, headers = {}, body = '' } = receiver.answer;
      if (code !== 0) response.writeHead(code, headers).end(body);
    });
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  const bound = (server.address() as AddressInfo).port;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    requests,
    answer: { code: 200 },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

// A port on which other ranks may connect while the ranks find each other, and not after.

import { on, once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { limits } from './limits.ts';
import { PeerConnection } from './peer-connection.ts';
import { TrainingError } from './training-error.ts';

export class PeerListener implements Disposable {
  readonly port: number;
  readonly #server: Server;
  readonly #connections: NodeJS.AsyncIterator<unknown[]>;

  private constructor(server: Server) {
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
    // Listening from now on: a rank may connect before `accept`. The signal bounds all waits of this listener together.
    this.#connections = on(server, 'connection', { signal: AbortSignal.timeout(limits.meetingMsMax) });
  }

  /**
   * @param host the address to listen on; `undefined` is every address of this host
   * @param port 0 takes any free port
   * @throws TrainingError `cannot_meet` when the port is taken
   */
  static async open(host: string | undefined, port: number): Promise<PeerListener> {
    const server = createServer();
    try {
      await once(server.listen(port, host), 'listening');
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      const message = `Cannot listen on port ${port}: ${code === 'EADDRINUSE' ? 'another process uses it' : code}; set MASTER_PORT to a free port`;
      throw new TrainingError('cannot_meet', message, { cause });
    }
    return new PeerListener(server);
  }

  /** The next connection, from any rank; error messages call it `peer`. */
  async accept(peer: string): Promise<PeerConnection> {
    try {
      const { value } = await this.#connections.next();
      return new PeerConnection(value[0] as Socket, peer);
    } catch (cause) {
      throw new TrainingError('cannot_meet', `Gave up waiting for ${peer}: it did not connect within ${limits.meetingMsMax / 1000} s`, {
        cause,
      });
    }
  }

  [Symbol.dispose](): void {
    void this.#connections.return?.();
    this.#server.close();
  }
}

// A network of our own between two processes: forwards TCP, and can be cut, frozen, slow or narrow for a while.
//
//   near ──► relay ──► far          chunk by chunk, in order; a chunk waits while frozen, then for `delayMs` and its share of the width
//
// Invariant: disposing closes every connection; nothing is buffered beyond one chunk a direction.

import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';

export interface RelayState {
  /** Connections are reset, new ones too. */
  readonly cut?: boolean;
  /** Nothing passes, and neither side gets an error. */
  readonly frozen?: boolean;
  readonly delayMs?: number;
  readonly bytesPerSecondMax?: number;
}

export class Relay implements Disposable {
  readonly #target: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #state: RelayState = {};
  #thawed: Promise<void> = Promise.resolve();
  #thaw: () => void = () => {};

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => void this.#join(near));
  }

  /** A relay to a port of 127.0.0.1. */
  static async open(target: number): Promise<Relay> {
    const relay = new Relay(target);
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    return relay;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('The relay does not listen');
    return address.port;
  }

  set state(state: RelayState) {
    if (state.frozen === true && this.#state.frozen !== true) {
      this.#thawed = new Promise((resolve) => {
        this.#thaw = resolve;
      });
    }
    this.#state = state;
    if (state.frozen !== true) this.#thaw();
    if (state.cut === true) for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  [Symbol.dispose](): void {
    this.state = { cut: true };
    this.#server.close();
  }

  async #join(near: Socket): Promise<void> {
    this.#add(near);
    if (this.#state.cut === true) return void near.resetAndDestroy();
    await this.#thawed;
    if (near.destroyed) return;
    const far = connect({ port: this.#target, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    this.#add(far);
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
    void this.#forward(near, far);
    void this.#forward(far, near);
  }

  #add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
  }

  async #forward(from: Socket, to: Socket): Promise<void> {
    try {
      for await (const chunk of from.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        await this.#thawed;
        const { delayMs = 0, bytesPerSecondMax = Number.POSITIVE_INFINITY } = this.#state;
        const waitMs = delayMs + (1000 * chunk.length) / bytesPerSecondMax;
        if (waitMs > 0) await setTimeout(waitMs);
        if (to.destroyed) return;
        if (!to.write(chunk)) await Promise.race([once(to, 'drain'), once(to, 'close')]);
      }
      to.end();
    } catch {
      // Reset by either side: the other is destroyed with it.
    }
  }
}

// No transport: the spool in the output directory is the trace, and `ranktrace merge` reads it later.
//
// The shipper writes a batch to the spool before it sends it, so a batch that arrives here is stored and can be acknowledged at once.

import type { Transport, TransportHandlers } from './transport.ts';

export class FileTransport implements Transport {
  #handlers: TransportHandlers | undefined;

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    handlers.up();
  }

  send(_bytes: Uint8Array, id: string): void {
    this.#handlers?.message({ type: 'ack', batch: id });
  }

  async close(): Promise<void> {
    this.#handlers = undefined;
  }
}

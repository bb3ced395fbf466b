// Addresses of Unix datagram sockets, as the system writes them: family (2 bytes), then a path with its NUL, or a NUL and an abstract name.
//
//   01 00 | 00 d y n o l o g 00        abstract; the length counts, so the NUL at the end is part of the name
//   01 00 | / r u n / … d y n o l o g 00

import { endianness } from 'node:os';
import { join } from 'node:path';
import { AgentError } from '../model/errors.ts';

/** Bytes of the largest address: family and 108 bytes. */
export const addressBytesMax = 110;

/** Name of the daemon that Kineto asks. */
const daemon = 'dynolog';

/** Address of Kineto's daemon: abstract, or a path in the folder that `KINETO_IPC_SOCKET_DIR` names. Throws AgentError `bad_option`. */
export function daemonAddress(folder?: string): Uint8Array {
  return folder === undefined ? addressOf(`\0${daemon}\0`) : addressOf(`${join(folder, daemon)}\0`);
}

/** The address with these bytes after the family. Throws AgentError `bad_option` where they are too many. */
export function addressOf(name: string): Uint8Array {
  const bytes = Buffer.from(name);
  if (bytes.length + 2 > addressBytesMax) {
    throw new AgentError(
      'bad_option',
      `Bad socket path "${name.replaceAll('\0', '')}": it may have ${addressBytesMax - 3} bytes, got ${bytes.length}`,
    );
  }
  const family = endianness() === 'LE' ? [1, 0] : [0, 1];
  return Buffer.concat([Buffer.from(family), bytes]);
}

/** The path of an address; undefined for an abstract one, or none. */
export function pathOf(address: Uint8Array): string | undefined {
  return address.length > 2 && address[2] !== 0 ? Buffer.from(address.subarray(2)).toString().replace(/\0.*$/s, '') : undefined;
}

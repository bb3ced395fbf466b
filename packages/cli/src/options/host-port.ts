// An address to listen at, or to ask.

import { CliError } from '../terminal/errors.ts';

/** `HOST:PORT`, `[v6]:PORT` or `PORT`, for this host. Throws CliError `bad_usage`, which names `option`. */
export function hostPort(option: string, text: string): { host: string; port: number } {
  const match = /^(?:(?:\[([^\]]+)\]|([^:]*)):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535)
    throw new CliError('bad_usage', `${option} must be HOST:PORT, such as 127.0.0.1:7400, got "${text}"`);
  return { host: match[1] ?? (match[2] || '127.0.0.1'), port };
}

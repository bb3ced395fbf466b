// Opens the page in the user's browser on a desktop; elsewhere the command only prints the address.

import { spawn } from 'node:child_process';

/**
 * The address to open in a browser: with the token, which the page's first answer moves into a cookie and out of the address. `hash`: the view to
 * show, as packages/viewer/src/url-state.ts reads it.
 */
export function pageAddress(address: string, token: string | undefined, hash = ''): string {
  const url = new URL(`/${hash}`, address);
  if (token !== undefined) url.searchParams.set('token', token);
  return url.href;
}

/** Opens `url` with the desktop's own command. Does not wait for the result: the address is printed all the same. */
export function openBrowser(url: string, environment: NodeJS.ProcessEnv): void {
  const command = browserCommand(url, process.platform, environment);
  if (command === undefined) return;
  const [file, ...args] = command;
  const child = spawn(file, args, { stdio: 'ignore', detached: true });
  // Without such a command nothing is lost.
  child.once('error', () => {});
  child.unref();
}

/** Undefined without a desktop: xdg-open would start a browser inside of the terminal. */
export function browserCommand(
  url: string,
  platform: NodeJS.Platform,
  environment: NodeJS.ProcessEnv,
): readonly [file: string, ...args: string[]] | undefined {
  if (platform === 'darwin') return ['open', url];
  // The empty word is the window's title; `&` would end the command.
  if (platform === 'win32') return ['cmd', '/c', 'start', '""', url.replaceAll('&', '^&')];
  return environment.DISPLAY || environment.WAYLAND_DISPLAY ? ['xdg-open', url] : undefined;
}

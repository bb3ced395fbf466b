import { expect, it } from 'vitest';
import { browserCommand, pageAddress } from './open-browser.ts';

it('the address has the token, in such a way that no character of it means something else', () => {
  expect(pageAddress('http://127.0.0.1:7400', undefined)).toBe('http://127.0.0.1:7400/');
  const address = pageAddress('http://[::1]:7400', 'a&b=c #d');
  expect(address).toBe('http://[::1]:7400/?token=a%26b%3Dc+%23d');
  expect(new URL(address).searchParams.get('token')).toBe('a&b=c #d');
  expect(pageAddress('http://127.0.0.1:7400', 't', '#/compare?run=a')).toBe('http://127.0.0.1:7400/?token=t#/compare?run=a');
});

it('each desktop has its own command', () => {
  const url = 'http://127.0.0.1:7400/?token=a&b';
  expect(browserCommand(url, 'darwin', {})).toEqual(['open', url]);
  expect(browserCommand(url, 'linux', { DISPLAY: ':0' })).toEqual(['xdg-open', url]);
  expect(browserCommand(url, 'linux', { WAYLAND_DISPLAY: 'wayland-0' })).toEqual(['xdg-open', url]);
  expect(browserCommand(url, 'win32', {})).toEqual(['cmd', '/c', 'start', '""', 'http://127.0.0.1:7400/?token=a^&b']);
});

it('opens nothing where there is no desktop', () => {
  expect(browserCommand('http://127.0.0.1:7400/', 'linux', {})).toBeUndefined();
  expect(browserCommand('http://127.0.0.1:7400/', 'linux', { DISPLAY: '' })).toBeUndefined();
});

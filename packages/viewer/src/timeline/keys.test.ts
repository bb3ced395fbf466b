import { expect, test } from 'vitest';
import { actionOf, keyHelp } from './keys.ts';

const pressed = (key: string, about: object = {}): string | undefined =>
  actionOf({ key, ctrlKey: false, altKey: false, metaKey: false, ...about });

test('keys mean the same in capitals, and nothing with Ctrl', () => {
  expect(pressed('w')).toBe('zoomIn');
  expect(pressed('W')).toBe('zoomIn');
  expect(pressed('w', { ctrlKey: true })).toBeUndefined();
  expect(pressed('constructor')).toBeUndefined();
});

test('the help names every key that does something', () => {
  const names: Readonly<Record<string, string>> = { '←': 'ArrowLeft', '→': 'ArrowRight', '↑': 'ArrowUp', '↓': 'ArrowDown', Esc: 'Escape' };
  for (const { keys, actions } of keyHelp) {
    for (const key of keys) expect(actions).toContain(pressed(names[key] ?? key));
    for (const action of actions) expect(keys.some((key) => pressed(names[key] ?? key) === action)).toBe(true);
  }
});

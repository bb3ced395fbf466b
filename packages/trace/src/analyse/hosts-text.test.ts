import { expect, test } from 'vitest';
import { hostsText } from './hosts-text.ts';

const on = (rank: number, host: string, hostName: string) => ({ rank, host, hostName });

test('each host once, by its name, however often a cycle of messages passes it', () => {
  const processes = [on(0, 'boot-a', 'node-a'), on(1, 'boot-b', 'node-b'), on(2, 'boot-b', 'node-b')];
  const cycle = Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? 'boot-b' : 'boot-a'));
  expect(hostsText(cycle, processes)).toBe('node-b, node-a');
});

test('by a rank where it has no name, where nobody knows the host, or where others have its name', () => {
  const processes = [on(3, 'boot-a', ''), on(4, 'unknown 1', 'vm'), on(9, 'boot-c', 'pod'), on(7, 'boot-c', 'pod'), on(8, 'boot-d', 'pod')];
  expect(hostsText(['boot-a', 'unknown 1', 'boot-d', 'boot-c', 'boot-z'], processes)).toBe(
    'rank 3, rank 4, pod (rank 8), pod (rank 7), boot-z',
  );
});

test('no more than eight', () => {
  const hosts = Array.from({ length: 30 }, (_, index) => `host-${index}`);
  expect(hostsText(hosts, [])).toBe(`${hosts.slice(0, 8).join(', ')} and 22 more`);
});

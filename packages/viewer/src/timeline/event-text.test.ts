import type { EventDetails } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { eventLink, eventText } from './event-text.ts';

const details: EventDetails = {
  ...{ track: 12, event: 345, start: 5e6, length: 2e6, depth: 0, name: 'all_gather', kind: 'collective', category: '', open: false },
  ...{ isAsync: false, self: null, bound: null, fields: [], stack: [], partners: [], partnersMissing: [] },
  ...{ launchedBy: [], launched: [], launchedLeftOut: 0 },
};

test('an event as text has its name, its facts in columns, the other ranks and the stack', () => {
  const partner = { ...details, rank: 3, start: 4e6 };
  const facts = [
    ['Name', 'all_gather'],
    ['Start', '4.0 ms'],
    ['Length', '2.00\u202fms'],
  ] as const;
  expect(eventText({ ...details, partners: [partner], stack: ['train.py(31): step'] }, facts, { zero: 1e6, rank: 5 })).toBe(
    [
      'all_gather\nStart   4.0 ms\nLength  2.00 ms\n',
      'On every rank',
      'rank 3  Start 0.003 000 000 s, first, waited 1 ms, Length 2 ms',
      'rank 5  Start 0.004 000 000 s, + 1 ms, last in, Length 2 ms\n',
      'Stack\n  train.py(31): step',
    ].join('\n'),
  );
});

test('nobody is last in a collective of which ranks are missing, and the missing ones are named', () => {
  const partners = [{ ...details, rank: 3, start: 4e6 }];
  const text = eventText({ ...details, partners, partnersMissing: [0, 1, 2] }, [], { zero: 0, rank: 5 });
  expect(text).toContain('rank 3        Start 0.004 000 000 s, first, waited ≥ 1 ms, Length 2 ms');
  expect(text).toContain('rank 5        Start 0.005 000 000 s, + 1 ms, last of those found, Length 2 ms\nNot found on  rank 0–2');
});

test('a send has the other side alone, and not every rank', () => {
  const partners = [{ ...details, rank: 3, start: 4e6 }];
  const text = eventText({ ...details, name: 'send', fields: [['peer', '3']], partners }, [], { zero: 0, rank: 5 });
  expect(text).toContain('The other side\nrank 3  Start 0.004 000 000 s, first');
});

test('a kernel has the call that launched it, and a call what it launched', () => {
  const place = { track: 1, event: 2, start: 4.9e6, length: 4e3, depth: 0, name: 'cudaLaunchKernel' };
  const text = eventText(
    { ...details, kind: 'span', launchedBy: [place], launched: [{ ...place, name: 'gemm', start: 6e6 }], launchedLeftOut: 3 },
    [],
    {
      zero: 0,
      rank: 0,
    },
  );
  expect(text).toBe(
    'all_gather\n\nLaunched by\n  cudaLaunchKernel  4 µs\n  100 µs after the call began\n\nLaunched\n  gemm  4 µs, 1 ms later\n  and 3 more',
  );
});

test('no name of a trace can put a line of its own into the text', () => {
  expect(eventText({ ...details, name: 'a\nLength 0' }, [['op', 'b\u202e']], { zero: 0, rank: 0 })).toBe('a\\u000aLength 0\nop  b\\u202e');
});

test('a link opens the event alone, of its run, in a window', () => {
  const link = { track: 'r3-1kq0zb', start: 1_200_000_456, depth: 2, name: '9f' };
  const page = { origin: 'http://127.0.0.1:7400', pathname: '/' };
  expect(eventLink(page, 'night-42', link, { from: 1.5, until: 9.2 })).toBe(
    'http://127.0.0.1:7400/#/timeline?run=night-42&from=1&until=10&sel=r3-1kq0zb_1200000456_2_9f',
  );
});

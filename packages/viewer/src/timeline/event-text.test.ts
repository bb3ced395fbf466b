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
  expect(eventText({ ...details, partners: [partner], stack: ['train.py(31): step'] }, facts, 1e6)).toBe(
    'all_gather\nStart   4.0 ms\nLength  2.00 ms\n\nOn other ranks\nrank 3  Start 0.003 000 000 s, Length 2 ms\n\nStack\n  train.py(31): step',
  );
});

test('no name of a trace can put a line of its own into the text', () => {
  expect(eventText({ ...details, name: 'a\nLength 0' }, [['op', 'b\u202e']], 0)).toBe('a\\u000aLength 0\nop  b\\u202e');
});

test('a link opens the event alone, of its run, in a window', () => {
  const page = { origin: 'http://127.0.0.1:7400', pathname: '/' };
  expect(eventLink(page, 'night-42', details, { from: 1.5, until: 9.2 })).toBe(
    'http://127.0.0.1:7400/#/timeline?run=night-42&from=1&until=10&sel=12.345',
  );
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatTraceparent, parseTraceparent, randomId } from './trace-context.ts';

const trace = '0af7651916cd43dd8448eb211c80319c';
const span = 'b7ad6b7169203331';

test('reads the example of the W3C specification', () => {
  const context = parseTraceparent({ traceparent: `00-${trace}-${span}-01` });
  expect(context && formatTraceparent(context)).toBe(`00-${trace}-${span}-01`);
});

test('reads a later version with more fields', () => {
  expect(parseTraceparent({ traceparent: `cc-${trace}-${span}-01-what-comes` })).toBeDefined();
});

const throwing = {
  get traceparent(): string {
    throw new Error('no');
  },
};

test.each<[string, unknown]>([
  ['nothing', undefined],
  ['null', null],
  ['text', `00-${trace}-${span}-01`],
  ['a number as traceparent', { traceparent: 7 }],
  ['a list as traceparent', { traceparent: [`00-${trace}-${span}-01`] }],
  ['a getter that throws', throwing],
  [
    'a proxy that throws',
    new Proxy(
      {},
      {
        get: () => {
          throw new Error('no');
        },
      },
    ),
  ],
  ['version ff', { traceparent: `ff-${trace}-${span}-01` }],
  ['version 00 with more fields', { traceparent: `00-${trace}-${span}-01-x` }],
  ['a trace id of zeros', { traceparent: `00-${'0'.repeat(32)}-${span}-01` }],
  ['a span id of zeros', { traceparent: `00-${trace}-${'0'.repeat(16)}-01` }],
  ['capital letters', { traceparent: `00-${trace.toUpperCase()}-${span}-01` }],
  ['a megabyte', { traceparent: `01-${trace}-${span}-01-${'x'.repeat(1e6)}` }],
])('gives nothing for %s', (_what, carrier) => {
  expect(parseTraceparent(carrier)).toBeUndefined();
});

test('never throws, and formats back what it read', () => {
  fc.assert(
    fc.property(fc.anything(), (traceparent) => {
      const context = parseTraceparent({ traceparent });
      if (context !== undefined) expect(typeof traceparent).toBe('string');
    }),
    { seed: 1 },
  );
  const context = { trace: randomId(16), span: randomId(8) };
  expect(parseTraceparent({ traceparent: formatTraceparent(context) })).toEqual(context);
});

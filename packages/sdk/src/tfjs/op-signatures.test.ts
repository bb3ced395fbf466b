import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { detail } from '../model/detail.ts';
import { OpRecording } from '../testing/op-recording.ts';
import type { KernelCall } from './engine.ts';
import type { OpName } from './op-names.ts';
import { OpSignatures } from './op-signatures.ts';
import { signatureText } from './signature-text.ts';

const wanted = detail.shapes | detail.flops;
const noFlops = () => 0;
const op: OpName = { text: 'Kernel', code: 0, flopsKind: 2, mayShare: false, id: 1 };

function make(flopsOf = noFlops) {
  const recording = new OpRecording();
  const signatures = new OpSignatures(recording, flopsOf);
  const text = (call: KernelCall, outputs: Parameters<OpSignatures['id']>[2] = undefined, bits = wanted, backend = 'cpu') =>
    recording.texts[signatures.id(op, call, outputs, backend, bits)];
  return { recording, signatures, text };
}

const shape = fc.array(fc.nat(5), { maxLength: 4 });
const tensor = fc.record({ shape, dtype: fc.constantFrom('float32', 'int32', 'bool', 'string', 'complex64', 'bfloat16', 'strange') });
const input = fc.oneof(
  { weight: 4, arbitrary: tensor },
  fc.constant(null),
  fc.constant(undefined),
  fc.array(tensor, { maxLength: 3 }),
  fc.nat(3),
);
const inputs = fc.oneof(fc.dictionary(fc.constantFrom('a', 'b', 'x', '0', '1'), input), fc.array(tensor, { maxLength: 4 }));
const value = fc.oneof(
  fc.integer({ min: -2, max: 3 }),
  fc.constantFrom(0.5, 2 ** 40, Number.NaN, Number.POSITIVE_INFINITY),
  fc.boolean(),
  fc.constantFrom('same', 'valid', ''),
  fc.constant(null),
  fc.array(fc.oneof(fc.nat(2), fc.array(fc.nat(2), { maxLength: 2 })), { maxLength: 3 }),
);
const attrs = fc.oneof(fc.constant(undefined), fc.dictionary(fc.constantFrom('strides', 'pad', 'axis', 'seed', 'transposeA'), value));
const outputs = fc.oneof(fc.constant(undefined), tensor, fc.array(tensor, { maxLength: 3 }));
const call = fc.tuple(inputs, attrs, outputs, fc.constantFrom('cpu', 'wasm'), fc.constantFrom(wanted, detail.shapes, detail.flops));

describe('signatures', () => {
  test('the text for a call is the one that would be made for it alone, whatever was called before', () => {
    fc.assert(
      fc.property(fc.array(call, { minLength: 2, maxLength: 30 }), (calls) => {
        const { text } = make();
        for (const [given, attributes, out, backend, bits] of [...calls, ...calls]) {
          const kernel = { kernelName: 'Kernel', inputs: given, ...(attributes === undefined ? {} : { attrs: attributes }) };
          expect(text(kernel, out, bits, backend)).toBe(signatureText({ call: kernel, outputs: out, backend, wanted: bits }, noFlops));
        }
      }),
      { numRuns: 300 },
    );
  });

  test('a call that was seen makes no text again', () => {
    let made = 0;
    const { text } = make(() => ++made);
    const inputs = { a: { shape: [2, 3], dtype: 'float32' } };
    for (let n = 0; n < 5; n++) text({ kernelName: 'Kernel', inputs });
    expect(made).toBe(1);
  });

  test('what varies from call to call without changing the work is no part of it', () => {
    const { text } = make();
    const with_ = (attrs: object) => text({ kernelName: 'Kernel', inputs: {}, attrs });
    expect(with_({ seed: 1, begin: [0, 1], size: [2] })).toBe(with_({ seed: 2, begin: [5, 1], size: [3] }));
    expect(with_({ axis: 1 })).not.toBe(with_({ axis: 2 }));
  });

  test('a name that found no room is asked for again', () => {
    const { recording, text } = make();
    const kernel = { kernelName: 'Kernel', inputs: { x: { shape: [1], dtype: 'float32' } } };
    recording.isFull = true;
    expect(text(kernel)).toBe('');
    recording.isFull = false;
    expect(JSON.parse(text(kernel) ?? '')).toMatchObject({ 'Input Dims': [[1]] });
  });

  test('more than 16 384 are counted and have no text; those that were there stay', () => {
    const recording = new OpRecording();
    let ids = 0;
    recording.name = () => ++ids;
    const signatures = new OpSignatures(recording, noFlops);
    const id = (n: number) =>
      signatures.id(op, { kernelName: 'K', inputs: { x: { shape: [n], dtype: 'float32' } } }, undefined, 'cpu', wanted);
    for (let n = 0; n < 16_384; n++) expect(id(n)).toBe(n + 1);
    expect(recording.droppedArguments).toBe(0);
    expect([id(20_000), id(20_001), recording.droppedArguments]).toEqual([0, 0, 2]);
    expect([id(0), id(16_383), recording.droppedArguments]).toEqual([1, 16_384, 2]);
  });

  test('a call of thousands of tensors has none, one whose text is too long has what fits', () => {
    const { recording, signatures, text } = make(() => 7);
    const list = (length: number) => Array.from({ length }, () => ({ shape: [100, 100], dtype: 'float32' }));
    expect(signatures.id(op, { kernelName: 'AddN', inputs: list(3000) }, undefined, 'cpu', wanted)).toBe(0);
    expect(recording.droppedArguments).toBe(1);
    expect(text({ kernelName: 'AddN', inputs: list(500) })).toBe('{"kernel_backend":"cpu","flops":7}');
  });

  test('a formula that trips stops nothing', () => {
    const { text } = make(() => {
      throw new Error('no such input');
    });
    expect(text({ kernelName: 'Kernel', inputs: {} })).toContain('kernel_backend');
  });
});

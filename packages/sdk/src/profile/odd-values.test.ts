// JavaScript programs may pass anything: the methods that a training loop calls throw nothing of their own, and what a function returns or throws is passed on.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { readRun } from '../../../../test/setup/trace-events.ts';
import { SdkError } from '../model/errors.ts';
import { type Profile, profile } from './profile.ts';
import { recordFunction } from './record-function.ts';

const fails = (): never => {
  throw new Error('of a value');
};
const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;

const values: Readonly<Record<string, unknown>> = {
  ...{
    undefined: undefined,
    null: null,
    'not a number': Number.NaN,
    'a large number': 1e308,
    'a negative one': -1,
    'a bigint': 1n,
    true: true,
  },
  ...{ 'an empty text': '', 'a long text': 'x'.repeat(100_000), 'half a character': '\ud800', 'control characters': '\u0000\u001b[31m' },
  ...{
    'a symbol': Symbol('s'),
    'an object': {},
    'an array': [],
    'a function': () => 1,
    'an object without a prototype': Object.create(null),
  },
  'an object in itself': cyclic,
  'getters that throw': {
    get op() {
      return fails();
    },
    get role() {
      return fails();
    },
    toString: fails,
    toJSON: fails,
  },
  'a proxy that throws': new Proxy({}, { get: fails, has: fails, ownKeys: fails }),
};

/** Calls with an odd value in each place; `fn` is the program's. */
const calls: Readonly<Record<string, (prof: Profile, odd: never, fn: () => unknown) => unknown>> = {
  'recordFunction(odd)': (_, odd, fn) => recordFunction(odd, fn),
  // A function in place of arguments is the one that runs.
  'recordFunction with odd arguments': (_, odd, fn) => recordFunction('span', typeof odd === 'function' ? {} : odd, fn),
  'recordFunction with odd options': (_, odd, fn) => recordFunction('span', fn, odd),
  'recordFunction of an odd name in a role': (_, odd, fn) => recordFunction(odd, fn, { role: 'data' }),
  'recordFunction in an odd role': (_, odd, fn) => recordFunction('span', fn, { role: odd }),
  'collective(odd)': (prof, odd, fn) => prof.collective(odd, fn),
  'collective of an odd op': (prof, odd, fn) => prof.collective({ op: odd, peer: 1 }, fn),
  'collective of an odd group': (prof, odd, fn) => prof.collective({ op: 'send', group: odd, peer: 1 }, fn),
  'collective with an odd peer': (prof, odd, fn) => prof.collective({ op: 'send', peer: odd }, fn),
  'collective with odd numbers': (prof, odd, fn) => prof.collective({ op: 'all_reduce', sequence: odd, bytes: odd }, fn),
  'rpcClient of an odd method': (prof, odd, fn) => prof.rpcClient(odd, { peer: odd }, fn),
  'rpcClient(odd)': (prof, odd, fn) => prof.rpcClient('call', odd, fn),
  'rpcServer with an odd carrier': (prof, odd, fn) => prof.rpcServer('call', { carrier: odd }, fn),
  'rpcServer(odd)': (prof, odd, fn) => prof.rpcServer('call', odd, fn),
};
const notes: Readonly<Record<string, (prof: Profile, odd: never) => unknown>> = {
  'instant(odd)': (prof, odd) => prof.instant(odd, odd),
  'counter(odd)': (prof, odd) => prof.counter(odd, odd, odd),
  'addMetadata(odd)': (prof, odd) => prof.addMetadata(odd, odd),
  'addMetadata of an odd value': (prof, odd) => prof.addMetadata('key', odd),
  'addMetadataJson(odd)': (prof, odd) => prof.addMetadataJson(odd, odd),
  'presetMetadataJson(odd)': (prof, odd) => prof.presetMetadataJson(odd, odd),
  'toggleCollectionDynamic(odd)': (prof, odd) => prof.toggleCollectionDynamic(odd, odd),
  'toggleCollectionDynamic of odd activities': (prof, odd) => prof.toggleCollectionDynamic(true, [odd]),
};

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-odd-'));
const options = { run: 'odd', rank: 0, worldSize: 1, directory, sampleIntervalMs: 0, profileMemory: true, withStack: true } as const;
let prof: Profile;
beforeAll(() => {
  const made = profile(options);
  // Before the start, too.
  for (const odd of Object.values(values)) for (const note of Object.values(notes)) note(made, odd as never);
  prof = made.start();
});
afterAll(async () => {
  await prof.stop();
  rmSync(directory, { recursive: true, force: true });
});

describe.each(Object.entries(values))('%s', (_, odd) => {
  it.each(Object.entries(calls))('%s runs the function', (_, call) => {
    const [result, error] = [{}, new Error('of the program')];
    expect(call(prof, odd as never, () => result)).toBe(result);
    const failing = () => call(prof, odd as never, () => Promise.reject(error));
    return expect(failing()).rejects.toBe(error);
  });

  it.each(Object.entries(notes))('%s goes on', (_, note) => {
    expect(() => note(prof, odd as never)).not.toThrow();
    expect(() => prof.step()).not.toThrow();
  });

  it('as the name of a file is refused', () => {
    recordFunction('span', () => {});
    if (typeof odd === 'string') return;
    for (const write of [prof.exportChromeTrace, prof.exportStacks, prof.exportMemoryTimeline]) {
      expect(() => write.call(prof, odd as never)).toThrow(SdkError);
    }
  });
});

test('what is left is a run that can be read', async () => {
  await prof.stop();
  expect(prof.keyAverages().table()).toContain('span');
  const { events } = await readRun(directory, 'odd');
  expect(events.length).toBeGreaterThan(0);
});

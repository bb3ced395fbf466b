// Small files that unfold to gigabytes: each is read within a bound, or refused in one line with the remedy. The peak memory of a command
// is the system's figure for its process, so a larger heap changes nothing.

import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { runCommand } from './setup/ranktrace-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-small-'));
const at = (name: string): string => join(directory, name);
afterAll(() => rmSync(directory, { recursive: true }));

/** A quarter of the least that a command takes without `--memory`: the files are a quarter as large, too. */
const memory = '128M';
const bytesMax = 448 * 1024 ** 2;

/** Members of gzip one behind the other are one stream: the middle of the file is compressed once. */
const zipped = (head: string, middle: string, times: number, tail: string): Buffer =>
  Buffer.concat([gzipSync(head), ...Array<Buffer>(times).fill(gzipSync(middle)), gzipSync(tail)]);

const place = '"pid":1,"tid":1,"ts":1';
const repeated = (event: string, count: number): Buffer => zipped('{"traceEvents":[{}', `,${event}`.repeat(10_000), count / 10_000, ']}');
const each = (count: number, of: (index: number) => string, head = '{"traceEvents":[{}', tail = ']}'): Buffer =>
  gzipSync(`${head}${Array.from({ length: count }, (_, index) => of(index)).join('')}${tail}`, { level: 1 });

/** A description of a track whose name is long, as a packet. */
function described(uuid: number, name: Buffer): Buffer {
  const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)]);
  const about = Buffer.concat([Buffer.from([0x08, ...varint(uuid), 0x12, ...varint(name.length)]), name]);
  const field = Buffer.concat([Buffer.from([0xe2, 0x03, ...varint(about.length)]), about]);
  return Buffer.concat([Buffer.from([0x0a, ...varint(field.length)]), field]);
}

const refused = /(?:^|\n)ranktrace: "[^\n]*": Cannot read the trace: it must fit in \d+ MiB of memory, [^\n]*--memory 8G allows more\n$/;
const value = /one value may have \d+ bytes, got more\n$/;

/** Kind, file name, bytes, and the expected error; undefined: it is read. */
const files: readonly (readonly [what: string, name: string, bytes: () => Buffer, said: RegExp | undefined])[] = [
  ['4 million spans at one time', 'spans.json.gz', () => repeated(`{"ph":"X","name":"a",${place},"dur":1}`, 4e6), refused],
  [
    '750,000 spans, each at its own time',
    'times.json.gz',
    () => each(750e3, (index) => `,{"ph":"X","name":"a","pid":1,"tid":1,"ts":${index},"dur":1}`),
    undefined,
  ],
  ['as many of them as fit', 'fitting.json.gz', () => repeated(`{"ph":"X","name":"a",${place},"dur":1}`, 470e3), undefined],
  ['a million values of counters', 'counters.json.gz', () => repeated(`{"ph":"C","name":"a",${place},"args":{"a":1}}`, 1e6), undefined],
  ['4 million arrows', 'flows.json.gz', () => repeated(`{"ph":"s","name":"a","id":1,${place}}`, 4e6), undefined],
  ['4 million allocations', 'memory.json.gz', () => repeated(`{"ph":"i","name":"[memory]",${place}}`, 4e6), refused],
  ['500,000 names', 'names.json.gz', () => each(500e3, (index) => `,{"ph":"X","name":"n${index}",${place},"dur":1}`), refused],
  [
    '250,000 threads',
    'threads.json.gz',
    () => each(250e3, (index) => `,{"ph":"X","name":"a","pid":1,"tid":${index},"ts":1,"dur":1}`),
    refused,
  ],
  [
    '500,000 keys',
    'keys.json.gz',
    () => each(500e3, (index) => `,{"ph":"X","k${index}":1,"name":"a","pid":1,"tid":1,"ts":${index},"dur":1}`),
    undefined,
  ],
  [
    '400,000 named processes',
    'processes.json.gz',
    () => each(400e3, (index) => `,{"ph":"M","name":"process_name","pid":${index},"args":{"name":"${'p'.repeat(80)}"}}`),
    undefined,
  ],
  ['objects in the metadata', 'objects.json.gz', () => gzipSync(`{"a":[${'{},'.repeat(5e6)}1],"traceEvents":[]}`), refused],
  ['members of the metadata', 'members.json.gz', () => each(500e3, (index) => `"m${index}":[],`, '{', '"traceEvents":[]}'), refused],
  ['one string of 3 GB', 'string.json.gz', () => zipped('{"traceEvents":[{"name":"', 'x'.repeat(1 << 20), 3000, '"}]}'), value],
  [
    'brackets in brackets',
    'deep.json.gz',
    () => zipped('{"traceEvents":[{"a":', '['.repeat(1 << 20), 3000, ''),
    /values may be 1000000 deep/,
  ],
  ['256 MB of space', 'space.json.gz', () => zipped('{"traceEvents":[', ' '.repeat(1 << 20), 256, ']}'), undefined],
  [
    'spans of Zipkin',
    'calls.json.gz',
    () =>
      zipped('[{"traceId":"1"}', ',{"traceId":"1","id":"2","timestamp":1,"tags":{"a":"b"},"annotations":[{}]}'.repeat(10_000), 100, ']'),
    refused,
  ],
  ['arrays of Zipkin', 'arrays.json.gz', () => zipped('[{"traceId":"1"}', ',{},[]'.repeat(100_000), 200, ']'), refused],
  [
    'tracks of Perfetto with long names',
    'tracks.pftrace.gz',
    () =>
      Buffer.concat(Array.from({ length: 2000 }, (_, index) => gzipSync(described(index + 1, Buffer.alloc(65_000, 0x78)), { level: 1 }))),
    refused,
  ],
];

/**
 * Writes the peak memory of its process, in KiB, when it ends. On Linux the rusage of a started process begins with the memory of the one that started
 * it, here of a test run with hundreds of MB; VmHWM is its own.
 */
const witness = `import{readFileSync as r,writeFileSync as w}from"node:fs";
const own=()=>{try{return /VmHWM:\\s+(\\d+)/.exec(r("/proc/self/status","utf8"))[1]}catch{return String(process.resourceUsage().maxRSS)}};
process.on("exit",()=>w(process.env.PEAK_FILE,own()))`;

async function run(args: readonly string[]): Promise<{ code: number | null; stderr: string; peakBytes: number }> {
  const peakFile = at('peak');
  const environment = { PEAK_FILE: peakFile, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(witness)}` };
  const { code, stderr } = await runCommand(args, environment);
  return { code, stderr, peakBytes: 1024 * Number(readFileSync(peakFile, 'utf8')) };
}

describe('a small file takes a bounded amount of memory', () => {
  it.each(files)('%s', async (_, name, bytes, said) => {
    writeFileSync(at(name), bytes());
    expect(statSync(at(name)).size).toBeLessThan(40e6);
    for (const command of name === 'spans.json.gz' ? ['table', 'report'] : ['report']) {
      const { code, stderr, peakBytes } = await run([command, '--memory', memory, at(name)]);
      expect({ code, stderr }, command).toMatchObject(said === undefined ? { code: 0 } : { code: 2, stderr: expect.stringMatching(said) });
      expect(peakBytes, command).toBeLessThan(bytesMax);
    }
    rmSync(at(name));
  });
});

it('--memory says otherwise', async () => {
  writeFileSync(at('more.json.gz'), repeated(`{"ph":"X","name":"a",${place},"dur":1}`, 3e6));
  expect(await run(['table', at('more.json.gz')])).toMatchObject({ code: 2, stderr: expect.stringMatching(refused) });
  expect((await run(['table', '--memory', '4G', at('more.json.gz')])).code).toBe(0);
  const { code, stderr } = await run(['table', '--memory', '1M', at('more.json.gz')]);
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(/fit in 1 MiB of memory/) });
});

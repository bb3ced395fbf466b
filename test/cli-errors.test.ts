// Bad input from a person ends in one clear line and the exit code of ARCHITECTURE.md, without a stack.

import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeBatch, encodeFrameHeader, segmentMagic } from '@ranktrace/protocol';
import { Packr } from 'msgpackr';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exampleBatches, noDeflate } from './setup/batches.ts';
import { runCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-cli-'));
const at = (name: string): string => join(directory, name);
let taken: Server;
let takenPort = 0;

const [example] = Object.values(exampleBatches());
if (example === undefined) throw new Error('There is no example batch');
const whole = encodeBatch(example, noDeflate);
const frame = (payload: Uint8Array): Buffer => Buffer.concat([encodeFrameHeader(payload), payload]);

beforeAll(async () => {
  taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  takenPort = (taken.address() as { port: number }).port;
  // Noise that begins like JSON would be taken for a trace.
  writeFileSync(at('noise.seg'), Buffer.concat([Buffer.of(0x80), randomBytes(4999)]));
  writeFileSync(at('cut.seg'), Buffer.concat([segmentMagic, frame(whole)]).subarray(0, -7));
  writeFileSync(at('cut-after-one.seg'), Buffer.concat([segmentMagic, frame(whole), frame(whole).subarray(0, 40)]));
  writeFileSync(at('future.seg'), Buffer.concat([segmentMagic, frame(new Packr({ useRecords: false }).pack({ v: 2 }))]));
  writeFileSync(at('notes.txt'), 'step 1 took 5 ms\n');
  mkdirSync(at('empty'));
});

afterAll(() => {
  taken.close();
  rmSync(directory, { recursive: true });
});

it('a token that no header can carry is named, and not taken for a service that is away', async () => {
  for (const [variable, args] of [
    ['RANKTRACE_READ_TOKEN', ['alerts']],
    ['RANKTRACE_TOKEN', ['top', '--once']],
    ['RANKTRACE_CAPTURE_TOKEN', ['capture', '--steps', '1']],
  ] as const) {
    const result = await runCommand([...args, '--url', 'http://127.0.0.1:1'], { [variable]: 'of Windows\r' });
    const stderr = `ranktrace: Bad variable ${variable}: it must be up to 4096 visible ASCII characters without spaces\n`;
    expect(result).toMatchObject({ code: 2, stdout: '', stderr });
  }
});

describe('bad input', () => {
  const cases: readonly [what: string, args: () => string[], code: number, line: RegExp][] = [
    ['an unknown flag', () => ['merge', '--frobnicate', 'x', '-o', at('trace.pftrace')], 2, /unknown option '--frobnicate'/],
    ['an unknown command', () => ['marge'], 2, /unknown command 'marge'/],
    [
      'a step and a window of time',
      () => ['capture', '--seconds', '1', '--at-step', '5'],
      2,
      /option '--at-step <s>' cannot be used with option '--seconds <s>'/,
    ],
    ['a missing output', () => ['merge', at('cut-after-one.seg')], 2, /required option '-o, --output <file>'/],
    ['a missing file', () => ['table', at('not-there')], 2, /Cannot open ".*not-there": there is no such file or directory/],
    ['an empty directory', () => ['table', at('empty')], 2, /empty/],
    [
      'a file below a file',
      () => ['report', join(at('noise.seg'), 'x')],
      2,
      /^ranktrace: Cannot open ".*x": there is no such file or directory\n$/,
    ],
    [
      'a file of another kind',
      () => ['report', at('notes.txt')],
      2,
      /^ranktrace: Cannot read ".*notes\.txt": it is neither what ranktrace recorded, nor of the traces that it reads/,
    ],
    ['a file of noise', () => ['table', at('noise.seg')], 2, /noise\.seg" is not a segment file/],
    ['a truncated file', () => ['table', at('cut.seg')], 2, /ends inside a batch/],
    ['another protocol version', () => ['table', at('future.seg')], 2, /another protocol version/],
    [
      'an unknown trace format',
      () => ['merge', at('cut-after-one.seg'), '-o', at('trace.xyz')],
      2,
      /must end in \.pftrace, \.json or \.txt/,
    ],
    [
      'an output that cannot be written',
      () => ['merge', at('cut-after-one.seg'), '-o', at('no/such/dir.pftrace')],
      2,
      /no\/such\/dir\.pftrace/,
    ],
    ['an unknown sort key', () => ['table', at('cut-after-one.seg'), '--sort', 'colour'], 2, /--sort must be one of self, total/],
    ['a bad limit', () => ['table', at('cut-after-one.seg'), '--limit', '-3'], 2, /whole number from 1/],
    ['a bad run name', () => ['run', '--name', '../x', '--', 'true'], 2, /must be 1 to 64 letters/],
    ['no command', () => ['run', '--ranks', '2'], 2, /needs a command after "--"/],
    ['a command that is not there', () => ['run', '--out', at('out'), '--', 'no-such-program'], 2, /Cannot start "no-such-program"/],
    ['a port in use', () => ['serve', '--listen', `127.0.0.1:${takenPort}`, '--out', at('out')], 2, /another program uses that port/],
    ['a bad address', () => ['serve', '--listen', 'nowhere', '--out', at('out')], 2, /--listen must be HOST:PORT/],
    ['an open address without a token', () => ['serve', '--listen', '0.0.0.0:0', '--out', at('out')], 2, /token/],
    [
      'an unreachable NATS server',
      () => ['serve', '--listen', '127.0.0.1:0', '--nats', 'nats://127.0.0.1:9', '--out', at('out')],
      2,
      /nats:\/\/127\.0\.0\.1:9/,
    ],
    ['a bad NATS URL', () => ['serve', '--nats', 'http://x', '--out', at('out')], 2, /--nats must be nats:\/\//],
  ];

  it.each(cases)('%s gives one clear line', async (_what, args, code, wanted) => {
    const line = args();
    // A command that starts something has a process of its own; the others only print.
    const starts = line[0] === 'run' || line[0] === 'serve';
    const result = await (starts ? runCommand(line, { RANKTRACE_TOKEN: '' }) : runLine(line));
    expect(result.stderr).toMatch(wanted);
    expect(result.code).toBe(code);
    expect(result.stderr).not.toMatch(/\n {4}at /);
    const errors = result.stderr.trim().split('\n');
    expect(errors.length).toBeLessThanOrEqual(2);
    expect(existsSync(at('trace.xyz'))).toBe(false);
  });

  it('reads what there is of a file that ends too early, and says so', async () => {
    const result = await runLine(['table', at('cut-after-one.seg')]);
    expect(result.code).toBe(0);
    expect(result.stderr).toMatch(/ends inside a batch: 1 batches could be read, the last 40 bytes not/);
  });

  it('passes on the exit code of a child that fails', async () => {
    const result = await runCommand(['run', '--ranks', '2', '--out', at('failing'), '--', process.execPath, '-e', 'process.exit(7)']);
    expect(result.code).toBe(7);
    expect(result.stderr).toMatch(/rank \d ended with exit code 7/);
  });

  it('says nothing twice, and nothing raw, of names with control characters', async () => {
    const result = await runLine(['table', at('no\u001b[31m-such\u202e-file')]);
    expect(result.code).toBe(2);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
    expect(result.stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
  });

  it('shows an example in the help of every command, and what the exit codes mean', async () => {
    for (const name of ['run', 'serve', 'merge', 'table', 'dump', 'doctor', 'report', 'simulate']) {
      const { stdout, code } = await runLine([name, '--help']);
      expect(code).toBe(0);
      expect(stdout).toMatch(new RegExp(`^Examples?:\\n {2}ranktrace ${name} `, 'm'));
    }
    expect((await runLine(['--help'])).stdout).toContain('Exit codes: 0 ok, 1 a finding or a failed check, 2 bad usage or input');
  });

  it('lists every command in its help', async () => {
    const { stdout, code } = await runLine(['--help']);
    expect(code).toBe(0);
    for (const name of ['run', 'serve', 'merge', 'table', 'dump', 'doctor']) expect(stdout).toMatch(new RegExp(`^ {2}${name} `, 'm'));
  });
});

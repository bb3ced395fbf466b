// GPU rows on their way: what a row with its name takes of CUPTI's thread, against a copy of 64 bytes; rows a second that the ring's reader takes, against
// reading the bytes alone; and rows a second that become batches, with the bytes that a kernel takes on the wire, alone and with its call.
//
//   ring_writer.c ──► ring ──► RingReader ──► GpuEvents ──► batch        the writer is compiled here: without a C compiler it is left out

import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { GpuRows, RingReader, rowKind, rowsMax } from '@ranktrace/gpu';
import { encodeBody } from '@ranktrace/protocol';
import { BatchBuilder, GpuEvents } from '@ranktrace/sdk/shipping';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { inTurns, progress } from './turns.ts';

const source = fileURLToPath(new URL('../src/ring_writer.c', import.meta.url));
const rounds = 7;
const rows = 500_000;

/** ns a row. */
interface Written {
  readonly written: number;
  readonly copied: number;
}

export async function gpu(): Promise<(Figure | NotMeasured)[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-bench-gpu-'));
  try {
    const program = join(folder, 'ring_writer');
    const { status } = spawnSync(process.env.CC ?? 'cc', ['-std=gnu11', '-O2', source, '-o', program, '-pthread'], { stdio: 'ignore' });
    const noRing: NotMeasured = { notMeasured: 'GPU rows through the ring', why: 'there is no C compiler' };
    return [...(status === 0 ? await throughRing(program, folder) : [noRing]), ...(await throughEvents())];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function throughRing(program: string, folder: string): Promise<Figure[]> {
  const results: Written[] = [];
  const path = (round: number): string => join(folder, `${round}.ring`);
  const times = await inTurns(rounds, {
    write: (round) => {
      progress(`gpu: ring, ${round + 1} of ${rounds}`);
      const result = JSON.parse(execFileSync(program, [path(round), `${rows}`], { encoding: 'utf8' })) as Written;
      results.push(result);
      return result.written;
    },
    copy: (round) => results[round]?.copied ?? Number.NaN,
    bytes: (round) => rowsPerSecond(() => readBytes(path(round))),
    read: (round) => {
      const speed = rowsPerSecond(() => readRows(path(round)));
      rmSync(path(round));
      return speed;
    },
  });
  return [
    figure({
      name: 'GPU row with its name into the ring, one thread',
      value: times.write,
      unit: 'ns',
      baseline: { name: 'copy of 64 bytes', value: times.copy },
    }),
    figure({
      name: 'GPU rows out of the ring, into columns',
      value: times.read / 1e6,
      unit: 'M events/s',
      baseline: { name: 'reading the same bytes', value: times.bytes / 1e6 },
    }),
  ];
}

function rowsPerSecond(work: () => void): number {
  const start = process.hrtime.bigint();
  work();
  return (rows * 1e9) / Number(process.hrtime.bigint() - start);
}

function readBytes(path: string): void {
  const file = openSync(path, 'r');
  const buffer = Buffer.alloc(1 << 20);
  const size = statSync(path).size;
  let at = 0;
  while (at < size) at += readSync(file, buffer, 0, buffer.length, at);
  closeSync(file);
}

function readRows(path: string): void {
  const reader = new RingReader(path, 0n, process.getuid?.() ?? -1);
  const into = new GpuRows();
  let taken = 0;
  for (let more = true; more; taken += into.length) more = reader.read(into);
  reader.close();
  if (taken !== rows) throw new Error(`The reader took ${taken} of ${rows} rows`);
}

/** Kernels of a step. */
const kernelsPerStep = 500;

/**
 * Kernels of steps of training, each with its call if `withCalls`, as CUPTI reports them: the same 500 in each step, of 50 names on two streams, a few µs to
 * a few hundred each. Times are random to the ns.
 */
function generated(withCalls: boolean): GpuRows {
  const made = new GpuRows();
  let state = 1;
  const random = (): number => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
  const order = Array.from({ length: kernelsPerStep }, () => Math.floor(50 * random()));
  let [host, device] = [1e9, 1e9];
  for (let kernel = 0; kernel < rowsMax / 2; kernel++) {
    host += Math.round(4000 + 3000 * random());
    const callLength = Math.round(2500 + 1500 * random());
    if (withCalls) {
      const call = made.length++;
      made.kind[call] = rowKind.call;
      made.detail[call] = 1;
      made.name[call] = 51;
      made.start[call] = host;
      made.end[call] = host + callLength;
      made.stream[call] = 1;
      made.correlation[call] = kernel + 1000;
    }
    const row = made.length++;
    const name = order[kernel % kernelsPerStep] as number;
    device = Math.max(device + Math.round(900 + 300 * random()), host + 5000);
    const length = Math.round((3 + 4 * name) * 1000 * (0.97 + 0.06 * random()));
    made.kind[row] = rowKind.kernel;
    made.name[row] = name + 1;
    made.stream[row] = name % 8 === 0 ? 14 : 7;
    [made.start[row], made.end[row]] = [device, device + length];
    device += length;
    made.correlation[row] = kernel + 1000;
    made.grid.set([64 * (1 + (name % 16)), 1 + (name % 3), 1], 3 * row);
    made.block.set([128 << (name % 2), 1, 1], 3 * row);
    made.registers[row] = 32 + 8 * (name % 10);
  }
  return made;
}

async function throughEvents(): Promise<Figure[]> {
  const made = generated(true);
  const names = new Map(Array.from({ length: 51 }, (_, at) => [at + 1, at === 50 ? 'cudaLaunchKernel' : nameOf(at)]));
  /** Bytes of the bodies of these rows' batches, each as large as the SDK makes it. */
  const encoded = (rows: GpuRows): number => {
    const builder = new BatchBuilder();
    let bytes = 0;
    const take = (): void => {
      bytes += encodeBody(builder.take(), (body) => deflateRawSync(body)).body.length;
    };
    const added = (): void => {
      if (builder.full) take();
    };
    const target = { takesLaunches: true, catchUp: () => {}, builderAt: () => builder, trackOf: () => 1, added };
    const reader = { names } as unknown as RingReader;
    const events = new GpuEvents(target, 1);
    events.add(rows, reader);
    events.finish(reader);
    take();
    return bytes;
  };
  const work = (): void => void encoded(made);
  const copy = new Float64Array(8 * rowsMax);
  const perSecond = (what: () => void): number => {
    const start = process.hrtime.bigint();
    for (let turn = 0; turn < 20; turn++) what();
    return (20 * made.length * 1e9) / Number(process.hrtime.bigint() - start);
  };
  work();
  const times = await inTurns(rounds, {
    events: () => perSecond(work),
    deflate: () => perSecond(() => void deflateRawSync(new Uint8Array(copy.buffer))),
  });
  return [
    figure({
      name: 'GPU rows into batches, encoded',
      value: times.events / 1e6,
      unit: 'M events/s',
      baseline: { name: 'deflating as many rows of zeros', value: times.deflate / 1e6 },
    }),
    figure({
      name: 'sent per kernel',
      value: (2 * encoded(generated(false))) / rowsMax,
      unit: 'B',
      target: { at: 'most', value: 8, of: 'value' },
    }),
    figure({ name: 'sent per kernel, with its call', value: (2 * encoded(made)) / rowsMax, unit: 'B' }),
  ];
}

/** As long as those of CUTLASS and of PyTorch. */
const nameOf = (at: number): string =>
  at % 2 === 0
    ? `sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize${64 << (at % 3)}x${at}x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas`
    : `void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_${at}<float>, std::array<char*, 3ul> >(int, std::array<char*, 3ul>)`;

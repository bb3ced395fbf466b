import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readFlightRecorder } from '@ranktrace/trace/torch';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { groupsOfDump } from './collective-reports.ts';
import { requestDump } from './requested-dump.ts';

/** A dump of real torch: its rank is inside of the fourth all_reduce, which rank 2 never entered. */
const recorded = (rank: number): string =>
  fileURLToPath(new URL(`../../../../test/data/flight-recorder/nccl_trace_rank_${rank}`, import.meta.url));
const uid = process.getuid?.() ?? -1;
const { signal } = new AbortController();
let root: string;
let pipe: string;
let file: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ranktrace-dump-'));
  [pipe, file] = [join(root, 'fr0.pipe'), join(root, 'fr0')];
  execFileSync('mkfifo', ['-m', '600', pipe]);
  onTestFinished(() => rmSync(root, { recursive: true }));
});

/** The watchdog's side: opens the pipe as torch does, and calls `answer` once it was asked. */
function watchdog(answer: () => void): void {
  const descriptor = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  const bytes = new Uint8Array(128);
  const look = (): number => {
    try {
      return readSync(descriptor, bytes, 0, bytes.length, null);
    } catch {
      return 0;
    }
  };
  const timer = setInterval(() => {
    if (look() > 0) answer();
  }, 10);
  onTestFinished(() => {
    clearInterval(timer);
    closeSync(descriptor);
  });
}

const asked = (waitMs = 500) => requestDump({ pipe, file, uid }, signal, waitMs);

describe('a dump that is asked for', () => {
  it('is read once it is whole, however slowly it is written', async () => {
    const bytes = readFileSync(recorded(0));
    watchdog(() => {
      writeFileSync(file, bytes.subarray(0, 700));
      setTimeout(() => writeFileSync(file, bytes), 500);
    });
    const dump = await asked(60_000);
    const now = (dump.collectives.at(-1)?.created ?? 0n) + 7_000_000_000n;
    expect(groupsOfDump(dump, now)).toEqual([
      { group: 'world', entered: 4, open: { op: 'all_reduce', sequence: 4, insideMs: 7000 } },
      expect.objectContaining({ entered: 1 }),
    ]);
  });

  it('of a rank that waits in none says how far it came', async () => {
    watchdog(() => copyFileSync(recorded(2), file));
    expect(groupsOfDump(await asked(60_000), 0n)).toEqual([{ group: 'world', entered: 3 }]);
  });

  it('is not the file of an earlier one', async () => {
    copyFileSync(recorded(0), file);
    execFileSync('touch', ['-d', '10 seconds ago', file]);
    watchdog(() => {});
    await expect(asked()).rejects.toThrow(/within 0.5 s: none came/);
  });

  it.each(['none', 'an older one'])('is read where the clock of the file system is behind; there was %s before', async (what) => {
    if (what !== 'none') copyFileSync(recorded(0), file);
    if (what !== 'none') execFileSync('touch', ['-d', '20 seconds ago', file]);
    watchdog(() => {
      copyFileSync(recorded(2), `${file}.new`);
      execFileSync('touch', ['-d', '10 seconds ago', `${file}.new`]);
      renameSync(`${file}.new`, file);
    });
    expect(groupsOfDump(await asked(10_000), 0n)).toEqual([{ group: 'world', entered: 3 }]);
  });

  it('is none where nobody reads the pipe, there is none, or it is full', async () => {
    await expect(asked()).rejects.toThrow(/nobody reads it$/);
    const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    const writer = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    execFileSync('head', ['-c', '65536', '/dev/zero'], { stdio: ['ignore', writer, 'ignore'] });
    await expect(asked()).rejects.toThrow(/it is full: nobody reads it$/);
    closeSync(writer);
    closeSync(reader);
    rmSync(pipe);
    await expect(asked()).rejects.toThrow(/its Flight Recorder is off/);
  });
});

describe('what a hostile rank puts there', () => {
  it('instead of a pipe is refused: a file, a device, a link', async () => {
    for (const make of [() => writeFileSync(pipe, ''), () => symlinkSync('/dev/null', pipe), () => symlinkSync(file, pipe)]) {
      rmSync(pipe, { force: true });
      make();
      await expect(asked()).rejects.toThrow(/it must be a pipe$/);
    }
  });

  it("instead of its dump is refused: a link, another user's file, a pipe, an endless file", async () => {
    const hostile: readonly (readonly [() => void, RegExp])[] = [
      [() => symlinkSync(recorded(0), file), /it is a link$/],
      [() => execFileSync('mkfifo', [file]), /it must be a regular file$/],
      [() => execFileSync('truncate', ['-s', '1G', file]), /it may have \d+ bytes, got 1073741824$/],
    ];
    watchdog(() => {});
    for (const [make, why] of hostile) {
      rmSync(file, { force: true });
      make();
      await expect(asked(5000)).rejects.toThrow(why);
    }
    rmSync(file);
    copyFileSync(recorded(0), file);
    await expect(requestDump({ pipe, file, uid: uid + 1 }, signal, 5000)).rejects.toThrow(/it must be of user/);
  });

  it('as a pickle is never run: one that would make a file makes none, and is given up', async () => {
    const made = join(root, 'made');
    // os.system('touch …'), as pickle.loads would call it.
    const bomb = Buffer.from(`cos\nsystem\n(S'touch ${made}'\ntR.`);
    watchdog(() => writeFileSync(file, bomb));
    await expect(asked(1500)).rejects.toThrow(/within 1.5 s: Cannot read/);
    expect(() => readFileSync(made)).toThrow(/ENOENT/);
  });

  it('as a pickle that grows without end is refused', async () => {
    // A list of lists of lists …: each level doubles what the one before holds.
    const levels = Array.from({ length: 60 }, (_, level) => [...(level === 0 ? [] : [0x68, level - 1, 0x68, level - 1]), 0x65]).flat();
    watchdog(() => writeFileSync(file, Buffer.from([0x80, 2, 0x5d, 0x71, 0, 0x28, ...levels, 0x2e])));
    await expect(asked(1500)).rejects.toThrow(/within 1.5 s: Cannot read/);
  });
});

it('groups of one name and different ranks have different names', () => {
  const entries = [{ process_group: ['1', 'dp'], profiling_name: 'nccl:all_reduce', collective_seq_id: 4, time_created_ns: 1 }];
  const dumpOf = (ranks: string) =>
    readFlightRecorder(new TextEncoder().encode(JSON.stringify({ pg_config: { '1': { name: '1', desc: 'dp', ranks } }, entries })));
  const names = ['[0, 2]', '[1, 3]', '[]'].flatMap((ranks) => groupsOfDump(dumpOf(ranks), 1n).map(({ group }) => group));
  expect(names).toEqual(['1 dp of ranks 0, 2', '1 dp of ranks 1, 3', '1 dp']);
});

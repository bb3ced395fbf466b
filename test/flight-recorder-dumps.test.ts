// `ranktrace report` on dumps of PyTorch's Flight Recorder, which real processes wrote: who never entered which collective.

import { copyFileSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { commandPath, repository } from './setup/ranktrace-command.ts';
import { runTyped } from './setup/typed-commands.ts';
import { runLine } from './setup/warm-command.ts';

const data = join(repository, 'test/data/flight-recorder');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-dumps-'));
const dumps = join(directory, 'dumps');
/** All_reduce 4 began two seconds before the dumps were written. */
const writtenAt = new Date(1795426250900);

beforeAll(() => {
  mkdirSync(dumps);
  for (const rank of [0, 1, 2, 3]) copy(`nccl_trace_rank_${rank}`, join(dumps, `nccl_trace_rank_${rank}`));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function copy(name: string, to: string): void {
  copyFileSync(join(data, name), to);
  utimesSync(to, writtenAt, writtenAt);
}

it('names the rank that never entered a collective, and those that wait in it', async () => {
  const { code, stdout } = await runLine(['report', dumps]);
  expect(code).toBe(0);
  expect(stdout.split('\n')[1]).toMatch(
    /^in short: hang: ranks 0, 1, 3 are inside of all_reduce 4 of group world for 2\.0\d? s; rank 2 never entered it$/,
  );
  expect(stdout).toMatch(
    /^collectives that never ended\n {2}all_reduce world#4: .*\n {4}never entered {2}rank 2\n {4}inside {9}ranks 0, 1, 3$/m,
  );
  expect(stdout).not.toContain('rank_lost');
});

it('takes files of both forms, and says what is missing where a rank has none', async () => {
  const json = join(directory, 'rank0.json');
  copy('rank0.json', json);
  const { code, stdout } = await runLine(['report', json, join(dumps, 'nccl_trace_rank_3'), '--json']);
  expect(code).toBe(0);
  const { worldSize, findings, openWork } = JSON.parse(stdout);
  expect(worldSize).toBe(4);
  expect(findings.map(({ kind, ranks }: { kind: string; ranks: number[] }) => [kind, ranks])).toContainEqual(['rank_missing', [1, 2]]);
  // Rank 1 was inside, as its dump says, and rank 2 was not: without their dumps neither is known.
  expect(openWork.collectives).toMatchObject([{ op: 'all_reduce', sequence: 4, missing: [], unheard: [1, 2] }]);
  const { stdout: text } = await runLine(['report', json, join(dumps, 'nccl_trace_rank_3')]);
  expect(text.split('\n')[1]).toMatch(
    /^in short: hang: ranks 0, 3 are inside of all_reduce 4 of group world for 2\.0\d? s; nothing was heard of ranks 1, 2$/,
  );
});

it('leaves a hostile or broken dump of a directory out, and names it; a named one is an error', async () => {
  const hostile = join(directory, 'hostile');
  mkdirSync(hostile);
  for (const rank of [0, 1, 2]) copy(`nccl_trace_rank_${rank}`, join(hostile, `nccl_trace_rank_${rank}`));
  writeFileSync(join(hostile, 'nccl_trace_rank_3'), Buffer.from('\x80\x02}cos\nsystem\n(X\x02\x00\x00\x00idtR.', 'latin1'));
  const { code, stdout, stderr } = await runLine(['report', hostile]);
  expect(code).toBe(0);
  expect(stderr).toMatch(/left out .*nccl_trace_rank_3": Cannot read the pickle: instruction c asks to call code, at byte 3$/m);
  expect(stdout).toMatch(/^run flight-recorder: 3 of 4 ranks/);
  const named = await runLine(['report', join(hostile, 'nccl_trace_rank_3')]);
  expect([named.code, named.stdout, named.stderr.trim().split('\n').length]).toEqual([2, '', 1]);
});

it('names an empty dump of a directory, which it leaves out', async () => {
  const empty = join(directory, 'empty');
  mkdirSync(empty);
  for (const rank of [0, 1, 3]) copy(`nccl_trace_rank_${rank}`, join(empty, `nccl_trace_rank_${rank}`));
  writeFileSync(join(empty, 'nccl_trace_rank_2'), '');
  writeFileSync(join(empty, 'notes-2'), 'no dump');
  const { code, stdout, stderr } = await runLine(['report', empty]);
  expect([code, stdout.split('\n')[0]]).toEqual([0, expect.stringContaining('3 of 4 ranks')]);
  expect(stderr.trim()).toMatch(
    /^ranktrace: left out ".*nccl_trace_rank_2": it is not a dump of Flight Recorder, as others beside it are$/,
  );
});

it('refuses two dumps of one rank, and one whose name has no rank, in one line', async () => {
  const other = join(directory, 'dump_of_rank_0');
  copy('nccl_trace_rank_0', other);
  const twice = await runLine(['report', other, join(dumps, 'nccl_trace_rank_0')]);
  expect([twice.code, twice.stderr]).toEqual([2, expect.stringMatching(/"dump_of_rank_0" and "nccl_trace_rank_0" are both of rank 0\n$/)]);
  const nameless = join(directory, 'dump');
  copy('nccl_trace_rank_0', nameless);
  const without = await runLine(['report', nameless]);
  expect([without.code, without.stderr]).toEqual([2, expect.stringMatching(/its name must end with the rank \(nccl_trace_rank_3\)/)]);
});

it('reads dumps from pipes, each of the rank that its name says, and refuses one whose name says none', async () => {
  const ranktrace = `'${process.execPath}' '${commandPath}'`;
  const [first, third] = ['dumps/nccl_trace_rank_0', 'dumps/nccl_trace_rank_2'];
  const pipe = `mkfifo nccl_trace_rank_2; cat ${third} > nccl_trace_rank_2 &`;
  const named = await runTyped(`${pipe} ${ranktrace} report ${first} nccl_trace_rank_2`, { cwd: directory });
  expect([named.code, named.stdout]).toEqual([0, expect.stringContaining('rank_missing: nothing was heard of ranks 1, 3 ')]);
  const nameless = await runTyped(`${ranktrace} report <(cat ${first}) <(cat ${third})`, { cwd: directory });
  expect([nameless.code, nameless.stdout, nameless.stderr]).toEqual([2, '', expect.stringMatching(/its name must end with the rank/)]);
});

/** A collective as NCCL's dumps have it, `ms` after the first; `running`: not ended. */
const entry = (op: string, sequence: number, ms: number, group: readonly [string, string] = ['0', 'default_pg'], state = 'completed') => ({
  ...{
    process_group: group,
    profiling_name: `nccl:${op}`,
    collective_seq_id: sequence,
    is_p2p: false,
    state,
    retired: state === 'completed',
  },
  time_created_ns: `${1795426248000000000n + BigInt(ms) * 1_000_000n}`,
  ...(state === 'completed' && { time_discovered_completed_ns: `${1795426248000000000n + BigInt(ms + 3) * 1_000_000n}` }),
});
type Entry = ReturnType<typeof entry>;

/** Writes the dumps of ranks, which have groups of ranks beside that of all, and reports the collectives that never ended. */
async function hangOf(
  name: string,
  entriesOf: Readonly<Record<number, readonly Entry[]>>,
  groupsOf: (rank: number) => Readonly<Record<string, readonly [description: string, ranks: readonly number[]]>>,
  firstRecord = 0,
) {
  const to = join(directory, name);
  mkdirSync(to);
  for (const [rank, entries] of Object.entries(entriesOf)) {
    const groups = { '0': ['default_pg', [0, 1, 2, 3]] as const, ...groupsOf(Number(rank)) };
    const config = Object.entries(groups).map(([group, [desc, ranks]]) => [group, { name: group, desc, ranks: `[${ranks.join(', ')}]` }]);
    const numbered = entries.map((of, index) => ({ record_id: firstRecord + index, ...of }));
    const path = join(to, `nccl_trace_rank_${rank}.json`);
    writeFileSync(path, JSON.stringify({ version: '2.10', pg_config: Object.fromEntries(config), entries: numbered }));
    utimesSync(path, writtenAt, writtenAt);
  }
  const { stdout } = await runLine(['report', to, '--json']);
  return JSON.parse(stdout).openWork.collectives.map(
    ({ group, sequence, inside, left, missing, unheard }: Record<string, unknown> & { inside: { rank: number }[] }) => ({
      ...{ of: `${group}#${sequence}`, inside: inside.map(({ rank }) => rank), left, missing, unheard },
    }),
  );
}

it('a rank whose dump lost its part of a collective for newer ones has left it', async () => {
  const ahead = [entry('broadcast', 6, 60), entry('broadcast', 7, 70), entry('all_reduce', 8, 80, undefined, 'started')];
  const stuck = [1, 2, 3, 4].map((sequence) => entry('broadcast', sequence, sequence * 10));
  const entries = { 0: ahead, 1: ahead, 2: ahead, 3: [...stuck, entry('broadcast', 5, 50, undefined, 'started')] };
  const collectives = await hangOf('evicted', entries, () => ({}));
  expect(collectives).toEqual([
    { of: 'world#5', inside: [3], left: [0, 1, 2], missing: [], unheard: [] },
    { of: 'world#8', inside: [0, 1, 2], left: [], missing: [3], unheard: [] },
  ]);
});

it('groups of one name and different ranks are different groups', async () => {
  const done = (count: number) => Array.from({ length: count }, (_, at) => entry('all_reduce', at + 1, at * 10, ['1', 'dp']));
  const entries = { 0: done(6), 1: [...done(8), entry('all_reduce', 9, 100, ['1', 'dp'], 'started')], 2: done(6), 3: done(8) };
  const collectives = await hangOf('split', entries, (rank) => ({ '1': ['dp', rank % 2 === 0 ? [0, 2] : [1, 3]] }));
  expect(collectives).toEqual([{ of: '1 dp of ranks 1, 3#9', inside: [1], left: [], missing: [3], unheard: [] }]);
});

it('names a rank that never was in a group, or has no dump, where the dumps list the ranks of the group', async () => {
  const healthy = [entry('all_reduce', 1, 10)];
  const inside = [...healthy, entry('all_reduce', 1, 60, ['5', 'tp'], 'started')];
  const groups = () => ({ '5': ['tp', [1, 3]] as const });
  const seen = await hangOf('first', { 0: healthy, 1: inside, 2: healthy, 3: healthy }, groups);
  expect(seen).toEqual([{ of: '5 tp#1', inside: [1], left: [], missing: [3], unheard: [] }]);
  const unseen = await hangOf('without', { 0: healthy, 1: inside, 2: healthy }, groups);
  expect(unseen).toEqual([{ of: '5 tp#1', inside: [1], left: [], missing: [], unheard: [3] }]);
  // A dump may have lost its part of the collective.
  const lossy = await hangOf('lossy', { 0: healthy, 1: inside, 2: healthy, 3: healthy }, groups, 7);
  expect(lossy).toEqual([{ of: '5 tp#1', inside: [1], left: [], missing: [], unheard: [] }]);
});

it('takes JSON whose list of groups is longer than its beginning', async () => {
  const all = Array.from({ length: 1024 }, (_, rank) => rank);
  const groups = { '1': ['dp', all] as const, '2': ['tp', all] as const };
  const entries = { 0: [entry('all_reduce', 1, 10), entry('all_reduce', 2, 20, undefined, 'started')], 1: [entry('all_reduce', 1, 10)] };
  expect(await hangOf('large', entries, () => groups)).toMatchObject([{ of: 'world#2', inside: [0], missing: [1] }]);
});

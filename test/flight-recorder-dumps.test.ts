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

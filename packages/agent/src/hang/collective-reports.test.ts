import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { processLife } from '../ranks/process-table.ts';
import { groupsOfCounts } from './collective-reports.ts';

const host = '127.0.0.1';

it("takes a rank's counts by the number of its process, or of one that it started", async () => {
  const shell = spawn('sh', ['-c', 'sleep 600 & echo $!; wait'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await once(shell.stdout, 'data');
  const program = Number(printed);
  onTestFinished(() => void [program, shell.pid ?? 0].map((pid) => process.kill(pid)));
  const life = processLife(shell.pid ?? 0);
  if (life === undefined) expect.unreachable();
  const counts = [
    { communicator: 'a', host, pid: program, launched: 7 },
    { communicator: 'a', host, pid: process.pid, launched: 8 },
    { communicator: 'b', host, pid: 5, launched: 9 },
    { communicator: 'c', host, pid: life.pid, launched: 10 },
  ];
  expect(groupsOfCounts(counts, { life, ownPid: 5 }, new Set([life.pid, process.pid]))).toEqual([
    { group: 'a', entered: 7 },
    { group: 'b', entered: 9 },
    { group: 'c', entered: 10 },
  ]);
  // The program is a rank itself.
  expect(groupsOfCounts(counts, { life, ownPid: 5 }, new Set([life.pid, program])).map(({ group }) => group)).toEqual(['b', 'c']);
});

it('takes none that may be of either of two processes', () => {
  const counts = [
    { communicator: 'a', host, pid: 5, launched: 899 },
    { communicator: 'a', host, pid: 5, launched: 900 },
    { communicator: 'b', host, pid: 5, launched: 4 },
  ];
  expect(groupsOfCounts(counts, { life: { pid: process.pid, start: 1, parent: 1 }, ownPid: 5 }, new Set([process.pid]))).toEqual([
    { group: 'b', entered: 4 },
  ]);
});

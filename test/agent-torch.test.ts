// `ranktrace agent` beside real PyTorch, where a Python with torch is found (RANKTRACE_TORCH_PYTHON): no line of the program is changed. Elsewhere
// test/agent.test.ts has the same conversation.

import type { CaptureResult } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { AgentJob } from './setup/agent-job.ts';
import { findTorch } from './setup/torch-python.ts';

const torch = findTorch();

if (torch === undefined) {
  test('captures of real PyTorch ranks', (context) => {
    context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
    context.skip();
  });
} else {
  const program = [torch.python, 'test/programs/torch_rank.py'] as const;

  test(`four gloo ranks of torch ${torch.version}: one trace of the same moment, its collectives matched`, async () => {
    await using job = await AgentJob.start();
    await job.agent(job.address, 'socket', '0-3');
    const ranks = [0, 1, 2, 3].map((rank) => job.rank(rank, 4, program));
    await Promise.all(ranks.map((rank) => rank.said('training')));
    await job.untilRanks(({ length }) => length === 4);
    const result = await job.wholeCapture('--seconds', '2');
    expect(result).toMatchObject({ ranks: [0, 1, 2, 3], late: [], dead: [] });
    expect(result.window?.overlap).toBeGreaterThan(0.9);
    const collectives = await job.collectivesOf(result.path);
    expect(collectives).toMatchObject({ ranks: 4, violations: 0 });
    expect(collectives?.count).toBeGreaterThan(10);
    console.log(`overlap ${result.window?.overlap}, ${collectives?.count} collectives, ${collectives?.incomplete} incomplete`);
  });

  test('a rank that is killed, one that is stopped, and one that never asks are named and not waited for', async () => {
    await using job = await AgentJob.start();
    await job.agent(job.address, 'socket', '0-3');
    const ranks = [0, 1, 2, 3].map((rank) => job.rank(rank, 4, program, { daemon: rank !== 3, environment: { ALONE: '1' } }));
    await Promise.all(ranks.map((rank) => rank.said('training')));
    await job.untilRanks(({ length }) => length === 4);
    // Stopped before it can be asked: nothing of it goes on, Kineto's thread included.
    ranks[2]?.child.kill('SIGSTOP');
    const capturing = job.capture('--seconds', '2');
    // Within the window on any machine that is not too slow for it; what counts is that its file never is complete.
    setTimeout(() => ranks[1]?.child.kill('SIGKILL'), 9500);
    const captured = await capturing;
    const { ranks: whole, notes } = JSON.parse(captured.stdout) as CaptureResult;
    expect({ code: captured.code, whole }).toEqual({ code: 1, whole: [0] });
    expect(notes).toEqual([
      expect.stringMatching(/^rank 1 .*(it ended before its file was complete|its process is gone|did not ask)/),
      expect.stringMatching(/^rank 2 .*it did not ask in time/),
      expect.stringMatching(/^rank 3 .*no KINETO_USE_DAEMON=1/),
    ]);
  });
}

// Python programs may pass anything: nothing is raised, and no value takes other events with it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-python-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The program's values: all, those that are numbers, and those that are ranks or none. */
const values = { all: 24, numbers: 8, peers: 2 };

test('a rank that passes odd values raises nothing and loses nothing but these', async () => {
  const program = join(repository, 'test/programs/odd_values_rank.py');
  const raised = execFileSync(process.env.PYTHON_BIN ?? 'python3', ['-I', program, join(repository, 'clients/python'), directory], {
    encoding: 'utf8',
    stdio: 'pipe',
  });
  expect(raised).toBe('');
  const { events, findings } = await readRun(directory, 'odd');
  const steps = events.filter(({ kind }) => kind === 'step').map(({ step }) => step);
  // A number that is none is counted on from the one before.
  expect(steps).toHaveLength(values.all + 3);
  expect(steps.slice(-3)).toEqual([1000, 1001, 1002]);
  // Counters without a value, and sends to what is no rank.
  const dropped = values.all - values.numbers + values.all - values.peers;
  expect(findings).toEqual([
    `rank 0: ${dropped} events dropped because the ring or another bound was full, or a value was of the wrong type`,
    expect.stringMatching(/^rank 0: \d+ arguments cut by a limit, or left out for an invalid value$/),
  ]);
  // The dictionary that raises, of a span and of an instant; and in each of the batches with it, the long text and its like.
  expect(Number(/\d+(?= arguments)/.exec(findings[1] ?? ''))).toBeGreaterThan(2);
  expect(events.filter(({ name }) => name === 'forward')).toHaveLength(3);
  expect(events.filter(({ name }) => name === '(Raises)').length).toBeGreaterThan(3);
});

test('what finds no room in a full queue, or beyond the most facts, is counted: a span of any kind, and a fact', () => {
  const program = `import sys, time
sys.path.insert(0, sys.argv[1])
import ranktrace as r
r._EVENTS_MAX = 5
prof = r.profile(run="full", directory=sys.argv[2], flush_interval_ms=60000, sample_interval_ms=0).start()
prof._sender._rows.drain = lambda: False
time.sleep(0.5)  # the first flush may have begun before
for _ in range(5):
    with r.record_function("taken"):
        pass
def lost(add):
    before = prof._dropped_events
    add()
    return prof._dropped_events - before
def own():
    with r.record_function("own"):
        pass
def forward():
    r._set_mark(r._now(), is_forward=True)
    r._add_since_mark(prof, "forward")
def unwaited():
    r._pending[1] = (None, prof, prof._collective("all_reduce", "world", 0, None))
    r._pending[1][2].thread = r._thread_of(prof)
    r._drop_pending(1)
print([lost(add) for add in (own, forward, unwaited, lambda: r._add_wait(prof, 0, 1), lambda: r._add_collective(prof, "all_reduce", "DDP", 1))])
r._ROWS_MAX = 0
print(lost(lambda: prof.add_metadata("one", "more")))
del prof._sender._rows.drain
prof.stop()
`;
  const line = ['-I', '-c', program, join(repository, 'clients/python'), join(directory, 'full')];
  expect(execFileSync(process.env.PYTHON_BIN ?? 'python3', line, { encoding: 'utf8', stdio: 'pipe' })).toBe('[1, 1, 1, 1, 1]\n1\n');
});

test('a record_function is entered again before its end, and on several threads: each time is a span of its own', async () => {
  const program = `import sys, threading
sys.path.insert(0, sys.argv[1])
import ranktrace as r
prof = r.profile(run="again", directory=sys.argv[2], sample_interval_ms=0).start()
again = r.record_function("again")
with again:
    with again:
        pass
    with r.record_function("in the outer one"):
        pass
entered, left = threading.Event(), threading.Event()
def work():
    with again:
        entered.set()
        left.wait()
thread = threading.Thread(target=work, name="other")
with again:
    thread.start()
    entered.wait()
left.set()
thread.join()
with r.record_function("behind all"):
    pass
prof.step()
prof.stop()
print([len(one.stack) for one in prof._threads.values()])
`;
  const line = ['-I', '-c', program, join(repository, 'clients/python'), join(directory, 'again')];
  expect(execFileSync(process.env.PYTHON_BIN ?? 'python3', line, { encoding: 'utf8', stdio: 'pipe' })).toMatch(/^\[0(, 0)?\]\n$/);
  const { events, findings } = await readRun(join(directory, 'again'), 'again');
  expect(findings).toEqual([]);
  const spans = events.filter(({ kind }) => kind === 'span');
  expect(spans.map(({ name, lane, state }) => [name, lane, state])).toEqual([
    ...[0, 1].map(() => ['again', 'main', 'whole']),
    ['in the outer one', 'main', 'whole'],
    ['again', 'main', 'whole'],
    ['again', 'other', 'whole'],
    ['behind all', 'main', 'whole'],
  ]);
});

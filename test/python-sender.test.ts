// The thread of the Python client that sends: when it wakes, what becomes of batches that cannot be made, and of threads that ended.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

/** Runs a program that records into a folder of its own, `sys.argv[2]`; gives its output and that folder. */
function recorded(program: string): { readonly printed: string; readonly folder: string } {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-sender-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const begin = 'import json, sys, time, zlib\nsys.path.insert(0, sys.argv[1])\nimport ranktrace as r\n';
  const line = ['-I', '-c', begin + program, join(repository, 'clients/python'), folder];
  return { printed: execFileSync(process.env.PYTHON_BIN ?? 'python3', line, { encoding: 'utf8', stdio: 'pipe' }), folder };
}

test('a rank is heard, with its place, each second, however long its events wait for their batch', async () => {
  const { printed, folder } = recorded(`
sent = []
ship = r._Sender._ship
def shipped(self, data, id, is_last):
    sent.append(r._unpack(data)[0])
    ship(self, data, id, is_last)
r._Sender._ship = shipped
# A program that records more while it waits than the queue takes at once.
r._EVENTS_MAX = 3000
prof = r.profile(run="beats", directory=sys.argv[2], flush_interval_ms=60000).start()
for number in range(300):
    for _ in range(10):
        with r.record_function("forward"):
            pass
    time.sleep(0.02)
    prof.step()
until = time.monotonic() + 60
while len(sent) < 5 and time.monotonic() < until:
    time.sleep(0.1)
beats = sent[:5]
prof.stop()
has_place = [b"ranktrace.running" in zlib.decompress(one["body"], -15) for one in beats]
print(json.dumps([[one["sequence"], one["watermark"] == beats[0]["watermark"]] for one in beats]), any(has_place[1:]))
`);
  expect(printed).toBe('[[0, true], [1, true], [2, true], [3, true], [4, true]] True\n');
  const { events, findings } = await readRun(folder, 'beats');
  expect(findings).toEqual([]);
  expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(300);
  expect(events.filter(({ name }) => name === 'forward')).toHaveLength(3000);
});

test.each([
  ['a program that records nothing for a while', 200, ''],
  ['events that wait for their batch', 60_000, 'prof.step()'],
])('the thread sleeps beside %s', (_, interval, between) => {
  const { printed } = recorded(`
turns = 0
turn = r._Sender._turn
def counted(self):
    global turns
    turns += 1
    turn(self)
r._Sender._turn = counted
prof = r.profile(run="sleeps", directory=sys.argv[2], flush_interval_ms=${interval}).start()
for _ in range(10):
    time.sleep(0.3)
    ${between || 'pass'}
print(turns)
prof.stop()
`);
  expect(Number(printed)).toBeLessThan(100);
});

test('many long facts come in several batches, and none is lost', async () => {
  const { printed, folder } = recorded(`
import base64, os
prof = r.profile(run="facts", directory=sys.argv[2]).start()
for number in range(3):
    for fact in range(500):
        prof.add_metadata(f"fact {number} {fact}", base64.b64encode(os.urandom(3000)).decode())
    prof.step()
prof.stop()
print(prof._dropped_events)
`);
  expect(printed).toBe('0\n');
  const { events, findings, processes } = await readRun(folder, 'facts');
  expect(findings).toEqual([]);
  expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(3);
  expect([...(processes[0]?.metadata.values() ?? [])].filter((value) => value.length === 4000)).toHaveLength(1500);
});

test('a batch that cannot be made is counted with its events, and another ends the rank in its stead', async () => {
  const { printed, folder } = recorded(`
encode = r.encode_body
def encoded(strings, tables):
    if "steps" in tables:
        raise ValueError("no such value")
    return encode(strings, tables)
r.encode_body = encoded
said = []
r._notice = said.append
prof = r.profile(run="stead", directory=sys.argv[2], flush_interval_ms=60000, sample_interval_ms=0).start()
with r.record_function("forward"):
    prof.step()
prof.counter("loss", 1)
prof.stop()
print(json.dumps(said))
`);
  const [lost] = JSON.parse(printed) as string[];
  expect(lost).toBe('a batch cannot be encoded and is lost: ValueError: no such value');
  const { events, findings } = await readRun(folder, 'stead');
  expect(events).toEqual([]);
  expect(findings).toEqual([
    'rank 0: 3 events dropped because the ring or another bound was full, or a value was of the wrong type',
    'rank 0: 1 batches dropped because the spool or its disk was full, or they were refused',
  ]);
});

test('threads that ended make room for others: the bound is of those at once', async () => {
  const { printed, folder } = recorded(`
import threading
r._THREADS_MAX = 20
prof = r.profile(run="threads", directory=sys.argv[2], sample_interval_ms=0).start()
def work():
    with r.record_function("work"):
        pass
until = time.monotonic() + 60
for _ in range(6):
    for _ in range(10):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    while len(prof._threads) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    prof.step()
prof.stop()
print(prof._dropped_events)
`);
  expect(printed).toBe('0\n');
  const { events, findings } = await readRun(folder, 'threads');
  expect(findings).toEqual([]);
  const lanes = events.filter(({ name }) => name === 'work').map(({ lane }) => lane);
  expect(new Set(lanes).size).toBe(60);
});

test.each(['ws', 'nats'])('what a program recorded that ends while its server at %s answers nothing is in the spool', async (scheme) => {
  const { folder } = recorded(`
import socket
silent = socket.socket()
silent.bind(("127.0.0.1", 0))
silent.listen(8)
url = f"${scheme}://127.0.0.1:{silent.getsockname()[1]}"
prof = r.profile(run="silent", url=url, spool_directory=sys.argv[2], exit_deadline_ms=100).start()
for number in range(5):
    time.sleep(0.01)
    prof.step()
prof.stop()
`);
  const { events } = await readRun(folder, 'silent');
  expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(5);
});

test('a text that is too long is counted as cut', async () => {
  const { folder } = recorded(`
prof = r.profile(run="cut", directory=sys.argv[2], sample_interval_ms=0).start()
prof.add_metadata("config", "é" * 2049)
prof.add_metadata("fits", "é" * 2048)
with r.record_function("forward", {"prompt": "y" * 5000}):
    pass
prof.step()
prof.stop()
`);
  const { findings, processes } = await readRun(folder, 'cut');
  expect(findings).toEqual(['rank 0: 2 arguments cut by a limit, or left out for an invalid value']);
  expect(processes[0]?.metadata.get('config')).toBe(processes[0]?.metadata.get('fits'));
});

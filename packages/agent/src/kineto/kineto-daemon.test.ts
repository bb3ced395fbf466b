// The daemon's side of Kineto's interface, over real sockets of real processes: Python is the client, as no Node program has such a socket of its own.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { agentLimits as limits } from '../model/limits.ts';
import { needsRoot } from '../testing/needs-root.ts';
import { type AskingProcess, KinetoDaemon } from './kineto-daemon.ts';
import { addressOf, daemonAddress } from './socket-address.ts';

const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (let close = opened.pop(); close !== undefined; close = opened.pop()) await close();
});

const program = `
import os, socket, struct, sys
server = sys.argv[1].replace('@', chr(0))
client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
client.bind(chr(0) + 'test-client-%d' % os.getpid() + chr(0))
client.settimeout(20)
def frame(name, payload, size=None): return struct.pack('<Q32s', len(payload) if size is None else size, name) + payload
def ask(pid, kinds=3): return frame(b'req', struct.pack('<iiq', kinds, 2, 0) + struct.pack('<ii', pid, os.getppid()))
def answer():
    print(client.recv(65536)[40:].decode(), flush=True)
send = lambda datagram: client.sendto(datagram, server)
`;

/** Lines that a Python client prints. */
async function client(server: string, body: string): Promise<readonly string[]> {
  const child: ChildProcess = spawn('python3', ['-c', program + body, server], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout?.on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  expect(code).toBe(0);
  return text.trim().split('\n');
}

async function daemon(address: Uint8Array, work: (asking: AskingProcess) => string) {
  const notices: string[] = [];
  const started = await KinetoDaemon.open({ address, work, notice: (line) => notices.push(line) });
  opened.push(() => started.close());
  return { started, notices };
}

const abstractName = `@ranktrace-test-${process.pid}`;
const abstract = addressOf(`${abstractName.replace('@', '\0')}\0`);

it('answers a process at once with what it is to do, by abstract name', async () => {
  const asked: AskingProcess[] = [];
  await daemon(abstract, (asking) => {
    asked.push(asking);
    return `FOR=${asking.pid}`;
  });
  const [printed, again] = await client(`${abstractName}@`, 'send(ask(os.getpid())); answer(); send(ask(os.getpid(), 1)); answer()');
  const [first, second] = asked as [AskingProcess, AskingProcess];
  expect([printed, again]).toEqual([`FOR=${first.pid}`, `FOR=${first.pid}`]);
  expect(first).toEqual({ pid: first.pid, uid: process.getuid?.(), ownPid: first.pid, takesActivities: true });
  expect(second.takesActivities).toBe(false);
});

it('answers by path, too, and takes the path over that a killed one left', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-kineto-'));
  opened.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'dynolog');
  await client(path, 'left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); left.bind(server); print()');
  await daemon(daemonAddress(folder), () => 'WORK=1');
  expect(await client(path, 'send(ask(os.getpid())); answer()')).toEqual(['WORK=1']);
  await expect(KinetoDaemon.open({ address: daemonAddress(folder), work: () => '', notice: () => {} })).rejects.toMatchObject({
    code: 'name_taken',
  });
});

it.each(['a file', 'a folder'])('leaves %s alone that has the name of its socket', async (kind) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-kineto-'));
  opened.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'dynolog');
  if (kind === 'a file') writeFileSync(path, 'a program');
  else mkdirSync(path);
  await expect(KinetoDaemon.open({ address: daemonAddress(folder), work: () => '', notice: () => {} })).rejects.toMatchObject({
    code: 'socket_failed',
    message: `Cannot name ${path} a Unix socket: something else has the name`,
  });
  expect(kind === 'a file' ? readFileSync(path, 'utf8') : readdirSync(path)).toHaveLength(kind === 'a file' ? 9 : 0);
});

it('keeps no descriptors that a datagram brings', async () => {
  await daemon(abstract, () => 'WORK=1');
  const before = readdirSync('/proc/self/fd').length;
  const bringing = `
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack('<16i', *[0] * 16))]
for number in range(8):
    client.sendmsg([ask(os.getpid())], rights, 0, server)
    answer()`;
  expect(await client(`${abstractName}@`, bringing)).toEqual(Array.from({ length: 8 }, () => 'WORK=1'));
  expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + 16);
});

it("root's answers ranks of other users by path, too", async (context) => {
  needsRoot(context);
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-kineto-'));
  opened.push(() => rmSync(folder, { recursive: true }));
  chmodSync(folder, 0o1777);
  const asked: AskingProcess[] = [];
  await daemon(daemonAddress(folder), (asking) => {
    asked.push(asking);
    return 'WORK=1';
  });
  const other = `
os.setuid(54321)
client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
client.bind(os.path.dirname(server) + '/client')
client.settimeout(20)
send(ask(os.getpid())); answer()`;
  expect(await client(join(folder, 'dynolog'), other)).toEqual(['WORK=1']);
  expect(asked).toEqual([expect.objectContaining({ uid: 54321 })]);
});

it('says who holds the name, and what to do', async () => {
  await daemon(abstract, () => '');
  const second = KinetoDaemon.open({ address: abstract, work: () => '', notice: () => {} });
  await expect(second).rejects.toThrow(/another process holds it, such as dynolog.*--socket-dir/);
});

it('answers nobody in the name of another process, counts what is malformed, and says so in one line', async () => {
  const { started, notices } = await daemon(abstract, ({ pid }) => `FOR=${pid}`);
  const printed = await client(
    `${abstractName}@`,
    `
send(ask(1)); send(ask(os.getppid()))
send(b''); send(b'x' * 39); send(frame(b'req', b'')); send(frame(b'req', b'x' * 16, 2**64 - 1)); send(b'y' * 60000)
send(frame(b'req', struct.pack('<iiq', 3, 2**31 - 1, 0)))
send(ask(os.getpid())); answer()
`,
  );
  expect(printed).toHaveLength(1);
  expect(printed[0]).toMatch(/^FOR=\d+$/);
  expect(started.refused).toEqual({ malformed: 6, forged: 2, tooMany: 0 });
  expect(notices).toHaveLength(1);
});

it('survives a million datagrams: reads them no faster than it may, and answers another process meanwhile', async () => {
  const { started, notices } = await daemon(abstract, ({ pid }) => `FOR=${pid}`);
  const begun = performance.now();
  const flood = client(
    `${abstractName}@`,
    `
client.setblocking(False)
full = 0
mine = ask(os.getpid())
for number in range(1000000):
    try: send(mine)
    except BlockingIOError: full += 1
print(full)
`,
  );
  // Kineto tries again, too, while the queue of the socket is full.
  const other = await client(
    `${abstractName}@`,
    `
client.settimeout(0.5)
while True:
    try:
        send(ask(os.getpid()))
        answer()
        break
    except (TimeoutError, BlockingIOError): pass
`,
  );
  expect(other[0]).toMatch(/^FOR=\d+$/);
  const [full] = await flood;
  const elapsedMs = performance.now() - begun;
  // Two processes, each in every window of time; and so many datagrams a turn, beside those that the socket holds.
  expect(started.answered).toBeLessThanOrEqual(2 * limits.processRequestsMax * (Math.floor(elapsedMs / limits.processWindowMs) + 2));
  expect(1_000_000 - Number(full)).toBeLessThanOrEqual((elapsedMs / limits.turnPauseMs + 2) * limits.datagramsPerTurn + 2000);
  expect(started.refused.tooMany).toBeGreaterThan(0);
  expect(notices.length).toBeGreaterThan(0);
});

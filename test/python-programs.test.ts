// `python -m ranktrace PROGRAM` runs a program as `python PROGRAM` does, whatever the options of the recording, and records into the folder of its start.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeIssuer } from '../packages/aggregator/src/testing/certificates.ts';
import { repository } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

type Run = (args: readonly string[], environment?: Readonly<Record<string, string>>) => Ended;

/** A folder with a program in it, where Python is run. */
function programOf(source: string): { readonly folder: string; readonly run: Run } {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-programs-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'train.py'), source);
  const run: Run = (args, environment = {}) => {
    const env = { ...process.env, PYTHONPATH: join(repository, 'clients/python'), ...environment };
    const { status, stdout, stderr } = spawnSync(process.env.PYTHON_BIN ?? 'python3', args, {
      cwd: folder,
      env,
      encoding: 'utf8',
      timeout: 120_000,
    });
    return { status, stdout, stderr };
  };
  return { folder, run };
}

const recorded = ['-m', 'ranktrace', 'train.py', 'argument'] as const;

test('a program finds itself as it is without a recording: its file, arguments, main module and source', () => {
  const { run } = programOf(`import inspect, pickle, sys, __main__
class Own: pass
print(__file__, __main__.__file__, sys.argv, sys.path[0], __name__, __spec__, __package__, __doc__, __loader__.__class__.__name__)
print(sys.modules["__main__"].__dict__ is globals(), pickle.loads(pickle.dumps(Own())).__class__, inspect.getsource(Own))
`);
  const bare = run(['train.py', 'argument']);
  expect(bare).toMatchObject({ status: 0, stderr: '' });
  expect(run(recorded)).toMatchObject({ status: 0, stdout: bare.stdout });
});

test.each([
  [['nofile.py'], 'ranktrace: cannot open "nofile.py": No such file or directory\n'],
  [['-u', 'train.py'], 'ranktrace: unknown option -u: python -m ranktrace --help lists them; options of Python stand before -m\n'],
  [['--run', 'a b', 'train.py'], 'ranktrace: Bad option run: it must be 1 to 64 letters, digits, "_" or "-", got \'a b\'\n'],
] as const)('a command that names no program, or is wrong itself, is one line: %j', (args, stderr) => {
  const { run } = programOf('print("trains")');
  expect(run(['-m', 'ranktrace', ...args])).toEqual({ status: 2, stdout: '', stderr });
});

test.each([
  [{ RANKTRACE_RANK: '9' }, 'Bad variable RANKTRACE_RANK 9: it must be below the world size, 1'],
  [{ RANK: '3', WORLD_SIZE: '2' }, 'Bad variable RANK 3: it must be below the world size, 2'],
  [{ RANKTRACE_FIRST_STEP: '-1' }, "Bad variable RANKTRACE_FIRST_STEP: it must be an integer from 0 to 1073741823, got '-1'"],
  [{ RANKTRACE_TOKEN: 'a\r\nX-Injected: 1' }, 'Bad variable RANKTRACE_TOKEN: it must be printable ASCII text'],
  [{ RANKTRACE_PHASE_ROLES: 'zz' }, /^Bad variable RANKTRACE_PHASE_ROLES: it must be names of phases with one of work, /],
  [{ RANKTRACE_URL: 'http://head' }, /^Bad variable RANKTRACE_URL: it must be ws:/],
  [{ RANKTRACE_URL: 'ws://head:99999' }, /^Bad variable RANKTRACE_URL: its port must be an integer from 1 to 65535$/],
] as const)('a wrong variable is one line, and the program trains unrecorded: %j', (environment, why) => {
  const { run } = programOf('import sys\nprint("trains")\nsys.exit(5)');
  const { status, stdout, stderr } = run(recorded, environment);
  const [line, ...more] = stderr.split('\n');
  expect({ status, stdout, more }).toEqual({ status: 5, stdout: 'trains\n', more: [''] });
  expect(line?.slice('ranktrace: this program is not recorded: '.length)).toMatch(why);
});

test.each([
  [`phase_roles="x"`, /^Bad option phase_roles: it must be names of phases with one of work, /],
  [`phase_roles={"x": "idle"}`, /^Bad option phase_roles: it must be names of phases with one of work, /],
  [`phase_roles=["x"]`, /^Bad option phase_roles: it must be names of phases with one of work, /],
  [`token="a\\r\\nX-Injected: 1"`, 'Bad option token: it must be printable ASCII text'],
  ['url="ws://head:abc"', 'Bad option url: its port must be an integer from 1 to 65535'],
  ['url="ws://head:0"', 'Bad option url: its port must be an integer from 1 to 65535'],
  ['url="ws://[::1"', 'Bad option url: it must be ws://HOST:PORT'],
  ['nats_servers="nats://a:4222,nats://me:secret@b:70000"', 'Bad option nats_servers: its port must be an integer from 1 to 65535'],
  ['directory=5', "Bad option directory: it must be a path, got '5'"],
  [`phase_roles="a=data, b=wait"`, '{"a": "data", "b": "wait"}'],
  ['directory=pathlib.Path("out")', '{}'],
])('an option of the wrong kind raises ValueError, and nothing else: %s', (option, said) => {
  const { run } = programOf(`import json, pathlib, ranktrace
try:
    print(json.dumps(ranktrace.profile(${option})._options.phase_roles))
except ValueError as error:
    print(error)
`);
  const { status, stdout, stderr } = run(['train.py']);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout.trimEnd()).toMatch(said);
});

test.each([{ RANKTRACE_DIRECTORY: 'out' }, {}])(
  'a program that changes its folder first is recorded in that of its start: %j',
  async (environment) => {
    const { folder, run } = programOf(`import os, ranktrace
os.mkdir("elsewhere")
os.chdir("elsewhere")
for _ in range(3):
    ranktrace.step()
`);
    expect(run(recorded, { RANKTRACE_RUN: 'moved', ...environment })).toMatchObject({ status: 0, stderr: '' });
    const { events } = await readRun(join(folder, environment.RANKTRACE_DIRECTORY ?? 'ranktrace-out', 'moved'), 'moved');
    expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(3);
  },
);

test('a module is noticed when it is loaded, also one that was looked for before, or that a finder of an editable installation finds', () => {
  const { folder, run } = programOf(`import importlib.util, sys, ranktrace
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, "edited.txt.py") if name == "edited" else None
sys.meta_path.append(Editable)
for name in ("edited", "edited", "beside"):
    ranktrace._after_import(name, lambda module: print("loaded", module.__name__, module.value))
print(importlib.util.find_spec("beside") is not None, importlib.util.find_spec("absent"))
import edited, beside
print(any(isinstance(one, ranktrace._AfterImport) for one in sys.meta_path))
`);
  writeFileSync(join(folder, 'edited.txt.py'), 'value = 1');
  writeFileSync(join(folder, 'beside.py'), 'value = 2');
  const stdout = 'True None\nloaded edited 1\nloaded edited 1\nloaded beside 2\nFalse\n';
  expect(run(['train.py'])).toEqual({ status: 0, stdout, stderr: '' });
});

test('a url leads to where a service takes batches, with its path or without, also behind a proxy', () => {
  const { run } = programOf(`import os, socket, threading, ranktrace
server = socket.create_server(("127.0.0.1", 0))
def answer():
    while True:
        peer, _ = server.accept()
        print(peer.recv(1000).decode().split()[1], flush=True)
        peer.close()
threading.Thread(target=answer, daemon=True).start()
for path in ["", "/", "/v1/ingest", "/v1/ingest/", "/job/", "/job/v1/ingest"]:
    url = f"ws://127.0.0.1:{server.getsockname()[1]}{path}"
    try:
        ranktrace._WebSocket(ranktrace.profile(url=url)._options, os.pipe()[0]).connect()
    except ranktrace._Down:
        pass
`);
  const { status, stdout, stderr } = run(['train.py']);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout.trim().split('\n')).toEqual([...Array(4).fill('/v1/ingest'), ...Array(2).fill('/job/v1/ingest')]);
});

test('a TLS connection that fails says why: the certificate, its host, a file, or that there is no TLS', () => {
  const { folder, run } = programOf(`import os, socket, ssl, sys, threading, ranktrace
def serve(address, secure):
    server = socket.create_server((address, 0))
    def answer():
        while True:
            peer, _ = server.accept()
            try:
                if secure:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain("server.pem", "server.key")
                    context.wrap_socket(peer, server_side=True).close()
                else:
                    peer.recv(100)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n")
                    peer.close()
            except OSError:
                pass
    threading.Thread(target=answer, daemon=True).start()
    return f"wss://{address}:{server.getsockname()[1]}"
def connect(url, **options):
    try:
        ranktrace._WebSocket(ranktrace.profile(url=url, **options)._options, os.pipe()[0]).connect()
    except ranktrace._Down as error:
        print(error)
plain, own, other = serve("127.0.0.1", False), serve("127.0.0.1", True), serve("127.0.0.2", True)
connect(plain)
connect(own)
connect(other, nats_tls_ca="ca.pem")
connect(own, nats_tls_ca="nowhere.pem")
connect(own, nats_tls_ca="ca.pem", nats_tls_cert="server.pem", nats_tls_key="train.py")
connect(own, nats_tls_ca="ca.pem")
`);
  makeIssuer(folder).certificate('server');
  const { status, stdout, stderr } = run(['train.py']);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^the server does not speak TLS \(\w+\)$/),
    expect.stringMatching(
      /^the certificate is not trusted \(unable to get .*\): set SSL_CERT_FILE or RANKTRACE_NATS_TLS_CA to the file of its issuer$/,
    ),
    expect.stringMatching(
      /^the certificate is one of another host \(IP address mismatch, .*\): name a host of the certificate in the URL$/,
    ),
    expect.stringMatching(/^TLS file ".*nowhere.pem" cannot be used: No such file or directory$/),
    expect.stringMatching(/^TLS file ".*server.pem, .*train.py" cannot be used: /),
    expect.stringMatching(/^connection /),
  ]);
});

test('a window of PyTorch’s profiler stays where it is if the thread that sends has ended', () => {
  const { run } = programOf(`import io, json, os, sys, time, ranktrace
os.mkdir("window")
with open("window/window.json", "w") as file:
    json.dump({"baseTimeNanoseconds": time.time_ns(), "traceEvents": [{"ph": "X", "name": "op", "ts": number, "dur": 1, "pid": 1, "tid": 1} for number in range(20)]}, file)
ranktrace._EVENTS_MAX = 10
ranktrace._Sender.run = lambda self: None
sys.stdin = io.StringIO(json.dumps({"run": "window", "directory": "out", "beside": os.getpid()}))
print(ranktrace._ship_window("window/window.json"), os.listdir("window"))
`);
  const stderr = 'ranktrace: a window of PyTorch\'s profiler cannot be shipped, and stays in "window/window.json"\n';
  expect(run(['train.py'])).toEqual({ status: 0, stdout: "1 ['window.json']\n", stderr });
});

test('steps that the program counts itself begin with RANKTRACE_FIRST_STEP', async () => {
  const { folder, run } = programOf('import ranktrace\nfor _ in range(3):\n    ranktrace.step()\n');
  expect(run(recorded, { RANKTRACE_RUN: 'later', RANKTRACE_FIRST_STEP: '500' })).toMatchObject({ status: 0, stderr: '' });
  const { events } = await readRun(join(folder, 'ranktrace-out/later'), 'later');
  expect(events.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual([500, 501, 502]);
});

test('a decorated coroutine function is recorded until its end, also where several run at a time', async () => {
  const { folder, run } = programOf(`import asyncio, inspect, ranktrace
@ranktrace.record_function("load")
async def load(number):
    await asyncio.sleep(0.02)
    if number == 2:
        raise KeyError(number)
    return number
async def main():
    print(await load(0), await asyncio.gather(load(1), load(2), return_exceptions=True), inspect.iscoroutinefunction(load))
with ranktrace.profile(run="awaits", directory="out"):
    asyncio.run(main())
`);
  expect(run(['train.py'])).toEqual({ status: 0, stdout: '0 [1, KeyError(2)] True\n', stderr: '' });
  const { events } = await readRun(join(folder, 'out/awaits'), 'awaits');
  const loads = events.filter(({ name }) => name === 'load');
  expect(loads.map(({ length }) => length >= 19e6)).toEqual([true, true, true]);
});

# A rank as Kineto is one, with the standard library alone: asks the daemon for work, and writes a torch.profiler file for a window.
#
#   MODE   normal      asks, records, writes
#          late        asks only after LATE_S seconds
#          silent      never asks
#          once        asks at its start alone, with ASK_S of an hour
#          killed      dies in the midst of the window
#          cut         writes half of its file and ends
#          link        puts a link to a file of the user's where its file should be
#          huge        writes a file that is larger than any trace
#
#   LOG=DIR   it writes a file into that folder at its start, as torch.profiler's handler does
#   STEPS=1   it sends steps of its own, too, through clients/python; SIGTERM ends it in good order
#
# It asks every ASK_S seconds; Kineto does every 5.
# Collectives end at the same true moments on all ranks; each rank's window ends a few collectives earlier than the one before, as windows of time do.

import json, os, signal, socket, struct, sys, threading, time, uuid

rank = int(os.environ['RANK'])
mode = os.environ.get('MODE', 'normal')
folder = os.environ.get('KINETO_IPC_SOCKET_DIR')
daemon = f'{folder}/dynolog' if folder else '\0dynolog\0'
period_ns = 20_000_000

client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name = f'dynoconfigclient{uuid.uuid4()}'
client.bind(f'{folder}/{name}' if folder else f'\0{name}\0')
client.settimeout(0.09)


def ask():
    pids = [os.getpid(), os.getppid()]
    payload = struct.pack('<iiq', 3, len(pids), 0) + struct.pack(f'<{len(pids)}i', *pids)
    try:
        client.sendto(struct.pack('<Q32s', len(payload), b'req') + payload, daemon)
        return client.recv(65536)[40:].decode()
    except OSError:
        return None


def events(start_ns, end_ns):
    base = start_ns - start_ns % 1_000_000_000
    us = lambda ns: (ns - base) / 1000
    common = {'ph': 'X', 'pid': os.getpid()}
    first = start_ns - start_ns % period_ns + 2 * period_ns
    last = end_ns - (1 + 2 * rank) * period_ns
    found = []
    for index, at in enumerate(range(first, last, period_ns)):
        # The later the rank enters, the more of it is in its own work; all leave 0.1 ms after the last one entered.
        entered = at - 4_000_000 + rank * 1_000_000
        op = {'cat': 'cpu_op', 'name': 'aten::mm', 'tid': os.getpid(), 'ts': us(at - 15_000_000), 'dur': 9000.0}
        work = {'cat': 'user_annotation', 'name': 'gloo:all_reduce', 'tid': os.getpid() + 1, 'ts': us(entered), 'dur': (at + 100_000 - entered) / 1000}
        found += [{**common, **op, 'args': {'External id': 2 * index + 1}}, {**common, **work, 'args': {'External id': 2 * index + 2}}]
    return {'schemaVersion': 1, 'host_name': socket.gethostname(), 'displayTimeUnit': 'ms', 'baseTimeNanoseconds': base, 'traceEvents': found}


def write(path, text):
    with open(path, 'w') as file:
        file.write(text)


def record(config):
    values = dict(line.split('=', 1) for line in config.splitlines() if '=' in line)
    start_ns = int(values['PROFILE_START_TIME']) * 1_000_000
    end_ns = start_ns + int(values['ACTIVITIES_DURATION_MSECS']) * 1_000_000
    root, extension = os.path.splitext(values['ACTIVITIES_LOG_FILE'])
    path = f'{root}_{os.getpid()}{extension}'
    print('asked', flush=True)
    time.sleep(max(0, (start_ns + end_ns) / 2e9 - time.time()))
    if mode == 'killed':
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(max(0, end_ns / 1e9 - time.time()))
    text = json.dumps(events(start_ns, end_ns))
    if mode == 'link':
        write(f'{root}-elsewhere', text)
        os.symlink(f'{root}-elsewhere', path)
    elif mode == 'huge':
        write(path, text)
        os.truncate(path, 600 * 1024 * 1024)
    elif mode == 'cut':
        write(path, text[: len(text) // 2])
        sys.exit(1)
    else:
        write(path, text)
    print('written', flush=True)


def train():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../clients/python'))
    import ranktrace
    with ranktrace.profile() as prof:
        while not ended.is_set():
            with ranktrace.record_function('forward'):
                ended.wait(0.02)
            prof.step()


ended = threading.Event()
trainer = threading.Thread(target=train)
if os.environ.get('STEPS'):
    def end(*_):
        ended.set()
        trainer.join()
        os._exit(0)
    signal.signal(signal.SIGTERM, end)
    trainer.start()
if os.environ.get('LOG'):
    now = time.time_ns()
    write(f"{os.environ['LOG']}/{socket.gethostname()}_{os.getpid()}.{now}.pt.trace.json", json.dumps(events(now - 2_000_000_000, now)))
started = time.time()
print('started', flush=True)
while True:
    waits = mode == 'silent' or (mode == 'late' and time.time() - started < float(os.environ.get('LATE_S', '60')))
    config = '' if waits else ask()
    if mode == 'once':
        if config is None:
            # A starved agent answers late: it may not have it.
            time.sleep(0.2)
            continue
        print('has asked', flush=True)
    if config:
        record(config)
    time.sleep(float(os.environ.get('ASK_S', '0.5')))

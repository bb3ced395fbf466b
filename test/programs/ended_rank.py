"""A rank that is ended in its 21st step, by a signal or an error. FOLDER WHERE: where its main thread is then, and what the program has to do with signals."""

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import ranktrace

folder, where = sys.argv[1:]
prof = ranktrace.profile(run="ended", rank=0, directory=folder).start()
for _ in range(20):
    time.sleep(0.002)
    prof.step()


def say(text):
    # Not `print`: a signal's handler says something, too, in the midst of another one.
    os.write(1, f"{text}\n".encode())


def wait():
    while True:
        time.sleep(3600)


def stay_in_c(then=lambda: say("ready")):
    # A mutex that its own thread holds: nothing interrupts this wait.
    mutex = ctypes.create_string_buffer(64)
    library = ctypes.CDLL(None)
    library.pthread_mutex_lock(mutex)
    threading.Timer(0.2, then).start()
    library.pthread_mutex_lock(mutex)


def handle(number, frame):
    before(number, frame) if callable(before) else say(f"had {before!r}")
    say(f"has {signal.getsignal(number)!r}"[:16])
    sys.exit(3)


if where == "raises":
    raise ValueError("bad batch\nand more")
elif where == "raises-within":
    with prof:
        raise ValueError("bad batch")
elif where.startswith("exits-within-"):
    with prof:
        code = where.split("-")[-1]
        sys.exit(int(code) if code.isdigit() else code)
elif where == "c":
    stay_in_c()
elif where == "survived":
    try:
        os.kill(os.getpid(), signal.SIGINT)
        wait()
    except KeyboardInterrupt:
        # The thread that sends reads the signal, too.
        while prof._interrupted is None:
            time.sleep(0.01)
    prof.step()
    say("ready")
    wait()
elif where == "python":
    say("ready")
    wait()
elif where == "handler":
    before = signal.signal(signal.SIGTERM, handle)
    say("ready")
    wait()
elif where == "handler-restored-c":
    # As libraries do that take the signal for some time.
    before = signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGTERM, before)
    stay_in_c()
elif where == "stopped-c":
    prof.stop()
    stay_in_c()
elif where == "ignored":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("ready")
    time.sleep(2)
    say("alive")
elif where == "loop":

    async def run():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: ended.set())
        ended = asyncio.Event()
        say("ready")
        await ended.wait()
        say("asked")

    asyncio.run(run())
elif where == "child":
    is_ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        stay_in_c(lambda: (say("ready"), os.write(tell, b"!")))
        os._exit(0)
    os.read(is_ready, 1)
    os.kill(child, signal.SIGTERM)
    say(f"child {os.waitpid(child, 0)[1]}")
    time.sleep(2)
    prof.step()

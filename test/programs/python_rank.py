"""A rank that trains with Python: STEPS steps of "data", "forward" and an all-reduce. At KILL_AT it kills itself inside of "forward".
Half way it waits for the file UNTIL, if that is named: before "data", or where WAITS says. PROFILE: the profile's options, as JSON."""

import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import ranktrace

steps, kill_at = int(os.environ["STEPS"]), int(os.environ.get("KILL_AT", "-1"))
until, waits = os.environ.get("UNTIL"), os.environ.get("WAITS", "before data")


def wait(number, place):
    while until and place == waits and number == steps // 2 and not os.path.exists(until):
        time.sleep(0.01)


with ranktrace.profile(**json.loads(os.environ.get("PROFILE", "{}"))) as prof:
    prof.context(batch_size=32)
    for number in range(steps):
        wait(number, "before data")
        with ranktrace.record_function("data"):
            time.sleep(0.001)
        wait(number, "after data")
        with ranktrace.record_function("forward", {"number": number}):
            with ranktrace.record_function("layer"):
                time.sleep(0.005)
            wait(number, "in forward")
            if number == kill_at:
                # Until the span is announced: by the second flush from now, as the first may have begun before it.
                flushes = 0
                while flushes < 2:
                    before = prof._sender._flushed_ns
                    while prof._sender._flushed_ns == before:
                        time.sleep(0.01)
                    flushes += 1
                os.kill(os.getpid(), signal.SIGKILL)
        with ranktrace.collective("all_reduce", bytes=4096):
            time.sleep(0.001)
        prof.counter("loss", 1 / (number + 1))
        prof.step()

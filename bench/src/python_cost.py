"""Prints what the Python client takes of the training thread, ns: {"span", "step", "clocks", "torchSpan"} as JSON, each the best of five rounds.

`clocks`: two clock readings. `torchSpan`: PyTorch's own record_function, null without PyTorch.
"""

import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import ranktrace

calls = 10_000


def best(call):
    least = None
    for _ in range(5):
        before = time.perf_counter_ns()
        for _ in range(calls):
            call()
        spent = (time.perf_counter_ns() - before) / calls
        least = spent if least is None else min(least, spent)
    return least


def span_of(kind):
    def span():
        with kind("span"):
            pass

    return span


def clocks():
    time.monotonic_ns()
    time.monotonic_ns()


try:
    import torch

    torch_span = best(span_of(torch.profiler.record_function))
except ImportError:
    torch_span = None
with ranktrace.profile(directory=tempfile.mkdtemp(), run="cost") as prof:
    print(json.dumps({"span": best(span_of(ranktrace.record_function)), "step": best(prof.step), "clocks": best(clocks), "torchSpan": torch_span}))

"""Trains ten steps with torch.profiler, whose two windows of two steps ranktrace's handler ships."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import ranktrace
import torch

model = torch.nn.Linear(64, 64)
schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
with ranktrace.profile() as prof, torch.profiler.profile(schedule=schedule, on_trace_ready=ranktrace.trace_handler()) as profiler:
    for _ in range(10):
        with ranktrace.record_function("forward"):
            model(torch.randn(8, 64)).sum().backward()
        prof.step()
        profiler.step()

"""A rank that sleeps, with a worker process that wants the one CPU which three other programs keep busy. Usage: sampled_rank.py FOLDER"""

import multiprocessing
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import ranktrace


def work():
    while True:
        pass


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    others = [subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(3)]
    worker = multiprocessing.get_context("spawn").Process(target=work, daemon=True)
    try:
        with ranktrace.profile(run="sampled", directory=sys.argv[1], sample_interval_ms=100) as prof:
            worker.start()
            for _ in range(20):
                time.sleep(0.2)
                prof.step()
    finally:
        for other in others:
            other.kill()
        worker.kill()

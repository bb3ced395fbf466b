"""Training by four processes of DistributedDataParallel over gloo, once per fault: python3 make_ddp_4rank.py DIRECTORY (torch 2.13)."""

import gzip
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function, schedule

WORLD = 4
FIRST, LAST = 4, 15
# What each phase takes besides its ops, ms.
SPENT = {"data_load": 4, "forward": 4, "backward": 4, "optimizer": 2, "loss_allreduce": 0}
FAULTS = {
    "balanced": [],
    "rank1_forward": [{"rank": 1, "phase": "forward", "ms": 9}],
    "rank2_data_load": [{"rank": 2, "phase": "data_load", "ms": 12}],
}
NOTE = "fault: every listed rank sleeps ms inside that record_function phase; CPU, gloo; all ranks on one host, one clock"


def train(rank, port, directory, faults):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def work(phase):
        more = sum(fault["ms"] for fault in faults if fault["rank"] == rank and fault["phase"] == phase)
        time.sleep((SPENT[phase] + more) / 1000)

    steps = schedule(wait=FIRST - 1, warmup=1, active=LAST - FIRST + 1, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as prof:
        for _ in range(LAST + 1):
            with record_function("data_load"):
                inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
                work("data_load")
            with record_function("forward"):
                loss = functional.cross_entropy(model(inputs), labels)
                work("forward")
            with record_function("backward"):
                loss.backward()
                work("backward")
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
                work("optimizer")
            with record_function("loss_allreduce"):
                dist.all_reduce(loss.detach().clone())
            prof.step()
    plain = directory / f"rank{rank}.pt.trace.json"
    prof.export_chrome_trace(str(plain))
    plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    dist.destroy_process_group()


def main(directory):
    for index, (name, faults) in enumerate(FAULTS.items()):
        folder = directory / name
        folder.mkdir(parents=True, exist_ok=True)
        processes.spawn(train, args=(29_500 + index, folder, faults), nprocs=WORLD)
        truth = {"world": WORLD, "recorded_steps": [FIRST, LAST], "fault": faults, "note": NOTE}
        (folder / "truth.json").write_text(json.dumps(truth, indent=1))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

"""A job that makes its ranks itself. Usage: torch_spawned.py HOW PORT RANK

HOW: mp.spawn (after-batch, after-training: it has read a batch by then, or trained), spawn or fork (processes of its own), else it is this rank of two.
"""

import os
import sys

import torch
import torch.multiprocessing as mp

# As programs do: the names are bound before anything is recorded.
from torch.distributed import all_reduce, destroy_process_group, init_process_group
from torch.utils.data import DataLoader, TensorDataset

STEPS = 12


class Proxy:
    """Raises whatever it is asked for, as one of a web framework does outside of a request."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


request = Proxy()


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    init_process_group("gloo", rank=rank, world_size=2)
    fit(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64)))
    all_reduce(torch.ones(256))
    if os.environ.get("FAILS") == str(rank):
        raise ValueError("bad batch")
    destroy_process_group()


def fit(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for (batch,) in batches():
        module(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def batches():
    # Its worker is no rank.
    return DataLoader(TensorDataset(torch.randn(STEPS * 8, 64)), batch_size=8, num_workers=1)


if __name__ == "__main__":
    how, port = sys.argv[1:3]
    if how == "after-batch":
        next(iter(batches()))
    if how == "after-training":
        fit(torch.nn.Linear(64, 64))
    if how in ("mp.spawn", "after-batch", "after-training"):
        mp.spawn(train, args=(port,), nprocs=2)
    elif how not in ("spawn", "fork"):
        train(int(sys.argv[3]), port)
    else:
        processes = [mp.get_context(how).Process(target=train, args=(rank, port)) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        sys.exit(max(process.exitcode for process in processes))

"""Collectives that are waited for later, with gloo. Usage: torch_async.py STEPS SHAPE; the last rank sleeps 20 ms in the forward pass of each step.

SHAPE: gradients (each reduced by an asynchronous call, waited for in reverse order; one more is only polled), messages (each rank sends to the next one,
and receives from the one before, without waiting at once), tensors (tensor parallelism: waited for where a tensor is used)."""

import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

steps, shape = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, batch):
        return self.narrow(self.wide(batch).relu())


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()

    def forward(self, batch):
        found = self.first(batch)
        if rank == ranks - 1:
            time.sleep(0.02)
        return self.second(found)


model = Model()
if shape == "tensors":
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in (model.first, model.second):
        parallelize_module(layer, mesh, {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = torch.ones(1)


def exchange():
    if shape == "gradients":
        works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
        polled = dist.all_reduce(count, async_op=True)
        for work in reversed(works):
            work.wait()
            work.wait()
        while not polled.is_completed():
            time.sleep(0)
    elif shape == "messages":
        received = torch.empty_like(count)
        for work in (dist.isend(count, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)):
            work.wait()


for _ in range(steps):
    loss = model(torch.randn(16, 64)).square().mean()
    loss.backward()
    exchange()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()

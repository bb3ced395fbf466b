"""Collectives of a group that the last rank is not in, which calls them all the same, and of all ranks, with gloo. Usage: torch_groups.py STEPS."""

import sys
import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, ranks = dist.get_rank(), dist.get_world_size()
group = dist.new_group(range(ranks - 1))
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
some, all_of = torch.ones(10), torch.ones(10 * ranks)


def each():
    return [torch.ones(10) for _ in range(ranks)]


for _ in range(int(sys.argv[1])):
    layer(torch.randn(4, 8)).square().mean().backward()
    dist.all_reduce(torch.ones(100), dist.ReduceOp.SUM, group)
    dist.broadcast(torch.ones(100), 0, group=group)
    dist.barrier(group)
    dist.all_gather(each(), some)
    dist.all_gather(tensor_list=each(), tensor=some)
    dist.all_gather_into_tensor(all_of, some)
    dist.reduce_scatter(some, each())
    dist.reduce_scatter_tensor(output=some, input=all_of)
    dist.gather(some, each() if rank == 0 else None, dst=0)
    dist.scatter(some, each() if rank == 0 else None, src=0)
    dist.all_to_all_single(torch.ones(10 * ranks), all_of)
    dist.all_reduce(torch.ones(100))
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()

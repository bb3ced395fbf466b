# Makes the dumps beside it: torch 2.13, four gloo processes on one host.
#
#   TORCH_FR_BUFFER_SIZE=2000 torchrun --nproc-per-node 4 make_dumps.py DIRECTORY
#
# Ranks 0, 1 and 3 begin a fourth all_reduce, and rank 2 never does.

import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

dist.init_process_group("gloo")
rank = dist.get_rank()
tensor = torch.ones(4, 3)
pair = dist.new_group([0, 1])
for _ in range(3):
    dist.all_reduce(tensor)
if rank < 2:
    dist.broadcast(tensor, 0, group=pair)
if rank == 0:
    dist.send(tensor, 1)
if rank == 1:
    dist.recv(tensor, 0)
work = dist.all_reduce(tensor, async_op=True) if rank != 2 else None
time.sleep(2)
with open(os.path.join(sys.argv[1], f"nccl_trace_rank_{rank}"), "wb") as file:
    file.write(_dump_fr_trace(includeStackTraces=False))
with open(os.path.join(sys.argv[1], f"rank{rank}.json"), "wb") as file:
    file.write(_dump_fr_trace_json())
sys.stdout.flush()
os._exit(0)

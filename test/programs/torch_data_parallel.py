# Data-parallel training with gloo: two micro-batches a step, of which only the second reduces gradients, and the mean loss of all ranks.
#
#   argv: STEPS PLACE   the last rank sleeps 20 ms a step in PLACE: forward, backward, optimizer, after; none: nobody does
#
# At its end each rank prints for how long DistributedDataParallel itself says that it reduced gradients with nothing else left to do, ms by step.

import json, os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn

steps, place = int(sys.argv[1]), sys.argv[2]
is_slow = int(os.environ['RANK']) == int(os.environ['WORLD_SIZE']) - 1


def wait(where):
    if is_slow and where == place:
        time.sleep(0.02)


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, batch):
        return batch.clone()

    @staticmethod
    def backward(ctx, gradient):
        if model.require_backward_grad_sync:
            wait('backward')
        return gradient


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 128), nn.Linear(128, 8)

    def forward(self, batch):
        return self.last(Slow.apply(self.first(batch)))


torch.set_num_threads(1)
dist.init_process_group('gloo')
model = nn.parallel.DistributedDataParallel(Model())
model._set_ddp_runtime_logging_sample_rate(1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
reduced = []
for step in range(steps):
    with model.no_sync():
        model(torch.randn(16, 64)).square().mean().backward()
    loss = model(torch.randn(16, 64)).square().mean()
    wait('forward')
    loss.backward()
    model.logger.set_runtime_stats_and_log()
    said = model.logger._get_ddp_logging_data().ints_map
    reduced.append((said['backward_comm_time_end'] - said['backward_compute_time_end']) / 1e6)
    wait('optimizer')
    optimizer.step()
    optimizer.zero_grad()
    total = loss.detach().clone()
    dist.all_reduce(total)
    wait('after')
print(f'reduced {json.dumps(reduced)}', flush=True)
dist.destroy_process_group()

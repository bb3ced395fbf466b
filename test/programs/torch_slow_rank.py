# Data-parallel training with gloo in which each step takes 20 ms of waiting, so that its length is steady on any machine.
#
#   argv: STEPS SLOW_FROM   from that step on, rank 2 takes 20 ms more in its forward pass
#   HURRY=1                 without any waiting: the same weights, sooner
#
# At its end each rank prints a digest of its weights.

import hashlib, os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn

steps, slow_from = map(int, sys.argv[1:3])
rank = int(os.environ['RANK'])
hurries = os.environ.get('HURRY') == '1'


class Waiting(nn.Module):
    def forward(self, batch):
        if not hurries:
            time.sleep(0.02 + (0.02 if rank == 2 and step >= slow_from else 0))
        return batch


torch.set_num_threads(1)
dist.init_process_group('gloo')
torch.manual_seed(rank)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), Waiting(), nn.Linear(128, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print('training', flush=True)
for step in range(steps):
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
digest = hashlib.sha256(b''.join(parameter.detach().numpy().tobytes() for parameter in model.parameters())).hexdigest()
print(f'weights {digest}', flush=True)
dist.destroy_process_group()

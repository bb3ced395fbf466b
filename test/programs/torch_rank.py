# A training program of PyTorch that knows nothing of ranktrace: data-parallel on CPUs with gloo, or with ALONE=1 each rank by itself.

import os, time
import torch
import torch.distributed as dist
import torch.nn as nn

alone = os.environ.get('ALONE') == '1'
torch.set_num_threads(1)
torch.manual_seed(int(os.environ['RANK']))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
if not alone:
    dist.init_process_group('gloo')
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print('training', flush=True)
while True:
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.03)

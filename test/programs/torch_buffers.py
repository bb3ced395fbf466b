# Data-parallel training with gloo of a model with buffers: rank 0 broadcasts them to all ranks at the beginning of each forward pass.
#
#   argv: STEPS PLACE   rank 1 sleeps 20 ms a step in PLACE: data, before (between the batch and the model)

import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn

steps, place = int(sys.argv[1]), sys.argv[2]


def wait(where):
    if os.environ['RANK'] == '1' and where == place:
        time.sleep(0.02)


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return steps

    def __getitem__(self, index):
        wait('data')
        return torch.randn(16, 64)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 8))

    def forward(self, batch):
        time.sleep(0.006)
        return self.layers(batch)


torch.set_num_threads(1)
dist.init_process_group('gloo')
model = nn.parallel.DistributedDataParallel(Model())
optimizer = torch.optim.Adam(model.parameters())
for batch in torch.utils.data.DataLoader(Batches(), batch_size=None):
    wait('before')
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()

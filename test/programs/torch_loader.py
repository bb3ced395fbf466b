# Data-parallel training with gloo, whose batches come from a DataLoader with one worker that sleeps for each.
#
#   argv: STEPS MS…   ms that a batch takes, by rank

import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

steps = int(sys.argv[1])
length = float(sys.argv[2 + int(os.environ['RANK'])]) / 1000


class Batches(Dataset):
    def __len__(self):
        return steps

    def __getitem__(self, index):
        time.sleep(length)
        return torch.randn(16, 64)


if __name__ == '__main__':
    torch.set_num_threads(1)
    dist.init_process_group('gloo')
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Batches(), batch_size=None, num_workers=1):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()

"""A loop of PyTorch on a build for GPUs, whose device takes 20 ms to give a value: played on a CPU. It reads the loss between forward and backward, and after
the optimizer's step."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import torch

torch.version.cuda = "13.0"
read = torch.Tensor.item
torch.Tensor.item = lambda tensor: (time.sleep(0.02), read(tensor))[1]

import ranktrace

ranktrace.instrument_torch()
layer = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
with ranktrace.profile():
    for _ in range(6):
        loss = layer(torch.randn(4, 16)).square().mean()
        time.sleep(0.01)
        loss.item()
        time.sleep(0.005)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

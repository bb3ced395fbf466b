"""Trains STEPS batches with OPTIMIZER (a class of torch.optim), goes on from CHECKPOINT if there is one, and leaves one."""

import os

import torch

steps, checkpoint = int(os.environ["STEPS"]), os.environ["CHECKPOINT"]
layer = torch.nn.Linear(16, 1)
optimizer = getattr(torch.optim, os.environ["OPTIMIZER"])(layer.parameters(), lr=0.01)
if os.path.exists(checkpoint):
    optimizer.load_state_dict(torch.load(checkpoint))
for _ in range(steps):
    optimizer.zero_grad()
    layer(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
torch.save(optimizer.state_dict(), checkpoint)

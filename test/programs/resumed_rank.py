"""Trains STEPS batches with OPTIMIZER (a class of torch.optim), goes on from CHECKPOINT if there is one, and leaves one. LOADER: its batches come from a DataLoader."""

import os

import torch

steps, checkpoint = int(os.environ["STEPS"]), os.environ["CHECKPOINT"]
layer = torch.nn.Linear(16, 1)
optimizer = getattr(torch.optim, os.environ["OPTIMIZER"])(layer.parameters(), lr=0.01)
if os.path.exists(checkpoint):
    optimizer.load_state_dict(torch.load(checkpoint))
batches = torch.randn(steps, 8, 16)
for batch in torch.utils.data.DataLoader(batches, batch_size=None) if "LOADER" in os.environ else batches:
    optimizer.zero_grad()
    layer(batch).square().mean().backward()
    optimizer.step()
torch.save(optimizer.state_dict(), checkpoint)

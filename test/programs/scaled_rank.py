"""Trains STEPS batches with gradients that are scaled, as for float16; of every fifth they overflow, and the optimizer's step is left out."""

import os
import time

import torch

steps = int(os.environ["STEPS"])
layer = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
taken = []
optimizer.register_step_post_hook(lambda *_: taken.append(1))
for step in range(steps):
    optimizer.zero_grad()
    time.sleep(0.005)
    loss = layer(torch.randn(8, 16)).square().mean()
    scaler.scale(loss * float("inf") if step % 5 == 0 else loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(len(taken))

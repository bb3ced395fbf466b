"""Trains with two optimizers: SHAPE is `next` (30 steps of one, then 60 of the other), or `turns` (20 times one step of one, then five of the other)."""

import os
import time

import torch

layers = [torch.nn.Linear(16, 1), torch.nn.Linear(16, 1)]
optimizers = [torch.optim.SGD(layer.parameters(), lr=0.01) for layer in layers]


def train(which):
    time.sleep(0.002)
    optimizers[which].zero_grad()
    layers[which](torch.randn(8, 16)).square().mean().backward()
    optimizers[which].step()


for which in [0] * 30 + [1] * 60 if os.environ["SHAPE"] == "next" else [0, 1, 1, 1, 1, 1] * 20:
    train(which)

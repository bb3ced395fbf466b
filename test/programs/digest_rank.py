"""Trains STEPS short steps on one thread, and prints the median length of a step and a digest of the weights, as JSON."""

import hashlib
import json
import os
import statistics
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(7)
steps = int(os.environ["STEPS"])
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.randn(16 * steps, 64), batch_size=16)
times = []
before = time.perf_counter()
for batch in data:
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    now = time.perf_counter()
    times.append(now - before)
    before = now
weights = b"".join(bytes(one.detach().flatten().view(torch.uint8).tolist()) for one in model.parameters())
print(json.dumps({"medianMs": 1000 * statistics.median(times), "digest": hashlib.sha256(weights).hexdigest(), "steps": len(times)}))

"""Trains six steps under `python -m ranktrace`, and names its phases itself, as the client does."""

import ranktrace
import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = iter(torch.utils.data.DataLoader(torch.randn(48, 8), batch_size=8))
for _ in range(6):
    with ranktrace.record_function("data"):
        batch = next(batches)
    loss = model(batch).sum()
    with ranktrace.record_function("backward"):
        loss.backward()
    with ranktrace.record_function("optimizer"):
        optimizer.step()

"""A training loop whose model and optimizer are compiled, with a span within the model. Prints the weights."""

import torch

import ranktrace

STEPS = 8

torch.manual_seed(0)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


# Without a compiler of C++: Dynamo alone meets our calls.
@torch.compile(backend="eager")
def loss_of(batch):
    with ranktrace.record_function("attention"):
        return model(batch).relu().sum()


@torch.compile(backend="eager")
def update():
    optimizer.step()


for _ in range(STEPS):
    loss_of(torch.ones(4, 16)).backward()
    update()
    optimizer.zero_grad()
print(model.weight.sum().item())

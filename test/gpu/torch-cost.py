# What recording takes of a PyTorch step of many small launches from two threads: torch-cost.py plain, or torch for torch.profiler of the device alone.
#
# One line of JSON: launches of a step, as torch.profiler counts them (0 without it), and the median step, ms.

import json, sys, time

try:
    import torch
except ImportError:
    sys.exit('this Python has no torch')
if not torch.cuda.is_available():
    sys.exit('torch sees no GPU')

steps = 60
layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.LayerNorm(256), torch.nn.GELU()) for _ in range(40)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(64, 256, device='cuda')


def step():
    with torch.autocast('cuda', dtype=torch.bfloat16):
        loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def timed():
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return sorted(times)[steps // 2]


for _ in range(20):
    step()
torch.cuda.synchronize()
if sys.argv[1] == 'torch':
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        median = timed()
    launches = sum(event.count for event in prof.key_averages() if event.key.startswith(('cudaLaunchKernel', 'cuLaunchKernel')))
    print(json.dumps({'launches': launches / steps, 'ms': median}))
else:
    print(json.dumps({'launches': 0, 'ms': timed()}))

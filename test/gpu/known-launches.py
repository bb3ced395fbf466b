# Launches of PyTorch whose number is known, and what torch.profiler counts of them: known-launches.py torch, or plain, for a library that records beside it.
#
# One line of JSON: when they began and ended, ns of the monotonic clock; of torch.profiler kernels, copies and sets by name.

import collections, json, sys, time

try:
    import torch
except ImportError:
    sys.exit('this Python has no torch')
if not torch.cuda.is_available():
    sys.exit('torch sees no GPU')

left, values, host = torch.randn(512, 512, device='cuda'), torch.zeros(4096, device='cuda'), torch.randn(1 << 20)
side = torch.cuda.Stream()


def launch():
    for _ in range(200):
        left @ left
    for _ in range(300):
        values.add_(1)
    for _ in range(20):
        host.to('cuda')
        values.cpu()
    for _ in range(10):
        torch.zeros(1000, device='cuda')
    with torch.cuda.stream(side):
        for _ in range(25):
            values.mul(2)
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()


left @ left
values.add_(1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(7):
        values.add_(3)
torch.cuda.synchronize()
kinds = {'kernel', 'gpu_memcpy', 'gpu_memset'}
counts = collections.Counter()
if sys.argv[1] == 'torch':
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as prof:
        launch()
    for event in prof.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            counts[event.name] += 1
    print(json.dumps({'counts': counts}))
else:
    began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    launch()
    print(json.dumps({'began': began, 'ended': time.clock_gettime_ns(time.CLOCK_MONOTONIC)}))
    time.sleep(0.6)

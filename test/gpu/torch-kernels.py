# Matrix products under torch.profiler on a GPU: prints how many kernels it recorded, or why there is none.

import sys

try:
    import torch
except ImportError:
    sys.exit('this Python has no torch')
if not torch.cuda.is_available():
    sys.exit('torch sees no GPU')
left = torch.ones(256, 256, device='cuda')
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as prof:
    for _ in range(100):
        left @ left
    torch.cuda.synchronize()
print(sum(event.device_type == torch.autograd.DeviceType.CUDA for event in prof.events()))

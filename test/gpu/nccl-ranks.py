# A rank of two that share the first GPU: COUNT all-reduces of 1 MiB, each by itself. One line of JSON says how many, and with which NCCL.

import json, os, sys

rank = int(os.environ['RANK'])
# NCCL refuses two ranks on one GPU of one host: let it believe in two hosts.
os.environ.update(NCCL_HOSTID=f'host{rank}', NCCL_SOCKET_IFNAME='lo', NCCL_IB_DISABLE='1')
try:
    import torch
except ImportError:
    sys.exit('this Python has no torch')
if not torch.cuda.is_available():
    sys.exit('torch sees no GPU')
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group('nccl', device_id=torch.device('cuda', 0))
values = torch.ones(1 << 18, device='cuda')
count = int(os.environ['COUNT'])
for _ in range(count):
    dist.all_reduce(values)
    torch.cuda.synchronize()
dist.destroy_process_group()
print(json.dumps({'count': count, 'nccl': '.'.join(map(str, torch.cuda.nccl.version()))}))

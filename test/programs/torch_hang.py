# Data-parallel training with gloo; after 120 steps rank 2 computes for ever, and the others wait for it.
#
# A thread answers the pipe of Flight Recorder with a dump, as the watchdog of NCCL's process group does; gloo has none.

import os, threading, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch._C._distributed_c10d import _dump_fr_trace

rank = int(os.environ['RANK'])
pipe = os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE'] + f'{rank}.pipe'
file = os.environ['TORCH_FR_DUMP_TEMP_FILE'] + f'{rank}'
os.mkfifo(pipe, 0o666)
reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)


def watch():
    while True:
        time.sleep(0.2)
        if os.read(reader, 128):
            dump = _dump_fr_trace(includeStackTraces=False)
            with open(file, 'wb') as target:
                target.write(dump)


threading.Thread(target=watch, daemon=True).start()
torch.set_num_threads(1)
dist.init_process_group('gloo')
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print('training', flush=True)
for step in range(1000):
    if rank == 2 and step == 120:
        time.sleep(3600)
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.01)

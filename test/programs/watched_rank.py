# A rank whose Flight Recorder can be asked for dumps, with the standard library alone: plays the watchdog of PyTorch's NCCL process group.
#
#   argv: DUMP   a dump that real torch wrote (test/data/flight-recorder); its file is that one, with the times moved to now
#
# Its variables name pipe and file, as torch reads them; without a pipe it cannot be asked. In each answer the last collective was created 8 s ago.

import os, pickle, sys, time

rank = os.environ['RANK']
prefix = os.environ.get('TORCH_NCCL_DEBUG_INFO_PIPE_FILE', '')
while prefix == '':
    time.sleep(1)
pipe = prefix + rank + '.pipe'
file = os.environ['TORCH_FR_DUMP_TEMP_FILE'] + rank
with open(sys.argv[1], 'rb') as source:
    dump = pickle.load(source)

os.mkfifo(pipe, 0o666)
reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
print('watching', flush=True)
while True:
    time.sleep(0.1)
    if not os.read(reader, 128):
        continue
    ahead = time.time_ns() - 8_000_000_000 - max(entry['time_created_ns'] for entry in dump['entries'])
    moved = [{**entry, 'time_created_ns': entry['time_created_ns'] + ahead} for entry in dump['entries']]
    with open(file, 'wb') as target:
        pickle.dump({**dump, 'entries': moved}, target, protocol=2)
    print('dumped', flush=True)

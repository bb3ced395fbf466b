# A rank whose NCCL plugin writes a ring, with the standard library alone: by packages/gpu/native/ring.h, as any program could.
#
# Every 50 ms an AllReduce of the communicator `dp`: a row when it is enqueued, and one of its work, that all ranks end at the same moment; rank 1 comes in
# 5 ms later than the others. BROKEN=1: the file is no ring. INSIDE=1: it says that its process reads it itself.

import os, struct, time

rank, folder = int(os.environ['RANK']), os.environ['RANKTRACE_GPU_DIR']
with open('/proc/self/stat') as stat:
    start = int(stat.read().rsplit(')', 1)[1].split()[19])
path = f'{folder}/nccl-{os.getpid()}-{start}.ring'
capacity = 1024
if os.environ.get('BROKEN') == '1':
    with open(path, 'wb') as file:
        file.write(b'x' * 5000)
    time.sleep(60)
file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.ftruncate(file, 4096 + 64 * capacity)
os.pwrite(file, struct.pack('<IIIIIIQ', 1, capacity, os.getpid(), 2, 1, 6, start), 8)
os.pwrite(file, struct.pack('<I', 1 if os.environ.get('INSIDE') == '1' else 0), 40)
os.pwrite(file, b'RGPURING', 0)
reserved = 0


def write(*rows):
    """Rows without their turns: these come last."""
    global reserved
    for row in rows:
        place = 4096 + 64 * (reserved % capacity)
        os.pwrite(file, row, place + 4)
        os.pwrite(file, struct.pack('<I', reserved // capacity + 1), place)
        reserved += 1
        os.pwrite(file, struct.pack('<Q', reserved), 64)


def row(kind, detail, start, end, name, union):
    return struct.pack('<BBHQQIIII', kind, detail, 0xFFFF, start, end, name, 0, 0, 0) + union.ljust(24, b'\0')


def name(number, text):
    write(row(8, 0, 0, 0, 0, struct.pack('<II', number, len(text))), text.encode().ljust(60, b'\0'))


name(1, 'dp')
name(2, 'AllReduce')
write(row(9, 0, 0, 0, 1, struct.pack('<QIIII', 0xABC, 1, 2, rank, 1)))
period = 50_000_000
first = time.monotonic_ns() // period + 4
print('training', flush=True)
for at in range(first, first + 4000):
    end = at * period
    time.sleep(max(0, end / 1e9 - time.monotonic()))
    begin = end - 10_000_000 + (5_000_000 if rank == 1 else 0)
    collective = struct.pack('<QQIHH', at, 4096, 1, 0xFFFF, 0)
    write(row(7, 1, begin - 30_000, begin - 10_000, 2, collective), row(7, 2, begin, end, 2, collective))

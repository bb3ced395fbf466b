# A rank that sends its steps itself, while its NCCL plugin and the library that CUDA's driver loads write rings: by packages/gpu/native/ring.h, with the
# standard library alone.
#
#   host     augment (rank 1: 40 ms longer) │ forward: launches gemm and all_reduce │ until the step's end
#   device                                  │ gemm 20 ms │ all_reduce: on all ranks until the same moment
#
# Steps take 100 ms. It ends after STEPS of them.

import os, struct, time
import ranktrace

rank, folder = int(os.environ['RANK']), os.environ['RANKTRACE_GPU_DIR']
ms = 1_000_000
with open('/proc/self/stat') as stat:
    process_start = int(stat.read().rsplit(')', 1)[1].split()[19])


class Ring:
    capacity = 4096

    def __init__(self, kind, source, library):
        self.file = os.open(f'{folder}/{kind}-{os.getpid()}-{process_start}.ring', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.reserved = 0
        os.ftruncate(self.file, 4096 + 64 * self.capacity)
        os.pwrite(self.file, struct.pack('<IIIIIIQ', 1, self.capacity, os.getpid(), source, 1, library, process_start), 8)
        os.pwrite(self.file, b'RGPURING', 0)

    def write(self, *rows):
        """Rows without their turns: these come last."""
        for row in rows:
            place = 4096 + 64 * (self.reserved % self.capacity)
            os.pwrite(self.file, row, place + 4)
            os.pwrite(self.file, struct.pack('<I', self.reserved // self.capacity + 1), place)
            self.reserved += 1
            os.pwrite(self.file, struct.pack('<Q', self.reserved), 64)

    def name(self, number, text):
        self.write(row(8, 0, 0xFFFF, 0, 0, 0, 0, 0, struct.pack('<II', number, len(text))), text.encode().ljust(60, b'\0'))


def row(kind, detail, device, start, end, name, stream, correlation, union):
    return struct.pack('<BBHQQIIII', kind, detail, device, start, end, name, stream, correlation, 1) + union.ljust(24, b'\0')


def sleep_until(moment):
    time.sleep(max(0, (moment - time.monotonic_ns()) / 1e9))


nccl, gpu = Ring('nccl', 2, 6), Ring('gpu', 1, 130001)
nccl.name(1, 'dp')
nccl.name(2, 'AllReduce')
nccl.write(row(9, 0, 0xFFFF, 0, 0, 1, 0, 0, struct.pack('<QIIII', 0xABC, 1, 2, rank, 1)))
for number, name in enumerate(['cudaLaunchKernel', 'void gemm<float>(float*)', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'], 1):
    gpu.name(number, name)
shape = struct.pack('<IIIHHHHI', 4, 1, 1, 128, 1, 1, 32, 0)
thread = os.getpid()

with ranktrace.profile() as prof:
    first = time.monotonic_ns() // (100 * ms) + 3
    print('training', flush=True)
    for at in range(first, first + int(os.environ['STEPS'])):
        begin = at * 100 * ms
        with ranktrace.record_function('augment'):
            sleep_until(begin + (41 if rank == 1 else 1) * ms)
        with ranktrace.record_function('forward'):
            called = time.monotonic_ns()
            computed = called + 20 * ms
            ended = max(computed + 5 * ms, begin + 80 * ms)
            number = 2 * (at - first) + 1
            calls = [row(5, 1, 0xFFFF, called + 10_000 * n, called + 10_000 * n + 5000, 1, thread, number + n, b'') for n in range(2)]
            kernels = [row(1, 0, 0, called + 20_000, computed, 2, 7, number, shape), row(1, 0, 0, computed + 10_000, ended, 3, 16, number + 1, shape)]
            gpu.write(*calls, *kernels)
            collective = struct.pack('<QQIHH', at, 1 << 20, 1, 0xFFFF, 0)
            nccl.write(row(7, 1, 0xFFFF, called + 10_000, called + 12_000, 2, 0, 0, collective), row(7, 2, 0xFFFF, computed + 12_000, ended, 2, 0, 0, collective))
        sleep_until(begin + 95 * ms)
        prof.step()

"""Jobs on one GPU with a planted cause each, recorded by torch.profiler, and what the clock says of them (torch 2.11, an H200):

    python3 make_gpu_jobs.py DIRECTORY            the jobs of one process
    python3 make_gpu_jobs.py DIRECTORY ranks      two ranks over NCCL, which share the GPU

Of each job steps are timed without a profiler, with the cause (`planted`) and without (`plain`): the difference is what the cause costs.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, Dataset

WIDTH = 4096
TIMED, RECORDED = 20, 6
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def layers(width, count):
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(count)]).to("cuda", torch.bfloat16)


class Job:
    """A training step that keeps the GPU busy; `step` plants the cause."""

    options = {}

    def __init__(self):
        self.model = layers(WIDTH, 6)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.batch = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)

    def train(self):
        with record_function("forward"):
            loss = self.model(self.batch).square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss

    def step(self, planted):
        self.train()


class Balanced(Job):
    pass


class HostLate(Job):
    """The host waits for the loss, then does 8 ms of something else."""

    def step(self, planted):
        self.train().item()
        with record_function("augment"):
            if planted:
                time.sleep(0.008)


class SmallKernels(Job):
    """400 tiny kernels, launched one by one, or as one CUDA graph."""

    def __init__(self):
        self.values = torch.randn(64, device="cuda")
        self.graph = None

    def work(self):
        for _ in range(400):
            self.values.mul_(1.0001)

    def step(self, planted):
        if not planted and self.graph is None:
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.work()
        with record_function("forward"):
            self.work() if planted else self.graph.replay()


class Syncs(Job):
    """The host reads a value after each of 60 layers."""

    def __init__(self):
        self.layers = layers(512, 60)
        self.batch = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)

    def step(self, planted):
        with record_function("forward"), torch.no_grad():
            values = self.batch
            for layer in self.layers:
                values = layer(values)
                if planted:
                    values.sum().item()


class Copies(Job):
    """64 MiB from memory that is not pinned, and 32 MiB from memory that is."""

    def __init__(self):
        super().__init__()
        self.host = [torch.randn(8 << 20) for _ in range(2)]
        self.pinned = torch.randn(8 << 20).pin_memory()

    def step(self, planted):
        with record_function("batch"):
            if planted:
                for host in self.host:
                    host.to("cuda")
                self.pinned.to("cuda", non_blocking=True)
        self.train()


class Samples(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.ones(16)


class Loader(Job):
    """A sample takes its worker 6 ms."""

    def __init__(self):
        super().__init__()
        self.loaders = {}

    def step(self, planted):
        if planted not in self.loaders:
            samples = Samples(0.006 if planted else 0)
            self.loaders[planted] = iter(DataLoader(samples, batch_size=4, num_workers=1, pin_memory=True))
        next(self.loaders[planted]).to("cuda", non_blocking=True)
        self.train()


class Streams(Job):
    """64 MiB from pinned memory on a stream of its own; without the cause on the stream that computes."""

    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()
        self.pinned = torch.empty(64 << 20, dtype=torch.uint8).pin_memory()
        self.to = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")

    def step(self, planted):
        with torch.cuda.stream(self.side if planted else torch.cuda.current_stream()):
            self.to.copy_(self.pinned, non_blocking=True)
        self.train()


class Graph(Job):
    """The whole step as one CUDA graph."""

    graph = None

    def step(self, planted):
        if not planted:
            self.train()
            return
        if self.graph is None:
            for _ in range(3):
                self.train()
            torch.cuda.synchronize()
            self.optimizer.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.train()
        self.graph.replay()


class Memory(Job):
    """Recorded with memory, shapes, stacks, FLOPs and modules."""

    options = {"profile_memory": True, "record_shapes": True, "with_stack": True, "with_flops": True, "with_modules": True}

    def step(self, planted):
        self.train()
        with record_function("evaluate"), torch.no_grad():
            kept = [self.batch + n for n in range(4)]
            del kept


JOBS = {
    "balanced": Balanced,
    "host_late": HostLate,
    "small_kernels": SmallKernels,
    "syncs": Syncs,
    "copies": Copies,
    "loader": Loader,
    "streams": Streams,
    "graph": Graph,
    "memory": Memory,
}


def step_ms(step, steps=TIMED):
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps * 1e3


def write(directory, name, prof):
    prof.export_chrome_trace(str(directory / f"{name}.pt.trace.json"))
    trace = (directory / f"{name}.pt.trace.json").read_bytes()
    (directory / f"{name}.pt.trace.json").unlink()
    (directory / f"{name}.pt.trace.json.gz").write_bytes(gzip.compress(trace, 9, mtime=0))


def line(average):
    return {
        "name": average.key,
        "count": average.count,
        "cpu_us": average.cpu_time_total,
        "self_cpu_us": average.self_cpu_time_total,
        "device_us": average.device_time_total,
        "self_device_us": average.self_device_time_total,
        "is_device": str(average.device_type) != "DeviceType.CPU",
        "flops": average.flops,
        "device_memory": average.device_memory_usage,
        "self_device_memory": average.self_device_memory_usage,
    }


def record(directory, name):
    job = JOBS[name]()
    times = {planted: step_ms(lambda: job.step(planted == "planted")) for planted in ("planted", "plain")}
    for _ in range(2):
        job.step(True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    averages = []

    def ready(prof):
        write(directory, name, prof)
        averages.extend(prof.key_averages())

    with profile(activities=BOTH, schedule=schedule(wait=0, warmup=2, active=RECORDED, repeat=1), on_trace_ready=ready, **job.options) as prof:
        for step in range(2 + RECORDED):
            if step == 2:
                torch.cuda.synchronize()
                began = time.perf_counter()
            job.step(True)
            if step == 1 + RECORDED:
                torch.cuda.synchronize()
                times["profiled"] = (time.perf_counter() - began) / RECORDED * 1e3
            prof.step()
    truth = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "stepMs": times,
        "memoryPeak": torch.cuda.max_memory_allocated(),
        "averages": [line(average) for average in averages],
    }
    (directory / f"{name}.truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def train_rank(directory, cause):
    """The last rank sleeps 15 ms in the forward (`host`), or runs 60 more forwards (`kernels`)."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(0)
    torch.set_num_threads(1)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    torch.manual_seed(0)
    width = 1024
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(width, width) for _ in range(8)]).to("cuda"), bucket_cap_mb=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    batch = torch.randn(2 * width, width, device="cuda")
    count = 0

    def step(planted):
        nonlocal count
        with record_function("forward"):
            loss = model(batch).square().mean()
            if planted and rank == world - 1:
                if cause == "host":
                    time.sleep(0.015)
                else:
                    with torch.no_grad():
                        values = batch
                        for _ in range(60):
                            values = model.module(values)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        count += 1
        if count % 5 == 0:
            loss.item()

    times = {"plain": step_ms(lambda: step(False)), "planted": step_ms(lambda: step(True))}
    ready = lambda prof: write(directory, f"{cause}-rank{rank}", prof)
    with profile(activities=BOTH, schedule=schedule(wait=0, warmup=3, active=8, repeat=1), on_trace_ready=ready) as prof:
        for _ in range(11):
            step(True)
            prof.step()
    if rank == 0:
        (directory / f"{cause}.truth.json").write_text(json.dumps({"stepMs": times}) + "\n")
    dist.barrier()
    dist.destroy_process_group()


def train_ranks(directory, cause):
    # NCCL refuses two ranks on one GPU of one host: it believes in two hosts.
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
    command = [sys.executable, __file__, str(directory), "rank", cause]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank), "NCCL_HOSTID": f"host{rank}"})
        for rank in range(2)
    ]
    if any(rank.wait() != 0 for rank in ranks):
        sys.exit(f"a rank of {cause} failed")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    if sys.argv[2:3] == ["rank"]:
        train_rank(target, sys.argv[3])
    elif sys.argv[2:3] == ["ranks"]:
        for one in ("host", "kernels"):
            train_ranks(target, one)
    else:
        for one in JOBS:
            record(target, one)

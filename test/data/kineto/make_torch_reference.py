"""Profiles of three small programs, and what torch says of each: python3 make_torch_reference.py DIRECTORY (torch 2.13)."""

import gzip
import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function, schedule

FIELDS = [
    "key", "count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops", "is_async",
    "is_user_annotation",
]
SORTS = ["self_cpu_time_total", "cpu_time_total", "count", "self_cpu_memory_usage"]


def bmm_nested(options):
    """Ops and annotations of one name inside each other; one op of each kind whose FLOPs torch counts, beside convolutions."""
    a, b = torch.rand(4, 32, 48), torch.rand(4, 48, 16)
    x, y = torch.rand(64, 64), torch.rand(64, 64)
    with profile(activities=[ProfilerActivity.CPU], **options) as prof:
        for _ in range(3):
            with record_function("attention"):
                torch.softmax(torch.bmm(a, b), dim=-1) * 2 + 1
            with record_function("nested"):
                with record_function("nested"):
                    torch.matmul(x, y) / 2
                with record_function("nested"):
                    torch.addmm(x, x, y) / 2
    return prof


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=2)
        self.strided = nn.Conv2d(16, 32, 3, padding=1, stride=2)
        self.last = nn.Linear(2048, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.grouped(x))
        return self.last(torch.flatten(torch.relu(self.strided(x)), 1))


def conv_train(options):
    """Two training steps, recorded after two others."""
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    steps = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, **options) as prof:
        for _ in range(4):
            with record_function("data"):
                images, labels = torch.rand(8, 3, 16, 16), torch.randint(0, 10, (8,))
            with record_function("forward"):
                loss = functional.cross_entropy(net(images), labels)
            with record_function("backward"):
                optimizer.zero_grad()
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
            prof.step()
    return prof


class Mask(nn.Module):
    """The module of torch's profiler recipe."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(500, 10)

    def forward(self, x, mask):
        with record_function("LINEAR PASS"):
            out = self.linear(x)
        with record_function("MASK INDICES"):
            threshold = out.sum(axis=1).mean().item()
            indices = torch.nonzero(mask > threshold)
        return out, indices


def mask_indices(options):
    model, x, mask = Mask(), torch.rand(128, 500), torch.rand(100, 100, 100, dtype=torch.double)
    model(x, mask)
    with profile(activities=[ProfilerActivity.CPU], **options) as prof:
        model(x, mask)
    return prof


def row(average, *more):
    return {name: getattr(average, name) for name in FIELDS} | {name: getattr(average, name) for name in more}


def expected(prof, options):
    groups = {"default": prof.key_averages(), "input_shape": prof.key_averages(group_by_input_shape=True)}
    if options.get("with_stack"):
        groups["stack5"] = prof.key_averages(group_by_stack_n=5)
    averages = {group: [row(one, "input_shapes", "stack") for one in rows] for group, rows in groups.items()}
    averages["total"] = row(groups["default"].total_average())
    tables = {f"{group}|{sort}|10": rows.table(sort_by=sort, row_limit=10) for group, rows in groups.items() for sort in SORTS}
    tables["total_average"] = str(groups["default"].total_average())
    return {"torch": torch.__version__, "profile": options, "averages": averages, "tables": tables}


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    shapes = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    for program, options in [(bmm_nested, shapes), (conv_train, shapes), (mask_indices, shapes | {"with_stack": True})]:
        prof = program(options)
        plain = directory / f"{program.__name__}.pt.trace.json"
        prof.export_chrome_trace(str(plain))
        plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
        (directory / f"{program.__name__}.expected.json").write_text(json.dumps(expected(prof, options)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

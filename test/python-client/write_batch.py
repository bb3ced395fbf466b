"""Writes one ranktrace batch with Python's standard library alone, from docs/batch-format.md and nothing else.

usage: write_batch.py plain|deflate FILE

The test next to it (test/python-client.test.ts) reads the file with decodeBatch.
"""

import struct
import sys
import zlib


def pack(value):
    """Plain msgpack, always in the widest form: that is allowed, and short to write."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode("utf-8")
        return b"\xdb" + struct.pack(">I", len(text)) + text
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    if isinstance(value, dict):
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())
    raise TypeError(f"Cannot pack a {type(value).__name__}")


def planes(values):
    """Integers as byte planes: all lowest bytes, then all second bytes, …"""
    width = max(1, (max(values).bit_length() + 7) // 8)
    return b"".join(bytes((value >> (8 * plane)) & 255 for value in values) for plane in range(width))


def times(values, tick):
    """The first as a double, then planes of zigzag differences in ticks."""
    differences = [(after - before) // tick for before, after in zip([values[0]] + values, values)]
    return struct.pack("<d", values[0]) + planes([2 * d if d >= 0 else -2 * d - 1 for d in differences])


def doubles(values):
    raw = [struct.pack("<d", value) for value in values]
    return b"".join(bytes(row[plane] for row in raw) for plane in range(8))


strings = ["", "main", "thread", "forward", "matmul 3×3", "loss", "loss unit", "ok", "server", "rank 1", "Push", "device", "🚀", "flops"]
body = {
    "strings": strings,
    "tables": {
        "tracks": {"rows": 1, "tick": 1, "track": planes([1]), "kind": planes([2]), "name": planes([1]), "tid": planes([2**40 + 1])},
        "spans": {
            "rows": 3,
            "tick": 1000,
            "start": times([5_000_000, 6_000_000, 4_000_000], 1000),
            "length": planes([2000, 300, 70_000]),
            "track": planes([1, 1, 1]),
            "name": planes([3, 4, 3]),
        },
        "counters": {"rows": 2, "tick": 1, "time": times([7, 5], 1), "name": planes([5, 5]), "unit": planes([6, 6]), "value": doubles([0.25, -1e300])},
        "steps": {"rows": 1, "tick": 1, "start": times([-3], 1), "length": planes([1001]), "track": planes([1]), "step": planes([42])},
        "rpcs": {
            "rows": 1,
            "tick": 1,
            "start": times([9], 1),
            "length": planes([8]),
            "method": planes([10]),
            "side": planes([8]),
            "peer": planes([9]),
            "status": planes([7]),
            "trace": bytes(range(16)),
            "span": bytes(range(8)),
        },
        "numberArguments": {"rows": 1, "tick": 1, "table": planes([1]), "row": planes([1]), "key": planes([13]), "value": doubles([54.0])},
        "metadata": {"rows": 1, "tick": 1, "key": planes([11]), "value": planes([12])},
    },
}

encoding, path = sys.argv[1:]
plain = pack(body)
compressor = zlib.compressobj(wbits=-15)  # raw deflate: no zlib header, no checksum
batch = pack(
    {
        "v": 1,
        "run": "from-python",
        "rank": 1,
        "worldSize": 2,
        "incarnation": "0192f3a1-py",
        "sequence": 0,
        "host": "b1f0c6de-0000-4000-8000-0242ac110002",
        "hostName": "node-b",
        "pid": 99,
        "epoch": "8123456789012345",
        "watermark": 6_000_000,
        "last": True,
        "dropped": {"events": 0, "arguments": 0, "names": 0, "batches": 0},
        "encoding": encoding,
        "size": len(plain),
        "body": plain if encoding == "plain" else compressor.compress(plain) + compressor.flush(),
    }
)
with open(path, "wb") as file:
    file.write(batch)

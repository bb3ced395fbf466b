"""Encodes a batch with the client's own encoder: {"header", "strings", "tables"} as JSON on stdin, the batch on stdout. Ids are hex text."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../clients/python"))
import ranktrace

given = json.load(sys.stdin)
tables = given["tables"]
for columns in tables.values():
    for name in ("trace", "span", "parentSpan"):
        if name in columns:
            columns[name] = [bytes.fromhex(value) for value in columns[name]]
sys.stdout.buffer.write(ranktrace.encode_batch(given["header"], ranktrace.encode_body(given["strings"], tables), "plain"))

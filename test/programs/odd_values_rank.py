"""A rank that passes odd values in each place of the client's API. Usage: odd_values_rank.py CLIENT_FOLDER DIRECTORY. Prints what was raised, a line each."""

import sys

sys.path.insert(0, sys.argv[1])
import ranktrace


class Raises:
    def _fails(self, *_):
        raise RuntimeError("of a value")

    __str__ = __repr__ = __hash__ = __int__ = __float__ = __index__ = __bool__ = __len__ = __iter__ = __eq__ = _fails


class RaisingDict(dict):
    def items(self):
        raise RuntimeError("of a value")


values = [
    None, True, -1, 2**53 - 1, 2**70, -(2**70), 1.5, float("nan"), float("inf"), 1j, "", "x" * 100_000, "\ud800", "\x00\x1b[31m", b"\xff",
    (), [], {1: 2}, {"a": Raises()}, set(), object(), lambda: 1, Raises(), RaisingDict(a=1),
]


def span(odd):
    with ranktrace.record_function(odd, odd):
        pass


def part(odd):
    with ranktrace.collective(odd, group=odd, bytes=odd):
        pass


def sent(odd):
    with ranktrace.collective("send", peer=odd):
        pass


def main():
    prof = ranktrace.profile(run="odd", rank=0, world_size=1, directory=sys.argv[2]).start()
    calls = {
        "record_function": span,
        "decorator": lambda odd: ranktrace.record_function(odd)(lambda: None)(),
        "collective": part,
        "send": sent,
        "counter": lambda odd: prof.counter(odd, odd, odd),
        "counter of an odd unit": lambda odd: prof.counter("loss", 1, odd),
        "instant": lambda odd: prof.instant(odd, odd),
        "add_metadata": lambda odd: prof.add_metadata(odd, odd),
        "context": lambda odd: prof.context(odd, fact=odd),
        "step": lambda odd: prof.step(odd),
    }
    for name, call in calls.items():
        for odd in values:
            try:
                call(odd)
            except BaseException as error:
                print(f"{name}: {type(error).__name__} with a {type(odd).__name__}")
    # A name that is no text stays open while batches are sent.
    with ranktrace.record_function(Raises()):
        for number in range(1000, 1003):
            with ranktrace.record_function("forward"):
                pass
            prof.step(number)
    prof.stop()


main()

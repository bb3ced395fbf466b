# Copyright and license: see LICENSE at the top of https://github.com/ranktrace/ranktrace (Apache-2.0).
"""ranktrace for Python: one rank of a training job, seen by the whole cluster.

    python -m ranktrace train.py                 # no change: steps by the optimizer, phases by PyTorch's own calls

    import ranktrace
    with ranktrace.profile() as prof:            # or with one
        for batch in loader:
            with ranktrace.record_function("forward"):
                ...
            prof.step()

One file, the standard library alone, Python 3.9 or later. It records steps, spans, collectives and counters, and a thread sends them as batches
(docs/batch-format.md) to an aggregator (ws://, wss://), to NATS JetStream (nats://, tls://), or into files. Options come from arguments, from
RANKTRACE_* variables, and from the launcher (torchrun, Slurm, Open MPI), as in @ranktrace/sdk.

    training thread                     |  thread "ranktrace"
    step(), spans ──► deque, bounded ──►|  rows ──► batch ──► spool on disk ──► wire ──► acknowledged: leaves the spool

Invariants: after `start()` nothing here raises into the program or waits for a disk or a network; every buffer is bounded, and a full one drops new
events and counts them in the next batch. The file is long because it is one file: that is how people install it.
"""

import atexit
import base64
import binascii
import collections
import errno
import functools
import hashlib
import inspect
import io
import itertools
import json
import operator
import os
import re
import select
import signal
import socket
import ssl
import stat
import subprocess
import struct
import sys
import tempfile
import threading
import time
import types
import urllib.parse
import weakref
import zipfile
import zlib

__version__ = "0.1.0"
__all__ = [
    "Profile", "collective", "context", "counter", "instant", "profile", "record_function", "step", "trace_collectives", "trace_handler",
]

_now = time.monotonic_ns

# Bounds; the wire's own are those of docs/batch-format.md.
_EVENTS_MAX = 200_000  # events that wait for the thread; more are dropped and counted
_ROWS_MAX = 16_384  # rows of one table at which a batch is sent
_STRINGS_MAX = 32_768
_STRING_BYTES_MAX = 4096
_BODY_BYTES_FULL = 400 * 1024
_BATCH_BYTES_MAX = 983_040
_ARGUMENTS_MAX = 64  # of one event
_THREADS_MAX = 1024
_GROUPS_MAX = 4096
_PHASES_MAX = 128  # names of one step
_RUNNING_GROUPS_MAX = 32
_MEETING = "rendezvous"  # the group of init_process_group, as a rank's place tells it: it is recorded as no collective, for ranks may leave it early
_IN_FLIGHT_MAX = 16
_MEMORY_BYTES_MAX = 4 * 1024 * 1024  # of batches, beside those on disk
_SEGMENT_BYTES = 8 * 1024 * 1024
_MESSAGE_BYTES_MAX = 65_536
_HEARTBEAT_NS = 1_000_000_000
_MARGIN_NS = 100_000_000  # a thread may be preempted between reading the clock and publishing
_WALL_CLOCK_NS = 10_000_000_000
_CONNECT_S = 5.0
_SILENCE_NS = 15_000_000_000
_PUBLISH_NS = 5_000_000_000
_BROKER_FLUSH_NS = 2_000_000_000  # JetStream acknowledges before it writes to its disk
_PING_NS = 500_000_000
_BURST_NS = 1_000_000_000
_QUIET_S = 60
_NOTICE_NS = 10_000_000_000
_RUN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WHOLE_MAX = 1 << 53  # exact in JavaScript
_STEP_END = 1 << 52  # a given number of a step is below, and leaves as many to count on
_RANK_MAX = 65_535
_FIRST_STEP_MAX = (1 << 30) - 1  # as in the SDK: captures name later steps in 31 bits
_OTHER_PHASES = "(other phases)"


# ---- Options ---------------------------------------------------------------------------------------------------------------------------------


class _Options:
    """Arguments of `profile()` with their variables, as in @ranktrace/sdk. Raises ValueError, which names the option or variable."""

    def __init__(self, given, environ=os.environ):
        self.given = dict(given)
        self.environ = environ
        self._sources = {}  # by option: where its value comes from
        launcher = next((names for names in _LAUNCHERS if environ.get(names[0])), (None, None))
        self.rank = self._integer("rank", 0, 0, _RANK_MAX, launcher[0])
        self.world_size = self._integer("world_size", 1, 1, _RANK_MAX + 1, launcher[1])
        if self.rank >= self.world_size:
            raise ValueError(f"Bad {self._source('rank')} {self.rank}: it must be below the world size, {self.world_size}")
        # A process that was started alone learns its rank from its process group, if it has one.
        self.is_placed = self.world_size > 1
        named = self._text("run") or self._job()
        shared = _started(os.getppid()) if named is None and self._is_of_one_torchrun() else None
        # All ranks have this name: no rank made it up.
        self.is_run_named = named is not None or shared is not None
        self.run = named or time.strftime("run-%Y%m%d-%H%M%S", time.gmtime(shared)) + ("" if self.world_size > 1 else f"-{os.getpid()}")
        if not _RUN_NAME.fullmatch(self.run):
            raise ValueError(f'Bad {self._source("run")}: it must be 1 to 64 letters, digits, "_" or "-", got {self.run[:80]!r}')
        self._destination()
        interval = min(1000, max(200, round(1000 * self.world_size / 320)))
        self.flush_interval_ms = self._integer("flush_interval_ms", interval, 10, 60_000)
        self.sample_interval_ms = self._integer("sample_interval_ms", 1000, 0, 3_600_000)
        self.exit_deadline_ms = self._integer("exit_deadline_ms", 2000, 0, 600_000)
        self.spool_bytes_max = self._integer("spool_bytes_max", 256 * 1024 * 1024, 4 * 1024 * 1024, 1 << 40)
        uid = os.getuid() if hasattr(os, "getuid") else ""
        # A program may change its folder before the recording begins.
        self.paths = {
            "directory": self._path("directory") or os.path.abspath("ranktrace-out"),
            "spool_directory": self._path("spool_directory") or os.path.join(tempfile.gettempdir(), f"ranktrace-spool-{uid}"),
            **{name: path for name in ("nats_tls_ca", "nats_tls_cert", "nats_tls_key", "nats_creds") if (path := self._path(name)) is not None},
        }
        self.directory = self.paths["directory"]
        self.spool_directory = self.directory if self.transport == "file" else self.paths["spool_directory"]
        self.token = self._secret("token", "RANKTRACE_RANK_TOKEN")
        self.ca, self.cert, self.key, self.creds = (self.paths.get(name) for name in ("nats_tls_ca", "nats_tls_cert", "nats_tls_key", "nats_creds"))
        self.nats_token = self._text("nats_token")
        self.nkey = self._text("nats_nkey")
        self.inbox = self._text("nats_inbox_prefix") or f"ranktrace.v1.{self.run}.inbox.{self.rank}"
        self.first_step = self._integer("first_step", 0, 0, _FIRST_STEP_MAX)
        self.phase_roles = self._roles()
        self.launch_directory = environ.get("RANKTRACE_LAUNCH_DIRECTORY")
        if self.given:
            raise ValueError(f"Unknown option {next(iter(self.given))}: see the options of @ranktrace/sdk, in snake_case")

    @property
    def place(self):
        """The options that say whose recording it is."""
        return {"run": self.run, "rank": self.rank, "world_size": self.world_size}

    def _destination(self):
        url = self._text("url")
        servers = self._text("nats_servers")
        self.user = self._text("nats_user")
        self.password = self._text("nats_pass")
        urls = [url] if url else [one.strip() for one in (servers or "").split(",") if one.strip()]
        self.servers = []
        source = self._source("url" if url else "nats_servers")
        for one in urls:
            wanted = ("ws", "wss", "nats", "tls") if url else ("nats", "tls")
            try:
                parts = urllib.parse.urlsplit(one)
            except ValueError:
                parts = None
            if parts is None or parts.scheme not in wanted or not parts.hostname:
                raise ValueError(f"Bad {source}: it must be ws://HOST:PORT or wss://… (aggregator), nats://HOST:PORT or tls://… (NATS), or nothing (files)")
            try:
                is_port = parts.port != 0
            except ValueError:
                is_port = False
            if not is_port:
                raise ValueError(f"Bad {source}: its port must be an integer from 1 to 65535")
            if parts.username is not None:
                if parts.scheme in ("ws", "wss"):
                    raise ValueError(f"Bad {source}: a ws:// URL must not hold a user or password; set option token or variable RANKTRACE_TOKEN")
                self.user = self.user or urllib.parse.unquote(parts.username)
                self.password = self.password or urllib.parse.unquote(parts.password or "")
            self.servers.append(parts)
        scheme = self.servers[0].scheme if self.servers else ""
        self.transport = "web-socket" if scheme in ("ws", "wss") else "nats" if scheme else "file"

    def _text(self, name, *variables):
        value = self.given.pop(name, None)
        if value is not None:
            return str(value)
        for variable in (f"RANKTRACE_{name.upper()}", *variables):
            if self.environ.get(variable):
                self._sources[name] = f"variable {variable}"
                return self.environ[variable]
        return None

    def _source(self, name):
        return self._sources.get(name, f"option {name}")

    def _path(self, name):
        given = self.given.get(name)
        if given is not None and not isinstance(given, (str, os.PathLike)):
            raise ValueError(f"Bad option {name}: it must be a path, got {_text(given)[:80]!r}")
        text = self._text(name)
        return os.path.abspath(text) if text else None

    def _secret(self, name, *variables):
        """A value that stands in a header of HTTP. It is never shown."""
        text = self._text(name, *variables)
        if text is not None and not re.fullmatch(r"[\x20-\x7e]{0,4096}", text):
            raise ValueError(f"Bad {self._source(name)}: it must be printable ASCII text")
        return text

    def _integer(self, name, fallback, least, most, *variables):
        text = self._text(name, *(one for one in variables if one))
        if text is None:
            return fallback
        if not re.fullmatch(r"\s*\d{1,15}\s*", text) or not least <= int(text) <= most:
            raise ValueError(f"Bad {self._source(name)}: it must be an integer from {least} to {most}, got {text[:80]!r}")
        return int(text)

    def _roles(self):
        given = self.given.get("phase_roles")
        known = ("work", "collective", "wait", "data", "evaluation", "checkpoint")
        try:
            if given is None or isinstance(given, str):
                text = self._text("phase_roles") or ""
                given = dict(entry.split("=", 1) for entry in text.split(",") if entry.strip())
            self.given.pop("phase_roles", None)
            roles = {str(name).strip(): str(role).strip() for name, role in given.items()}
        except (AttributeError, ValueError):
            roles = None
        if roles is None or len(roles) > 256 or "" in roles or any(role not in known for role in roles.values()):
            wanted = f"names of phases with one of {', '.join(known)} each, such as fetch_rollouts=data"
            raise ValueError(f"Bad {self._source('phase_roles')}: it must be {wanted}")
        return roles

    def _job(self):
        for variable in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"):
            text = self.environ.get(variable)
            # torchrun without a rendezvous id says "none".
            if text and text != "none":
                return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:64]
        return None


    def _is_of_one_torchrun(self):
        """Whether one torchrun without a rendezvous id started all ranks, on this host."""
        local, world, job = (self.environ.get(name) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"))
        return job == "none" and local is not None and local == world


def _started(pid):
    """When a process began, in seconds since 1970, the same for all who ask; None where /proc does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/stat", encoding="utf-8") as file:
            booted = next(int(line.split()[1]) for line in file if line.startswith("btime "))
        return booted + ticks // os.sysconf("SC_CLK_TCK")
    except Exception:
        return None


_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    # Ranks that mpirun starts within a job of Slurm inherit one task's numbers.
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


# ---- Recording: everything that runs on threads of the program --------------------------------------------------------------------------------


class _Span:
    __slots__ = ("name", "start", "end", "thread", "args", "op", "group", "sequence", "bytes", "peer", "announced")

    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.op = None  # of a collective, else None
        self.announced = False


class _Step:
    __slots__ = ("thread", "number", "start", "end", "spans")


class _Point:
    """A counter, or with `unit` None an instant."""

    __slots__ = ("thread", "time", "name", "value", "unit", "args")


class _Thread:
    """A line of the timeline: a thread, or in a window of PyTorch's profiler a stream."""

    __slots__ = ("number", "kind", "name", "tid", "stack", "forward", "optimizer", "owner")

    def __init__(self, number, kind="thread", name=None, tid=None):
        self.number = number
        self.kind = kind
        self.name = threading.current_thread().name if name is None else name
        self.tid = threading.get_native_id() if tid is None else tid
        self.stack = []
        self.forward = None  # when the forward pass began that is a phase once backward begins
        self.optimizer = None  # the open span of an optimizer's step
        self.owner = weakref.ref(threading.current_thread()) if name is None else None

    @property
    def is_over(self):
        """Whether the thread has ended: all that it recorded is in the queue."""
        owner = None if self.owner is None else self.owner()
        return self.owner is not None and (owner is None or not owner.is_alive())


class _Recorded:
    """A span of a window of PyTorch's profiler: `start` on this host's clock, ns."""

    __slots__ = ("start", "length", "thread", "name", "category", "args")


_local = threading.local()
_running = None  # the Profile that records, at most one
_awaited = None  # a recording that begins once it is known which rank this is; then `_running` is None
_alone = None  # what was awaited of a process that began to train before it told a rank
_torch_record_function = None  # torch's own, once torch is loaded


def _text(value):
    """A program's name, fact or value as text. Never raises."""
    try:
        return str(value)
    except Exception:
        return f"({type(value).__name__})"


def _whole(value):
    """A program's whole number from 0, of any type that is one; None for anything else, and beyond what a batch holds. Never raises."""
    try:
        number = operator.index(value)
    except Exception:
        return None
    return number if 0 <= number < _WHOLE_MAX else None


def _thread_of(profile):
    """The calling thread's record in this profile; None beyond `_THREADS_MAX` threads."""
    known = getattr(_local, "thread", None)
    if known is not None and known[0] is profile:
        return known[1]
    thread = profile._attach()
    _local.thread = (profile, thread)
    return thread


class record_function:
    """A span of the program's own, as torch.profiler.record_function: a context manager and a decorator. PyTorch's profiler sees it, too."""

    __slots__ = ("_name", "_args", "_span", "_torch", "_others")

    def __init__(self, name, args=None):
        self._name = name
        self._args = args
        self._span = None
        self._torch = None
        self._others = None  # a program may enter it again before its end, and on several threads

    def __enter__(self):
        entered = None if _torch_record_function is None else _enter_torch(self._name)
        profile = _running if _awaited is None else _recording()
        span = None if profile is None else profile._begin(_Span(self._name, self._args))
        if self._span is None and self._torch is None:
            self._span = span
            self._torch = entered
        elif self._others is None:
            self._others = [(span, entered)]
        else:
            self._others.append((span, entered))
        return self

    def __exit__(self, *_):
        if self._others:
            span, entered = self._own()
        else:
            span, entered = self._span, self._torch
            self._span = self._torch = None
        if span is not None:
            _end(span)
        if entered is not None:
            _leave_torch(entered)

    def _own(self):
        """The last that this thread entered."""
        tid = threading.get_native_id()
        entries = [(self._span, self._torch), *self._others]
        own = next((entry for entry in reversed(entries) if entry[0] is None or entry[0].thread.tid == tid), entries[-1])
        if own is entries[0]:
            self._span, self._torch = self._others.pop(0)
        else:
            self._others.remove(own)
        return own

    def __call__(self, function):
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args, **kwargs):
                with record_function(self._name, self._args):
                    return await function(*args, **kwargs)

            return awaited

        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with record_function(self._name, self._args):
                return function(*args, **kwargs)

        return recorded


def _enter_torch(name):
    try:
        entered = _torch_record_function(str(name))
        entered.__enter__()
        return entered
    except Exception:
        return None


def _leave_torch(entered):
    try:
        entered.__exit__(None, None, None)
    except Exception:
        pass


def _end(span, at=None):
    span.end = _now() if at is None else at
    thread = span.thread
    stack = thread.stack
    if stack and stack[-1] is span:
        stack.pop()
    else:
        try:
            stack.remove(span)
        except ValueError:
            pass
    profile = _running
    if profile is None:
        return
    events = profile._events
    if len(events) < _EVENTS_MAX:
        events.append(span)
    else:
        profile._dropped_events += 1


class collective:
    """This rank's part of a collective, around the call: matched across ranks by group and order. `bytes`: what this rank puts in."""

    __slots__ = ("_op", "_group", "_bytes", "_peer", "_span")

    def __init__(self, op, group="world", bytes=0, peer=None):
        self._op, self._group, self._bytes, self._peer = op, group, bytes, peer
        self._span = None

    def __enter__(self):
        profile = _running if _awaited is None else _recording()
        if profile is not None:
            self._span = profile._enter_collective(self._op, self._group, self._bytes, self._peer)
        return self

    def __exit__(self, *_):
        span, self._span = self._span, None
        if span is not None:
            _end(span)


class Profile:
    """One recording of this process, from `start()` to `stop()`. Made by `profile()`; one runs at a time."""

    def __init__(self, **options):
        self._options = _Options(options)
        self._events = collections.deque()
        self._dropped_events = 0
        self._dropped_arguments = 0
        self._threads = {}  # those that live, and those that ended since the last batch
        self._threads_made = 0
        self._lock = threading.Lock()
        self._sequences = {}
        self._facts = collections.deque()
        self._windows = collections.deque()  # files of torch.profiler to ship
        self._given = options
        self._first_step = self._options.first_step
        self._step = None  # number and start of the step that runs; None before the first
        self._interrupted = None  # the signal that asked the program to end, and the step that ran then
        self._has_failed = False
        self._step_thread = None
        self._meeting = None  # begin of the call of init_process_group that runs
        self._meetings = 0  # such calls that are over
        self._counts_steps = False  # the program calls step() itself
        self._ends_with_backward = False  # the step: an optimizer took one within the backward pass that runs
        self._has_waited = False  # in a call that waits for a device, or for peers
        self._has_refused_number = False
        self._loader_workers = 0
        self._sender = None
        self._epoch = 0
        self._into = self  # the profile that takes what the program says
        self._is_whole = False  # it records a whole program, under `python -m ranktrace`

    # The life of a recording

    def start(self, begins_step=True, epoch=None, beside=None):
        """Begins to record, and the first step. Problems of disk and network are lines on stderr, never errors.

        `epoch`: time 0, on this host's clock, ns. `beside`: the process of the rank whose own recording this stands beside.
        """
        global _running
        _settle_awaited()
        if _running is not None and _running._is_whole and self._sender is None:
            self._join(_running)
            return self
        if _running is not None or self._sender is not None:
            _notice("another profile runs in this process, or this one ran before: this one records nothing")
            return self
        if self._options.world_size > 1 and not self._options.is_run_named:
            _notice(f'no run name: this rank made up "{self._options.run}" and other ranks may choose another; set option run or variable RANKTRACE_RUN')
        self._epoch = _now() if epoch is None else epoch
        self._step = (self._first_step, self._epoch) if begins_step else None
        for name, role in self._options.phase_roles.items():
            self.add_metadata(f"phase_role.{name}", role)
        self.add_metadata("ranktrace.client", f"python {__version__}")
        self.add_metadata("python.version", sys.version.split()[0])
        _learn_torch()
        try:
            self._sender = _Sender(self, beside)
        except Exception as error:
            _notice(f"recording cannot begin: {_reason(error)}")
            return self
        _running = self
        self._step_thread = _thread_of(self)
        _handle_ends(self, self._sender.wake)
        self._sender.start()
        return self

    def _join(self, whole):
        """The program's own profile under `python -m ranktrace`: what it says is part of the recording of the whole program."""
        other = [name for name in self._given if name not in ("first_step", "phase_roles") and getattr(self._options, name, None) != getattr(whole._options, name, None)]
        if other:
            _notice(f"python -m ranktrace records this program already; of its profile() this is ignored: {', '.join(other)} (variables RANKTRACE_… set them)")
        self._into, self._sender = whole, False
        whole._counts_steps = True
        whole._go_on_from(self._first_step)
        _begin_steps(whole)
        for name, role in self._options.phase_roles.items():
            self.add_metadata(f"phase_role.{name}", role)
        whole._facts.extend(self._facts)

    def stop(self):
        """Ends the recording and waits for the last batches, at most `exit_deadline_ms`, and 5 s more where it is connecting to an address that is silent."""
        global _running
        self._into = self
        if _running is self:
            _running = None
        for key, (_, profile, _) in list(_pending.items()):
            if profile is self:
                _drop_pending(key)
        # An ended profile keeps False: it never begins again.
        sender, self._sender = self._sender, False
        if sender:
            atexit.unregister(self.stop)
            sender.stop(self._options.exit_deadline_ms / 1000)
            if _let_end():
                sender.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, _kind=None, error=None, _trace=None):
        if error is not None and self._into is self:
            self._fail(error)
        self.stop()

    def _interrupt(self, number):
        """A signal asks the program to end. Its place is the one before that: the end itself leaves all phases."""
        before, step = self._interrupted, self._step
        # A program may survive one, as a notebook does: a later one in another step is another end.
        if step is not None and (before is None or before[1] != step[0]):
            self._interrupted = (signal.Signals(number).name, step[0])

    @property
    def _ended_by(self):
        """The signal that ended the program in the midst of a step; None for any other end, or if a step ended after the signal."""
        by, step = self._interrupted, self._step
        return by[0] if by is not None and step is not None and by[1] == step[0] else None

    def _fail(self, error):
        """The recording ends by an error of the program: the rank that failed first is the reason why others did."""
        try:
            if isinstance(error, KeyboardInterrupt):
                self._interrupt(signal.SIGINT)
                return
            if isinstance(error, SystemExit):
                text = _exit_text(error.code)
            elif isinstance(error, Exception):
                text = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
            else:
                return
        except Exception:
            text = type(error).__name__
        # The exit code of a process follows from the error before it, as in one of torch.multiprocessing.spawn.
        if text is None or self._has_failed:
            return
        self._has_failed = True
        text = text[:_ERROR_CHARS]
        self.instant("failed", {"error": text})
        self.add_metadata("ranktrace.failed", text)

    # What a program says

    def step(self, number=None):
        """The current training step ends here, and the next begins. `number`: of the step that ends, where steps do not count up by one."""
        self._into._counts_steps = True
        self._into._end_step(number)

    def _end_step(self, number=None):
        end = _now()
        if _running is not self:
            return
        last, start = self._step or (self._first_step, self._epoch)
        number = last if number is None else self._number_of(number, last)
        self._step = (number + 1, end)
        one = _Step()
        one.thread = _thread_of(self)
        one.number = number
        one.start = start
        one.end = end
        if one.thread is None:
            self._dropped_events += 1
            return
        self._step_thread = one.thread
        events = self._events
        # Steps go on when detail is lost.
        if len(events) < _EVENTS_MAX + 1024:
            events.append(one)
        else:
            self._dropped_events += 1

    def _go_on_from(self, taken):
        """The first step has this number, unless it has one already, or is over: the training goes on from a checkpoint."""
        if self._first_step == 0 and (self._step is None or self._step[0] == 0):
            self._first_step = taken
            self._step = self._step and (taken, self._step[1])

    def _number_of(self, given, counted):
        number = _whole(given)
        if number is not None and number < _STEP_END:
            return number
        if not self._has_refused_number:
            self._has_refused_number = True
            _notice(f"step(number) takes a whole number from 0 and below 2^52, not {_text(given)[:80]!r}: this step is number {counted}, as counted")
        return counted

    def counter(self, name, value, unit=""):
        """A value that changes over time, such as the loss. Convert tensors yourself: reading one waits for its device."""
        self._into._point(name, value, "" if unit is None else unit, None)

    def instant(self, name, args=None):
        """A point in time."""
        self._into._point(name, 0.0, None, args)

    def add_metadata(self, key, value):
        """A fact about this rank."""
        facts = self._into._facts
        if len(facts) < _ROWS_MAX:
            facts.append((_text(key), _text(value)))
        else:
            self._into._dropped_events += 1

    def context(self, batch_size=None, **facts):
        """Facts about what trains, such as `batch_size`, from which reports compute samples per second."""
        if batch_size is not None:
            facts["batch_size"] = batch_size
        for key, value in facts.items():
            self.add_metadata(key, value)

    # Hot paths

    def _attach(self):
        with self._lock:
            if len(self._threads) >= _THREADS_MAX:
                return None
            self._threads_made += 1
            thread = _Thread(self._threads_made)
            self._threads[thread.number] = thread
            return thread

    def _begin(self, span):
        known = getattr(_local, "thread", None)
        thread = known[1] if known is not None and known[0] is self else _thread_of(self)
        if thread is None:
            self._dropped_events += 1
            return None
        span.thread = thread
        span.start = _now()
        thread.stack.append(span)
        return span

    def _enter_collective(self, op, group, size, peer):
        span = self._collective(op, group, size, peer)
        return None if span is None else self._begin(span)

    def _collective(self, op, group, size, peer):
        """The next one of its group; None beyond a limit."""
        try:
            span = _Span(_text(op))
            span.op = span.name
            span.group = _text(group)
            span.bytes = _whole(size) or 0
            other = None if peer is None else _whole(peer)
            if peer is not None and (other is None or other > _RANK_MAX):
                raise ValueError("no rank")
            span.peer = 0 if other is None else 1 + other
            key = (span.group, span.op, span.peer) if span.peer else span.group
            with self._lock:
                if key not in self._sequences and len(self._sequences) >= _GROUPS_MAX:
                    self._dropped_events += 1
                    return None
                span.sequence = self._sequences.get(key, 0)
                self._sequences[key] = span.sequence + 1
            return span
        except Exception:
            self._dropped_events += 1
            return None

    def _point(self, name, value, unit, args):
        if _running is not self:
            return
        try:
            one = _Point()
            one.thread = _thread_of(self)
            one.time = _now()
            one.name, one.value, one.args = _text(name), float(value), args
            one.unit = None if unit is None else _text(unit)
        except Exception:
            self._dropped_events += 1
            return
        if one.thread is not None and len(self._events) < _EVENTS_MAX:
            self._events.append(one)
        else:
            self._dropped_events += 1


def profile(**options):
    """A profile that has not begun: `with ranktrace.profile() as prof:`, or `.start()` and `.stop()`."""
    return Profile(**options)


def step(number=None):
    """`Profile.step` of the profile that runs; nothing without one."""
    profile = _recording()
    if profile is not None:
        profile.step(number)


def counter(name, value, unit=""):
    """`Profile.counter` of the profile that runs."""
    profile = _recording()
    if profile is not None:
        profile.counter(name, value, unit)


def instant(name, args=None):
    """`Profile.instant` of the profile that runs."""
    profile = _recording()
    if profile is not None:
        profile.instant(name, args)


def context(batch_size=None, **facts):
    """`Profile.context` of the profile that runs."""
    profile = _recording()
    if profile is not None:
        profile.context(batch_size, **facts)


def _notice(line):
    try:
        sys.stderr.write(f"ranktrace: {line}\n")
    except Exception:
        pass


def _reason(error):
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# ---- Ends of the process -----------------------------------------------------------------------------------------------------------------------


_END_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_STUCK_NS = 500_000_000  # a main thread that does not handle a signal for so long is in C code
_getsignal, _set_signal = signal.getsignal, signal.signal
_ERROR_CHARS = 256
_SIGNALLED = range(129, 193)  # a shell's exit codes that tell of one of the 64 signals, which is no error; -1 is 255
_is_prepared = False  # for forks, errors and signals, once a process
_wake = -1  # what signals are written to, if that is ours


def _handle_ends(profile, wake):
    """The last batches go out at the end of the program, and before SIGTERM or SIGHUP ends it where the program handles neither.

    Python runs a handler only once its main thread leaves C code, such as a collective that never ends. The signal's number arrives in `wake`
    at once, and the thread that reads it ends the process then. The program sees no handler that it did not set.
    """
    global _is_prepared, _wake
    atexit.register(profile.stop)
    if not _is_prepared:
        _is_prepared = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)
        _hook_errors()
        signal.getsignal = functools.wraps(_getsignal)(lambda signalnum: _hidden(_getsignal(signalnum)))
        signal.signal = functools.wraps(_set_signal)(_set_beside)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _END_SIGNALS:
        if _getsignal(number) is signal.SIG_DFL:
            _set_signal(number, _end_by)
    try:
        before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        if before in (-1, _wake):
            _wake = wake
        else:
            signal.set_wakeup_fd(before)
    except (OSError, ValueError):
        pass


def _hook_errors():
    """An error that nobody handles ends the program."""
    original = sys.excepthook

    @functools.wraps(original)
    def hook(kind, error, trace):
        profile = _running
        if profile is not None:
            profile._fail(error)
        original(kind, error, trace)

    sys.excepthook = hook


def _let_end():
    """Signals end the process by themselves again. Returns whether none is written to us any more."""
    global _wake
    if threading.current_thread() is not threading.main_thread():
        return False
    for number in _END_SIGNALS:
        if _getsignal(number) is _end_by:
            _set_signal(number, signal.SIG_DFL)
    try:
        before = signal.set_wakeup_fd(-1)
        if before not in (-1, _wake):
            signal.set_wakeup_fd(before)
        _wake = -1
    except (OSError, ValueError):
        return False
    return True


def _hidden(handler):
    return signal.SIG_DFL if handler is _end_by else handler


def _set_beside(signalnum, handler):
    """`signal.signal`: where a program asks for the default, the last batches still go out first."""
    is_ours = handler == signal.SIG_DFL and signalnum in _END_SIGNALS and _running is not None
    return _hidden(_set_signal(signalnum, _end_by if is_ours else handler))


def _end_by(number, _frame=None):
    profile = _running
    if profile is not None:
        profile._interrupt(number)
        profile.stop()
    _set_signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _end_stuck_by(number):
    """The same from another thread, which Python does not let change a handler."""
    try:
        import ctypes

        change = ctypes.CDLL(None).signal
        change.argtypes, change.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        change(number, None)
        os.kill(os.getpid(), number)
        time.sleep(1)
    finally:
        os._exit(128 + number)


def _forget():
    """In a forked child (a worker of a DataLoader): its parent records, and its threads are not here."""
    global _alone, _awaited, _awaiting, _running
    profile, _running = _running, None
    _alone, _awaited, _awaiting = None, None, threading.RLock()
    _pending.clear()
    _let_end()
    if profile is not None:
        profile._sender = False
        atexit.unregister(profile.stop)
    _local.thread = None


# ---- Ranks that no launcher placed -------------------------------------------------------------------------------------------------------------


class _Awaited:
    """What `python -m ranktrace` will record: it begins with the process group, which tells rank and world size, or with training.

    `is_child`: of a process that the program started, which is a rank only if it joins a group. `is_named`: all ranks know the run's name.
    `is_apart`: the process that started it is recorded itself. `batch`: begin, end and loader workers of the last one that was read.
    """

    def __init__(self, given, run, is_placed=False, is_named=True, is_child=False, is_apart=False):
        self.given = {**given, "run": run} if is_named else given
        self.run, self.is_placed, self.is_named, self.is_child, self.is_apart = run, is_placed, is_named, is_child, is_apart
        self.has_children = False
        self.is_beginning = False
        self.batch = None


_awaiting = threading.RLock()
_RUN_KEY = "ranktrace.run"
_AGREE_NS = 1_000_000_000  # the most that a rank waits for the name of the run, once


def _await(awaited):
    global _awaited
    _awaited = awaited
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)


def _recording():
    """The profile that runs; one that was awaited begins here."""
    awaited = _awaited
    if awaited is None:
        return _running
    group = _group()
    if group is None and awaited.is_child:
        return None
    return _begin_awaited(group)


def _begin_awaited(group):
    global _awaited
    # Another thread that trains waits here until the recording has begun: nothing that it does is lost.
    with _awaiting:
        awaited = _awaited
        if awaited is None or awaited.is_beginning:
            return _running
        awaited.is_beginning = True
        try:
            _begin(awaited, group)
        except Exception as error:
            _notice(f"recording cannot begin: {_reason(error)}")
        finally:
            _awaited = None
        return _running


def _begin(awaited, group):
    global _alone
    given = dict(awaited.given)
    batch = awaited.batch
    if group is None:
        _alone = awaited
        if not awaited.is_placed:
            given["run"] = awaited.run
    else:
        # A batch that was read before the ranks met is not of their first step.
        batch, _mark.time = None, None
    if group is not None and not awaited.is_placed:
        given["rank"], given["world_size"] = group
    if group is not None and not awaited.is_named:
        agreed = _agreed_run(awaited.run, group[0])
        if agreed is not None:
            given["run"] = agreed
    if group is not None and group[0] == 0 and awaited.is_apart:
        _notice(f'this program trained before it started its ranks: they are the run "{awaited.run}"')
    begun = Profile(**given)
    begun._is_whole = True
    begun.start(begins_step=False, epoch=None if batch is None else batch[0])
    if batch is not None and _running is begun:
        _add_first_batch(begun, *batch)


def _settle_awaited():
    """The program starts a profile of its own: what was awaited for the whole program comes first."""
    global _awaited
    awaited = _awaited
    if awaited is None:
        return
    if awaited.is_child and not awaited.is_beginning:
        _awaited = None
    else:
        _begin_awaited(_group())


def _group():
    """This process's rank and the number of ranks; None without a process group."""
    try:
        distributed = sys.modules["torch"].distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    except Exception:
        pass
    return None


def _agreed_run(run, rank):
    """Rank 0's name of the run, by the store in which the ranks met; None where it says none within a moment, or there is no store."""
    try:
        store = sys.modules["torch"].distributed.distributed_c10d._get_default_store()
        if rank == 0:
            store.set(_RUN_KEY, run)
            return run
        deadline = _now() + _AGREE_NS
        while not store.check([_RUN_KEY]):
            if _now() > deadline:
                return None
            time.sleep(0.01)
        agreed = store.get(_RUN_KEY).decode()
        return agreed if _RUN_NAME.fullmatch(agreed) else None
    except Exception:
        return None


def _exit_text(code):
    """What `sys.exit(code)` says of an error; None for an end in good order."""
    if code is None or isinstance(code, int):
        status = int(code or 0) & 0xFF
        return f"exit code {status}" if status != 0 and status not in _SIGNALLED else None
    lines = str(code).strip().splitlines()
    return lines[0] if lines else "exit code 1"


def _noting(function):
    """The function, whose error ends the recording."""

    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            if _running is not None:
                _running._fail(error)
            raise

    return call


class _Rank:
    """The target of a process that the program starts, and that may join a process group as one of its ranks."""

    def __init__(self, target, given, run, is_apart):
        self._target, self._given, self._run, self._is_apart = target, given, run, is_apart

    def __call__(self, *args, **kwargs):
        try:
            _await(_Awaited(self._given, self._run, is_child=True, is_apart=self._is_apart))
            _instrument_when_loaded()
        except Exception as error:
            _notice(f"a process of the program is not recorded: {_reason(error)}")
        if getattr(self._target, "__module__", "") == "torch.multiprocessing.spawn" and args and callable(args[0]):
            # Its target takes the program's function, and keeps the error of that to itself.
            args = (_noting(args[0]), *args[1:])
        try:
            return _noting(self._target)(*args, **kwargs)
        finally:
            # A forked process ends without its exit handlers.
            if _running is not None:
                _running.stop()


# Their processes are workers, not ranks.
_POOLS = ("multiprocessing.", "concurrent.", "torch.utils.data.", "joblib.")


def _follow_processes():
    """Processes that the program starts may be its ranks, as those of torch.multiprocessing.spawn are."""
    from multiprocessing import process

    original = process.BaseProcess.start

    @functools.wraps(original)
    def start(self):
        target, awaited = getattr(self, "_target", None), _awaited or _alone
        if awaited is not None and callable(target) and not str(getattr(target, "__module__", "")).startswith(_POOLS) and _is_importable():
            awaited.has_children = True
            # A program that is recorded itself is rank 0 of its run: the ranks that it starts are another.
            is_apart = awaited is _alone
            self._target = _Rank(target, awaited.given, f"{awaited.run[:58]}-ranks" if is_apart else awaited.run, is_apart)
        return original(self)

    process.BaseProcess.start = start


def _is_importable():
    """Whether a new process finds this module by the path that it gets from this one, to which its folder is added."""
    import importlib.machinery

    for _ in range(2):
        spec = importlib.machinery.PathFinder.find_spec("ranktrace", sys.path)
        if spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(__file__):
            return True
        sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    return False


# ---- Batches -----------------------------------------------------------------------------------------------------------------------------------

# Types: t time, l length, c count, s small, i string, n number.
_TABLES = {
    "tracks": "track:s kind:i name:i tid:c",
    "spans": "start:t length:l track:s name:i category:i id:c parent:c state:s",
    "instants": "time:t track:s name:i category:i",
    "counters": "time:t track:s name:i unit:i value:n",
    "steps": "start:t length:l track:s step:c overhead:l",
    "phases": "step:c name:i length:l calls:s",
    "collectives": "start:t length:l track:s op:i group:i sequence:c bytes:c id:c parent:c state:s peer:s",
    "rpcs": "start:t length:l track:s method:i side:i peer:i status:i trace:x span:y parentSpan:y id:c parent:c state:s",
    "clockSamples": "sent:t received:t remoteReceived:t remoteSent:t host:i hostEpoch:i",
    "wallClocks": "time:t width:l seconds:c nanos:s",
    "metadata": "key:i value:i",
    "numberArguments": "table:s row:s key:i value:n",
    "stringArguments": "table:s row:s key:i value:i",
    "ops": "row:s signature:i sequence:c isBackward:s allocated:c freed:c step:c module:i stack:i",
    "memory": "time:t track:s bytes:n total:n address:c device:s category:i",
}
_SCHEMAS = {name: [column.split(":") for column in columns.split()] for name, columns in _TABLES.items()}
_NUMBERS = {name: number for number, name in enumerate(_TABLES)}
_EVENT_TABLES = {"spans": "span", "instants": "instant", "counters": "counter", "steps": "step", "collectives": "collective"}


def _pack(value):
    """msgpack in its shortest form; integers beyond 32 bits as doubles, as JavaScript has them."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value < 128:
            return bytes((value,))
        if 0 <= value < 1 << 32:
            return _length(value, b"\xcc", b"\xcd", b"\xce")
        if -(1 << 31) <= value < 0:
            if value >= -32:
                return struct.pack("b", value)
            return b"\xd0" + struct.pack("b", value) if value >= -128 else b"\xd1" + struct.pack(">h", value) if value >= -32768 else b"\xd2" + struct.pack(">i", value)
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode("utf-8", "replace")
        head = bytes((0xA0 | len(data),)) if len(data) < 32 else _length(len(data), b"\xd9", b"\xda", b"\xdb")
        return head + data
    if isinstance(value, bytes):
        return _length(len(value), b"\xc4", b"\xc5", b"\xc6") + value
    if isinstance(value, list):
        head = bytes((0x90 | len(value),)) if len(value) < 16 else _length(len(value), b"", b"\xdc", b"\xdd")
        return head + b"".join(map(_pack, value))
    head = bytes((0x80 | len(value),)) if len(value) < 16 else _length(len(value), b"", b"\xde", b"\xdf")
    return head + b"".join(_pack(key) + _pack(one) for key, one in value.items())


def _length(size, one, two, four):
    if size < 256 and one:
        return one + struct.pack("B", size)
    return two + struct.pack(">H", size) if size < 65536 else four + struct.pack(">I", size)


def _unpack(data, at=0, depth=0):
    """One msgpack value of plain types and the place after it; of batches that this rank wrote earlier. Raises ValueError."""
    if depth > 8 or at >= len(data):
        raise ValueError("no msgpack of a batch")
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    fixed = {0xC0: None, 0xC2: False, 0xC3: True}
    if kind in fixed:
        return fixed[kind], at
    numbers = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    try:
        if kind in numbers:
            (value,) = struct.unpack_from(numbers[kind], data, at)
            return value, at + struct.calcsize(numbers[kind])
        if kind < 0x90:
            return _unpack_map(data, at, kind & 15, depth)
        if kind < 0xA0:
            return _unpack_list(data, at, kind & 15, depth)
        if kind < 0xC0:
            return data[at : at + (kind & 31)].decode(), at + (kind & 31)
        sizes = {0xC4: ">B", 0xD9: ">B", 0xC5: ">H", 0xDA: ">H", 0xDC: ">H", 0xDE: ">H", 0xC6: ">I", 0xDB: ">I", 0xDD: ">I", 0xDF: ">I"}
        (size,) = struct.unpack_from(sizes[kind], data, at)
        at += struct.calcsize(sizes[kind])
        if kind in (0xDE, 0xDF):
            return _unpack_map(data, at, size, depth)
        if kind in (0xDC, 0xDD):
            return _unpack_list(data, at, size, depth)
        if at + size > len(data):
            raise ValueError("no msgpack of a batch")
        piece = data[at : at + size]
        return (piece if kind in (0xC4, 0xC5, 0xC6) else piece.decode()), at + size
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise ValueError("no msgpack of a batch") from error


def _unpack_map(data, at, size, depth):
    found = {}
    for _ in range(size):
        key, at = _unpack(data, at, depth + 1)
        found[key], at = _unpack(data, at, depth + 1)
    return found, at


def _unpack_list(data, at, size, depth):
    found = []
    for _ in range(size):
        value, at = _unpack(data, at, depth + 1)
        found.append(value)
    return found, at


def _planes(values):
    """Integers as byte planes: all lowest bytes, then all second bytes, …"""
    raw = struct.pack(f"<{len(values)}Q", *values)
    width = max(1, (max(values).bit_length() + 7) // 8)
    return b"".join(raw[plane::8] for plane in range(width))


def _column(kind, values, tick):
    if kind == "n":
        raw = struct.pack(f"<{len(values)}d", *values)
        return b"".join(raw[plane::8] for plane in range(8))
    if kind in "xy":
        return b"".join(values)
    if kind == "l" and tick != 1:
        return _planes([value // tick for value in values])
    if kind != "t":
        return _planes(values)
    before = values[0]
    zigzag = []
    for value in values:
        difference = (value - before) // tick
        zigzag.append(2 * difference if difference >= 0 else -2 * difference - 1)
        before = value
    return struct.pack("<d", values[0]) + _planes(zigzag)


def _is_zero(kind, values):
    return not any(any(value) for value in values) if kind in "xy" else not any(values)


def encode_body(strings, tables):
    """The body of a batch: `tables` maps a table's name to its columns, lists of equal length. A column may be absent: all zeros."""
    packed = {}
    for name, schema in _SCHEMAS.items():
        columns = tables.get(name)
        rows = max((len(values) for values in columns.values()), default=0) if columns else 0
        if rows == 0:
            continue
        timed = [values for column, kind in schema if kind in "tl" for values in (columns.get(column),) if values]
        tick = 1000 if timed and all(value % 1000 == 0 for values in timed for value in values) else 1
        table = {"rows": rows, "tick": tick}
        for column, kind in schema:
            values = columns.get(column)
            if values and not _is_zero(kind, values):
                table[column] = _column(kind, values, tick)
        packed[name] = table
    return _pack({"strings": strings, "tables": packed})


def encode_batch(header, body, encoding="deflate"):
    """A batch of a header's fields and a body; see docs/batch-format.md."""
    if encoding == "deflate":
        # A fast level: the bytes that a better one saves cost more CPU than they are worth.
        compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
        data = compressor.compress(body) + compressor.flush()
    else:
        data = body
    return _pack({"v": 1, **header, "encoding": encoding, "size": len(body), "body": data})


class _Batch:
    """Rows on their way into a batch."""

    def __init__(self):
        self.strings = [""]
        self.indexes = {"": 0}
        self.tables = {}
        self.size = 0
        self.cut = 0  # texts that lost their end
        self.since = None

    def string(self, text):
        index = self.indexes.get(text)
        if index is None:
            short = text
            if len(text) > _STRING_BYTES_MAX // 4:
                whole = text.encode("utf-8", "replace")
                short = whole[:_STRING_BYTES_MAX].decode("utf-8", "ignore")
                self.cut += len(whole) > _STRING_BYTES_MAX
            index = len(self.strings)
            self.strings.append(short)
            self.indexes[text] = index
            self.size += (1 if short.isascii() else 4) * len(short) + 8
        return index

    def add(self, table, *values):
        columns = self.tables.get(table)
        if columns is None:
            columns = self.tables[table] = {name: [] for name, _ in _SCHEMAS[table]}
        for column, value in zip(columns.values(), values):
            column.append(value)
        self.size += 6 * len(values)
        return len(next(iter(columns.values()))) - 1

    def arguments(self, table, row, args, most=_ARGUMENTS_MAX):
        """Adds the arguments of an event; returns how many were left out."""
        left_out = 0
        try:
            items = list(args.items()) if isinstance(args, dict) else [("args", args)]
        except Exception:
            return 1
        for key, value in items[:most]:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                try:
                    self.add("numberArguments", _NUMBERS[table], row, self.string(_text(key)), float(value))
                except Exception:
                    left_out += 1
            else:
                self.add("stringArguments", _NUMBERS[table], row, self.string(_text(key)), self.string(_text(value)))
        return left_out + max(0, len(items) - most)

    def reaches(self, time, promised):
        if time < promised and (self.since is None or time < self.since):
            self.since = time

    @property
    def is_empty(self):
        return not self.tables

    @property
    def is_full(self):
        if self.size >= _BODY_BYTES_FULL or len(self.strings) >= _STRINGS_MAX:
            return True
        return any(len(next(iter(columns.values()))) >= _ROWS_MAX for columns in self.tables.values())


class _Rows:
    """Turns events into the rows of batches, on the thread that sends."""

    def __init__(self, profile, incarnation, host, pid):
        self._pid = pid
        self._profile = profile
        self._options = profile._options
        self._incarnation = incarnation
        self._host = host
        self._host_name = socket.gethostname()[:256] or "unknown"
        self._batch = _Batch()
        self._sequence = 0
        self._watermark = 0
        self._dropped_arguments = 0
        self.dropped_batches = 0
        self._recorded = dict.fromkeys(("span", "instant", "counter", "step", "collective", "rpc"), 0)
        self._phases = {}  # by thread: (start, length, name) of outermost spans since the last step
        self._entered = {}
        self._epochs = {}
        self._wall_ns = None
        self._place = ("", 0, False)
        self._requests = []
        self.newest_step = -1
        self._first_step = None
        # What recording costs a step beside its spans and per span, ns; measured once on this machine.
        self._cost = _recording_cost()
        self._spans_since_step = 0

    @property
    def is_empty(self):
        return self._batch.is_empty

    def drain(self):
        """Adds what the program recorded, up to a full batch; returns whether there is more."""
        facts, events = self._profile._facts, self._profile._events
        while facts:
            self.add_fact(*facts.popleft())
            if self._batch.is_full:
                return True
        while events:
            event = events.popleft()
            try:
                self._add(event)
            except Exception:
                self._profile._dropped_events += 1
            if self._batch.is_full:
                return True
        return False

    def _add(self, event):
        kind = type(event)
        if kind is _Span:
            self._add_span(event)
        elif kind is _Recorded:
            self._add_recorded_span(event)
        elif kind is _Step:
            self._add_step(event)
        else:
            self._add_point(event)

    def _time(self, clock):
        return clock - self._profile._epoch

    def _add_span(self, span):
        start, length = self._time(span.start), max(0, span.end - span.start)
        self._recorded["collective" if span.op is not None else "span"] += 1
        self._spans_since_step += 1
        outer = self._phases.setdefault(span.thread.number, [])
        # A span ends after all that it encloses; a part of the forward pass comes after the wait behind it.
        while outer and outer[-1][0] >= start and sum(outer[-1][:2]) <= start + length:
            outer.pop()
        if len(outer) < _ROWS_MAX:
            outer.append((start, length, _text(span.name)))
        if not span.announced:
            self._batch.reaches(start, self._watermark)
        self._add_span_row(span, start, length, 2 if span.announced else 0)

    def _add_span_row(self, span, start, length, state):
        batch = self._batch
        thread = span.thread.number
        if span.op is None:
            row = batch.add("spans", start, length, thread, batch.string(_text(span.name)), 0, 0, 0, state)
            table = "spans"
        else:
            if span.peer == 0 and (span.group in self._entered or len(self._entered) < _RUNNING_GROUPS_MAX):
                self._entered[span.group] = max(span.sequence, self._entered.get(span.group, 0))
            row = batch.add(
                "collectives", start, length, thread, batch.string(span.op), batch.string(span.group), span.sequence, span.bytes, 0, 0, state, span.peer
            )
            table = "collectives"
        if span.args is not None:
            self._dropped_arguments += batch.arguments(table, row, span.args)

    def _add_recorded_span(self, span):
        batch = self._batch
        start = self._time(span.start)
        self._recorded["span"] += 1
        batch.reaches(start, self._watermark)
        row = batch.add("spans", start, span.length, span.thread.number, batch.string(span.name), batch.string(span.category), 0, 0, 0)
        if span.args:
            self._dropped_arguments += batch.arguments("spans", row, span.args)

    def _add_step(self, step):
        start, end = self._time(step.start), self._time(step.end)
        batch = self._batch
        self._recorded["step"] += 1
        per_step, per_span = self._cost
        overhead = min(end - start, per_step + per_span * self._spans_since_step)
        self._spans_since_step = 0
        batch.add("steps", start, end - start, step.thread.number, step.number, overhead)
        phases = {}
        for begun, length, name in self._phases.pop(step.thread.number, ()):
            # What began before the step encloses it, as an epoch does.
            if begun < start:
                continue
            if name not in phases and len(phases) >= _PHASES_MAX:
                name = _OTHER_PHASES
            spent, calls = phases.get(name, (0, 0))
            phases[name] = (spent + length, calls + 1)
        for name, (length, calls) in phases.items():
            batch.add("phases", step.number, batch.string(name), length, calls)
        self.newest_step = step.number
        if self._first_step is None:
            self._first_step = step.number

    def _add_point(self, point):
        batch = self._batch
        time = self._time(point.time)
        batch.reaches(time, self._watermark)
        if point.unit is None:
            self._recorded["instant"] += 1
            row = batch.add("instants", time, point.thread.number, batch.string(point.name), 0)
            if point.args is not None:
                self._dropped_arguments += batch.arguments("instants", row, point.args)
        else:
            self._recorded["counter"] += 1
            batch.add("counters", time, point.thread.number, batch.string(point.name), batch.string(point.unit), point.value)

    def ended_threads(self):
        """Those that no event can come from any more, but for the one that steps, whose place is the rank's."""
        profile = self._profile
        return [thread for thread in list(profile._threads.values()) if thread.is_over and not thread.stack and thread is not profile._step_thread]

    def forget(self, threads):
        """A batch has named them, after all their events."""
        # Without the lock: a signal may end the program, and wait for this thread, while its main thread holds that.
        for thread in threads:
            self._profile._threads.pop(thread.number, None)
            self._phases.pop(thread.number, None)

    def add_samples(self, time, samples):
        """Counters of the process, on the thread that steps; the clock's `time`."""
        thread = self._profile._step_thread or next(iter(self._profile._threads.values()), None)
        if thread is None:
            return
        for name, value, unit in samples:
            point = _Point()
            point.thread, point.time, point.name, point.value, point.unit, point.args = thread, time, name, value, unit, None
            self._add_point(point)

    def add_fact(self, key, value):
        self._batch.add("metadata", self._batch.string(key), self._batch.string(value))

    def add_clock_samples(self, samples):
        batch = self._batch
        for sent, received, remote_received, remote_sent, host in samples:
            epoch = self._epochs.setdefault(host, remote_received)
            batch.add(
                "clockSamples", self._time(sent), self._time(received), remote_received - epoch, remote_sent - epoch, batch.string(host), batch.string(str(epoch))
            )

    def ask(self, first, last):
        """A request for steps at full detail: all detail is sent anyway, so only the answer is left to send."""
        if (first, last) not in self._requests and len(self._requests) < 8:
            self._requests.append((first, last))

    def _answer_requests(self, is_last):
        for request in list(self._requests):
            first, last = request
            if not is_last and self.newest_step < last:
                continue
            self._requests.remove(request)
            range_ = (max(first, self._first_step or 0), min(last, self.newest_step))
            has = self._first_step is not None and range_[0] <= range_[1]
            answer = {"fromStep": first, "toStep": last, "firstStep": range_[0] if has else None, "lastStep": range_[1] if has else None}
            self.add_fact("ranktrace.captured", json.dumps(answer))

    @property
    def has_answers(self):
        return any(self.newest_step >= last for _, last in self._requests)

    def take(self, is_complete, is_last=False):
        """The batch so far, encoded, with its id; None where it cannot be sent. `is_complete`: no event is left that began before this call."""
        profile = self._profile
        promised = self._watermark
        now = _now()
        if is_complete:
            self._watermark = max(promised, self._time(now if is_last else now - _MARGIN_NS))
        if is_last:
            self._add_recorded()
            if profile._ended_by is not None:
                self.add_fact("ranktrace.ended_by", profile._ended_by)
        else:
            self._announce_open()
            self._add_place(now)
        self._answer_requests(is_last)
        self._add_wall_clock(now)
        self._add_tracks()
        batch, self._batch = self._batch, _Batch()
        made = self._encoded(batch, promised, is_last)
        return made if made is not None else self._instead_of(batch, promised, is_last)

    def _instead_of(self, lost, promised, is_last):
        """Reports a batch that cannot be made: the rank's next ones may be lost, too, or there may be none."""
        for table, kind in _EVENT_TABLES.items():
            columns = lost.tables.get(table)
            if columns is None:
                continue
            # Rows of open spans are no events yet.
            rows = len(next(iter(columns.values()))) - columns.get("state", []).count(1)
            self._recorded[kind] -= rows
            self._profile._dropped_events += rows
        self._add_tracks()
        if is_last:
            self._add_recorded()
        batch, self._batch = self._batch, _Batch()
        return self._encoded(batch, promised, is_last)

    def beat(self):
        """A batch with nothing but the thread's place. The one under construction goes on, so the watermark stays."""
        own, self._batch = self._batch, _Batch()
        self._add_place(_now())
        batch, self._batch = self._batch, own
        return self._encoded(batch, self._watermark, False)

    def _encoded(self, batch, promised, is_last):
        profile, options, sequence = self._profile, self._options, self._sequence
        self._dropped_arguments += batch.cut
        header = {
            "run": options.run,
            "rank": options.rank,
            "worldSize": options.world_size,
            "incarnation": self._incarnation,
            "sequence": sequence,
            "host": self._host,
            "hostName": self._host_name,
            "pid": self._pid,
            "epoch": str(profile._epoch),
            "watermark": self._watermark,
        }
        if batch.since is not None and batch.since < promised:
            header["since"] = batch.since
        header["last"] = is_last
        header["dropped"] = {
            "events": profile._dropped_events,
            "arguments": self._dropped_arguments,
            "names": 0,
            "batches": self.dropped_batches,
        }
        try:
            _sort(batch.tables)
            data = encode_batch(header, encode_body(batch.strings, batch.tables))
        except Exception as error:
            self.dropped_batches += 1
            _notice(f"a batch cannot be encoded and is lost: {_reason(error)}")
            return None
        if len(data) > _BATCH_BYTES_MAX:
            self.dropped_batches += 1
            _notice(f"a batch of {len(data)} bytes is over the limit of {_BATCH_BYTES_MAX} and is lost")
            return None
        self._sequence += 1
        return data, f"{options.run}.{options.rank}.{self._incarnation}.{sequence}"

    def _announce_open(self):
        for thread in list(self._profile._threads.values()):
            for span in list(thread.stack):
                if not span.announced and span.start <= _now():
                    self._batch.reaches(self._time(span.start), self._watermark)
                    self._add_span_row(span, self._time(span.start), 0, 1)
                    span.announced = True

    def _add_recorded(self):
        counts = dict(self._recorded)
        for thread in list(self._profile._threads.values()):
            for span in list(thread.stack):
                counts["collective" if span.op is not None else "span"] += 1
                if not span.announced:
                    self._add_span_row(span, self._time(span.start), 0, 1)
        self.add_fact("ranktrace.recorded", json.dumps(counts))

    def _add_place(self, now):
        profile = self._profile
        if profile._ended_by is not None:
            return
        met, meeting = profile._meetings, profile._meeting
        if met > 0 or meeting is not None:
            self._entered[_MEETING] = met if meeting is not None else met - 1
        thread, current = profile._step_thread, profile._step
        if meeting is not None or thread is None or current is None:
            # Before the first step, the place of a rank is known by this call alone.
            if meeting is not None:
                collective = {"op": "init_process_group", "group": _MEETING, "sequence": met, "since": self._time(meeting)}
                self._send_place({"step": profile._first_step if current is None else current[0], "collective": collective}, now)
            elif met > 0:
                self._send_place({"step": profile._first_step}, now)
            return
        number, began = current
        place = {"step": number}
        spans = [span for span in list(thread.stack) if span.start >= began]
        forward = thread.forward
        if spans:
            place["phase"], place["since"] = _text(spans[0].name), self._time(spans[0].start)
        elif forward is not None and forward >= began:
            place["phase"], place["since"] = "forward", self._time(forward)
        else:
            ended = self._phases.get(thread.number)
            if ended and ended[-1][0] >= self._time(began):
                place["after"] = ended[-1][2]
        waiting = [span for span in spans if span.op is not None and span.peer == 0]
        if waiting:
            span = waiting[-1]
            place["collective"] = {"op": span.op, "group": span.group, "sequence": span.sequence, "since": self._time(span.start)}
        self._send_place(place, now)

    def _send_place(self, place, now):
        text, since, has_stayed = self._place
        shown = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
        if shown != text:
            self._place = (shown, now, False)
        elif has_stayed or now - since < _HEARTBEAT_NS:
            return
        else:
            self._place = (shown, since, True)
            place["entered"] = [list(one) for one in self._entered.items()]
            shown = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
        if len(shown.encode("utf-8", "replace")) > _STRING_BYTES_MAX:
            shown = json.dumps({"step": place["step"]})
        self.add_fact("ranktrace.running", shown)

    def _add_wall_clock(self, now):
        if self._wall_ns is not None and now - self._wall_ns < _WALL_CLOCK_NS:
            return
        self._wall_ns = now
        # The pair of readings that took the shortest time.
        readings = []
        for _ in range(5):
            before, wall, after = _now(), time.time_ns(), _now()
            readings.append((after - before, before, wall))
        width, before, wall = min(readings)
        self._batch.add("wallClocks", self._time(before), width, wall // 1_000_000_000, wall % 1_000_000_000)

    def _add_tracks(self):
        batch = self._batch
        for thread in list(self._profile._threads.values()):
            name = "main" if thread.name == "MainThread" else thread.name
            batch.add("tracks", thread.number, batch.string(thread.kind), batch.string(name), thread.tid)


def _sort(tables):
    """Outer spans before inner ones: by track, start, and longest first. Arguments follow their rows."""
    for name in ("spans", "collectives"):
        columns = tables.get(name)
        if columns is None:
            continue
        start, length, track = columns["start"], columns["length"], columns["track"]
        order = sorted(range(len(start)), key=lambda row: (track[row], start[row], -length[row]))
        if all(row == place for place, row in enumerate(order)):
            continue
        for column, values in columns.items():
            columns[column] = [values[row] for row in order]
        places = {row: place for place, row in enumerate(order)}
        for arguments in (tables.get("numberArguments"), tables.get("stringArguments")):
            if arguments is None:
                continue
            rows, owners = arguments["row"], arguments["table"]
            for index, owner in enumerate(owners):
                if owner == _NUMBERS[name]:
                    rows[index] = places[rows[index]]


def _recording_cost():
    """ns that recording takes of a step, and of a span in it: the least of some rounds, which nothing interrupted."""
    spans = 50
    scratch = collections.deque()
    thread = _Thread(0)
    least = None
    for _ in range(20):
        before = _now()
        for _ in range(spans):
            span = _Span("cost")
            span.thread = thread
            span.start = _now()
            thread.stack.append(span)
            span.end = _now()
            thread.stack.pop()
            if len(scratch) < _EVENTS_MAX:
                scratch.append(span)
        spent = (_now() - before) // spans
        least = spent if least is None else min(least, spent)
    # The calls around these lines cost about as much again.
    return 2 * least, 2 * least


# ---- Spool -------------------------------------------------------------------------------------------------------------------------------------

_MAGIC = b"RTSEG1\r\n"
_FRAME = struct.Struct("<II")


class _Waiting:
    """A batch that is not acknowledged: in memory, on disk (segment and offset of its frame), or both."""

    __slots__ = ("id", "data", "size", "spool", "segment", "offset", "sent_ns", "settled_ns", "was_published")

    def __init__(self, id, data, size, spool, segment=None, offset=0):
        self.id, self.data, self.size = id, data, size
        self.spool, self.segment, self.offset = spool, segment, offset
        self.sent_ns = self.settled_ns = None
        self.was_published = False


class _Spool:
    """Segment files of one life of a rank, as @ranktrace/sdk writes them: either client ships what the other left."""

    def __init__(self, directory, segment_bytes, keep=False):
        self.directory = directory
        self.bytes = 0
        self._segment_bytes = segment_bytes
        self._keep = keep
        self._file = None
        self._number = -1
        self._sizes = {}
        self._left = {}  # batches of a segment that are not acknowledged
        self.shortage = None

    def open(self, space):
        """Makes the folders; raises OSError or ValueError where they cannot be this user's alone."""
        if self._keep:
            os.makedirs(self.directory, exist_ok=True)
        else:
            # Other ranks of this host make the same folders, and remove them when they end: one may vanish at any moment.
            for left in range(200, -1, -1):
                try:
                    self._make_folders()
                    break
                except FileNotFoundError:
                    if left == 0:
                        raise
        if space is not None:
            _write_owner(self.directory, space, _this_thread())

    def _make_folders(self):
        root = os.path.dirname(os.path.dirname(self.directory))
        os.makedirs(os.path.dirname(root), exist_ok=True)
        for folder in (root, os.path.dirname(self.directory), self.directory):
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                pass
            _check_owner(folder, folder == root)

    def append(self, data, bytes_max, is_last=False):
        """Writes a batch; returns its segment and offset, or None where there is no room."""
        frame = _FRAME.pack(len(data), zlib.crc32(data)) + data
        try:
            if self._file is not None and self._sizes[self._number] >= self._segment_bytes:
                self._roll()
            if self.bytes + len(frame) > bytes_max + (_BATCH_BYTES_MAX if is_last else 0):
                self.shortage = "bound"
                return None
            if self._file is None:
                self._create()
            offset = self._sizes[self._number]
            written = os.pwrite(self._file, frame, offset)
            if written != len(frame):
                # A full disk leaves part of a frame; later frames must not follow garbage.
                os.ftruncate(self._file, offset)
                self.shortage = "ENOSPC"
                self._roll()
                return None
        except OSError as error:
            self.shortage = _code(error)
            return None
        self.shortage = None
        self._sizes[self._number] += len(frame)
        self._left[self._number] = self._left.get(self._number, 0) + 1
        self.bytes += len(frame)
        return self._number, offset

    def read(self, segment, offset):
        """The batch of a frame; None where it is damaged or gone."""
        try:
            with open(self._path(segment), "rb") as file:
                file.seek(offset)
                size, checksum = _FRAME.unpack(file.read(_FRAME.size))
                data = file.read(size) if size <= _BATCH_BYTES_MAX else b""
            return data if len(data) == size and zlib.crc32(data) == checksum else None
        except (OSError, struct.error):
            return None

    def release(self, segment):
        """One batch of the segment is acknowledged: without any left, its file goes."""
        self._left[segment] -= 1
        if self._left[segment] > 0 or self._keep:
            return
        if segment == self._number and self._file is not None:
            os.close(self._file)
            self._file = None
        self.bytes -= self._sizes.pop(segment, 0)
        self._left.pop(segment)
        try:
            os.unlink(self._path(segment))
        except OSError:
            pass

    def frames(self):
        """Segment, offset and batch of each frame of a leftover, in order; the torn end of a segment is skipped."""
        numbers = sorted(int(name[:-4]) for name in os.listdir(self.directory) if re.fullmatch(r"\d{6,}\.seg", name))
        for number in numbers:
            offset = len(_MAGIC)
            size = os.path.getsize(self._path(number))
            self._sizes[number] = size
            self.bytes += size
            while True:
                data = self.read(number, offset)
                if data is None:
                    break
                self._left[number] = self._left.get(number, 0) + 1
                yield number, offset, data
                offset += _FRAME.size + len(data)

    def close(self, space):
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if space is not None and os.path.isdir(self.directory):
            try:
                _write_owner(self.directory, space, "closed")
            except OSError:
                pass

    def remove(self):
        """Deletes the folder of a life whose batches are all acknowledged, and the run's where it is empty."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        try:
            for name in os.listdir(self.directory):
                os.unlink(os.path.join(self.directory, name))
            os.rmdir(self.directory)
            os.rmdir(os.path.dirname(self.directory))
        except OSError:
            pass

    def _path(self, segment):
        return os.path.join(self.directory, f"{segment:06d}.seg")

    def _create(self):
        os.makedirs(self.directory, 0o777 if self._keep else 0o700, exist_ok=True)
        path = self._path(self._number + 1)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            if os.write(file, _MAGIC) != len(_MAGIC):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            # Frames behind a part of the magic could not be read back, not even once the disk has room again.
            os.close(file)
            os.unlink(path)
            raise
        self._number += 1
        self._file = file
        self._sizes[self._number] = len(_MAGIC)
        self.bytes += len(_MAGIC)

    def _roll(self):
        os.close(self._file)
        self._file = None


def _code(error):
    return errno.errorcode.get(error.errno, "error") if error.errno else "error"


def _check_owner(folder, is_root=False):
    """Raises ValueError where others may write into a folder of the spool: a rank ships what lies there as its own."""
    if not hasattr(os, "getuid"):
        return
    about = os.lstat(folder)
    if is_root and stat.S_ISLNK(about.st_mode) and about.st_uid == os.getuid():
        about = os.stat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise ValueError(f'Cannot use spool "{folder}": it must be a directory of user {os.getuid()} that no other user can write (chmod go-w)')


def _process_space(host):
    try:
        return f"{host} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return host


def _start_of(thread):
    with open(f"{thread}/stat", "rb") as file:
        text = file.read()
    return text[text.rindex(b")") + 2 :].split(b" ")[19].decode()


def _this_thread():
    try:
        pid, _, thread = os.readlink("/proc/thread-self").split("/")
        return f"{pid} {thread} {_start_of('/proc/thread-self')}"
    except OSError:
        return str(os.getpid())


def _write_owner(directory, space, writer):
    with open(os.path.join(directory, "owner"), "w", encoding="utf-8") as file:
        file.write(f"{space}\n{writer}\n")


def _is_writer_dead(directory, space):
    """Whether the writer of a spool is certainly dead; doubt means no."""
    try:
        with open(os.path.join(directory, "owner"), encoding="utf-8") as file:
            writer_space, writer = (file.read().split("\n") + ["", ""])[:2]
    except OSError:
        writer_space = writer = ""
    if writer_space != space or not writer:
        newest = max(os.stat(os.path.join(directory, name)).st_mtime for name in [".", *os.listdir(directory)])
        return time.time() - newest > _QUIET_S
    if writer == "closed":
        return True
    found = re.fullmatch(r"([1-9]\d{0,9})(?: (\d+) (\d+))?", writer)
    if found is None:
        return False
    pid, thread, start = found.groups()
    try:
        if thread is None:
            os.kill(int(pid), 0)
            return False
        return _start_of(f"/proc/{pid}/task/{thread}") != start
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False


# ---- Wires -------------------------------------------------------------------------------------------------------------------------------------


class _Down(Exception):
    """The connection cannot be made or is gone; the text is the reason."""


def _readable(timeout, *files):
    """Those of these file descriptors that can be read within `timeout` s. `select.select` would refuse numbers from 1024 on."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(1000 * max(0.0, timeout))]


class _Wire:
    """A connection of bytes, read with a timeout by the one thread that sends."""

    def __init__(self, wake):
        self._wake = wake
        self._socket = None
        self._buffer = b""
        self.ends_ns = None  # the program's end: beyond it no answer to a connection is waited for

    def _connect(self, parts, port, is_secure, options):
        try:
            raw = socket.create_connection((parts.hostname, parts.port or port), _CONNECT_S)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = raw
            if is_secure:
                self._secure(parts, options)
        except OSError as error:
            raise _Down("connection refused" if isinstance(error, ConnectionRefusedError) else _reason(error)) from error

    def _secure(self, parts, options):
        context = _tls_context(options)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=parts.hostname)
        except ssl.SSLError as error:
            raise _Down(_tls_reason(error)) from error

    def _write(self, data):
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _Down("connection lost") from error

    def _read(self, timeout, wake=None):
        """Adds what arrives within `timeout` s, or until `wake` can be read, to the buffer; returns whether anything did."""
        try:
            waits = not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending())
            if waits:
                if self._socket.fileno() not in _readable(timeout, self._socket.fileno(), *(() if wake is None else (wake,))):
                    return False
            data = self._socket.recv(65536)
        except socket.timeout:
            return False
        except (OSError, ValueError) as error:
            raise _Down("connection lost") from error
        if not data:
            raise _Down("connection closed")
        self._buffer += data
        return True

    def _read_until(self, isDone, deadline):
        while not isDone():
            if self._is_late_for(deadline):
                raise _Down("no answer in time")
            self._read(min(0.2, (deadline - _now()) / 1e9))

    def _is_late_for(self, deadline):
        return _now() > deadline or (self.ends_ns is not None and _now() > self.ends_ns)

    def close(self):
        if self._socket is not None:
            try:
                self._socket.close()
            except OSError:
                pass
            self._socket = None


def _tls_context(options):
    """OpenSSL names no file in its errors."""
    file = options.ca
    try:
        context = ssl.create_default_context(cafile=options.ca)
        if options.cert:
            file = options.cert if options.key is None else f"{options.cert}, {options.key}"
            context.load_cert_chain(options.cert, options.key)
        return context
    except OSError as error:
        raise _Down(f'TLS file "{file}" cannot be used: {getattr(error, "reason", None) or error.strerror or _reason(error)}') from error


_WRONG_HOST = (62, 64)  # of OpenSSL's X509_V_ERR_…: HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH


def _tls_reason(error):
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _text(error.verify_message).rstrip(".")
        if error.verify_code in _WRONG_HOST:
            return f"the certificate is one of another host ({why}): name a host of the certificate in the URL"
        return f"the certificate is not trusted ({why}): set SSL_CERT_FILE or RANKTRACE_NATS_TLS_CA to the file of its issuer"
    # An alert is an answer of a server that speaks TLS, such as one that wants a certificate of the client.
    if "ALERT" in (error.reason or ""):
        return f"the server refuses the TLS connection ({error.reason})"
    return f"the server does not speak TLS ({error.reason or error})"


class _WebSocket(_Wire):
    """Straight to an aggregator: binary frames are batches, text frames messages."""

    flush_ns = 0

    def __init__(self, options, wake):
        super().__init__(wake)
        self._options = options
        self._heard = 0
        self._fragments = b""

    def connect(self):
        parts = self._options.servers[0]
        self._buffer = self._fragments = b""
        self._connect(parts, 443 if parts.scheme == "wss" else 80, parts.scheme == "wss", self._options)
        path = parts.path.rstrip("/")
        path = path if path.endswith("/v1/ingest") else path + "/v1/ingest"
        key = base64.b64encode(os.urandom(16)).decode()
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        lines = [
            f"GET {path}{'?' + parts.query if parts.query else ''} HTTP/1.1",
            f"Host: {host}{':' + str(parts.port) if parts.port else ''}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        if self._options.token:
            lines.append(f"Authorization: Bearer {self._options.token}")
        self._write(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._read_until(lambda: b"\r\n\r\n" in self._buffer or len(self._buffer) > 65536, _now() + int(_CONNECT_S * 1e9))
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1:2]
        if status in ([b"401"], [b"403"]):
            raise _Down("the aggregator wants its token; set option token, or variable RANKTRACE_TOKEN or RANKTRACE_RANK_TOKEN")
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        if status != [b"101"] or accept not in head:
            raise _Down(f"HTTP status {status[0].decode(errors='replace') if status else '?'} instead of a WebSocket; is the URL an aggregator's?")
        self._heard = _now()

    def send(self, waiting, data):
        self._frame(2, data)

    def ping(self, id):
        # A peer that vanished silently keeps TCP quiet for minutes.
        if _now() - self._heard > _SILENCE_NS:
            raise _Down("the aggregator is silent")
        self._frame(1, json.dumps({"type": "clock_ping", "id": id}).encode())

    def poll(self, timeout):
        """Messages that arrive within `timeout` s, each with the time of its arrival."""
        messages = []
        if self._has_frame() or self._read(timeout, self._wake):
            at = self._heard = _now()
            while self._has_frame():
                text = self._take()
                if text is not None:
                    messages.append((at, text))
        return messages

    def _frame(self, code, data):
        mask = os.urandom(4)
        size = len(data)
        head = bytes((0x80 | code,))
        if size < 126:
            head += bytes((0x80 | size,))
        elif size < 65536:
            head += b"\xfe" + struct.pack(">H", size)
        else:
            head += b"\xff" + struct.pack(">Q", size)
        # XOR of whole numbers is many times faster than of bytes.
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")).to_bytes(size, "little") if size else b""
        self._write(head + mask + masked)

    def _has_frame(self):
        head = self._head()
        return head is not None and len(self._buffer) >= head[0] + head[1]

    def _head(self):
        """Bytes of the next frame's head and of its payload; None without a whole head."""
        if len(self._buffer) < 2:
            return None
        size, at = self._buffer[1] & 127, 2
        if self._buffer[1] & 128:
            raise _Down("the aggregator sent a masked frame")
        if size >= 126:
            length = 2 if size == 126 else 8
            if len(self._buffer) < 2 + length:
                return None
            size, at = int.from_bytes(self._buffer[2 : 2 + length], "big"), 2 + length
        if size > _MESSAGE_BYTES_MAX * 4:
            raise _Down("the aggregator sent a frame that is too large")
        return at, size

    def _take(self):
        at, size = self._head()
        first = self._buffer[0]
        payload, self._buffer = self._buffer[at : at + size], self._buffer[at + size :]
        code = first & 15
        if code == 8:
            reason = payload[2:].decode(errors="replace")
            raise _Down(f"connection closed ({int.from_bytes(payload[:2], 'big')}{' ' + reason if reason else ''})")
        if code == 9:
            self._frame(10, payload)
            return None
        if code not in (0, 1):
            return None
        self._fragments += payload
        if len(self._fragments) > _MESSAGE_BYTES_MAX * 4:
            raise _Down("the aggregator sent a message that is too large")
        if not first & 128:
            return None
        whole, self._fragments = self._fragments, b""
        return _message_of(whole)

    def close(self):
        if self._socket is not None:
            try:
                self._frame(8, struct.pack(">H", 1000))
            except _Down:
                pass
        super().close()


def _message_of(data):
    try:
        message = json.loads(data) if len(data) <= _MESSAGE_BYTES_MAX * 4 else None
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


class _Nats(_Wire):
    """JetStream: the broker acknowledges a batch once its stream has it, and aggregators read the stream at their own pace."""

    flush_ns = _BROKER_FLUSH_NS

    def __init__(self, options, wake):
        super().__init__(wake)
        self._options = options
        self._turn = 0
        self._secret = os.urandom(16).hex()
        self._info = {}
        self._sent = {}  # by reply subject: the batch
        self._replies = 0
        self._pings = {}
        self._asked = ""  # the subject of a request that waits for its answer

    def connect(self):
        options = self._options
        parts = options.servers[self._turn % len(options.servers)]
        self._turn += 1
        self._buffer = b""
        self._sent = {}
        self._connect(parts, 4222, False, options)
        deadline = _now() + int(_CONNECT_S * 1e9)
        self._read_until(lambda: b"\r\n" in self._buffer or len(self._buffer) > 65536, deadline)
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        self._info = _message_of(line[5:]) if line.startswith(b"INFO ") else None
        if self._info is None:
            raise _Down("no NATS server answers there")
        if parts.scheme == "tls" or options.ca or self._info.get("tls_required"):
            try:
                self._secure(parts, options)
            except OSError as error:
                raise _Down(_reason(error)) from error
        self._write(b"CONNECT " + json.dumps(self._greeting()).encode() + b"\r\nPING\r\n")
        while True:
            self._read_until(lambda: b"\r\n" in self._buffer, deadline)
            line, _, self._buffer = self._buffer.partition(b"\r\n")
            if line == b"PONG":
                break
            if line.startswith(b"-ERR"):
                raise _Down(_nats_error(line))
        self._write(f"SUB {options.inbox}.> 1\r\nSUB ranktrace.v1.{options.run}.control 2\r\n".encode())
        self._make_stream(deadline)

    def send(self, waiting, data, secret=None):
        self._replies += 1
        reply = f"{self._options.inbox}.{self._replies}"
        self._sent[reply] = (waiting, waiting.was_published, secret is not None)
        waiting.was_published = True
        head = f"NATS/1.0\r\nNats-Msg-Id: {secret or self._secret}.{waiting.id}\r\n\r\n".encode()
        subject = f"ranktrace.v1.{self._options.run}.batch.{self._options.rank}"
        self._write(f"HPUB {subject} {reply} {len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n")

    def ping(self, id):
        self._replies += 1
        reply = f"{self._options.inbox}.{self._replies}"
        self._pings = {reply: id}
        self._publish(f"ranktrace.v1.{self._options.run}.clock", json.dumps({"type": "clock_ping", "id": id}).encode(), reply)

    def poll(self, timeout):
        messages = []
        # A message may come in parts, over TLS its head alone: what is in the buffer is no reason not to read on.
        found = self._next()
        if found is None and self._read(timeout, self._wake):
            found = self._next()
        at = _now()
        while found is not None:
            message = self._understand(*found)
            if message is not None:
                messages.append((at, message))
            found = self._next()
        return messages

    def _greeting(self):
        options = self._options
        greeting = {
            **{"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "python", "version": __version__, "protocol": 1},
            "name": f"ranktrace {options.run} rank {options.rank}",
        }
        if options.user:
            greeting.update(user=options.user, **({"pass": options.password} if options.password else {}))
        if options.nats_token:
            greeting["auth_token"] = options.nats_token
        seed, jwt = options.nkey, None
        if options.creds:
            # Read at each connect: credentials expire and are replaced in place.
            try:
                with open(options.creds, encoding="utf-8") as file:
                    jwt, seed = _creds(file.read())
            except (OSError, ValueError) as error:
                raise _Down(f"the NATS credentials cannot be read: {error}") from error
        if seed:
            key, public = _nkey(seed)
            greeting["sig"] = base64.urlsafe_b64encode(_ed25519_sign(key, str(self._info.get("nonce", "")).encode())).decode().rstrip("=")
            greeting.update({"jwt": jwt} if jwt else {"nkey": public})
        return greeting

    def _publish(self, subject, data, reply=""):
        self._write(f"PUB {subject} {reply + ' ' if reply else ''}{len(data)}\r\n".encode() + data + b"\r\n")

    def _next(self):
        """The next message: subject, status of its head, payload. Answers the server's pings. None when no whole one is there."""
        while True:
            line, separator, rest = self._buffer.partition(b"\r\n")
            if not separator:
                if len(self._buffer) > _MESSAGE_BYTES_MAX:
                    raise _Down("the NATS server sent a line that is too long")
                return None
            words = line.split()
            kind = words[0].upper() if words else b""
            if kind in (b"MSG", b"HMSG"):
                try:
                    size = int(words[-1])
                    head = int(words[-2]) if kind == b"HMSG" else 0
                    subject = words[1].decode()
                except (ValueError, IndexError) as error:
                    raise _Down("the NATS server sent a message that is none") from error
                if not 0 <= head <= size <= _MESSAGE_BYTES_MAX * 4:
                    raise _Down("the NATS server sent a message that is too large")
                if len(rest) < size + 2:
                    return None
                self._buffer = rest[size + 2 :]
                status = rest[:head].split(b"\r\n", 1)[0].split()[1:2]
                return subject, status[0].decode(errors="replace") if status else "", rest[head:size]
            self._buffer = rest
            if kind == b"PING":
                self._write(b"PONG\r\n")
            elif kind == b"-ERR":
                text = _nats_error(line)
                if b"permissions violation" in line.lower():
                    if self._asked and f'"{self._asked}"'.encode() in line:
                        self._asked = ""
                        return None
                    _notice_once(f"NATS: {line[5:].decode(errors='replace').strip()}: allow it for these credentials")
                else:
                    raise _Down(text)

    def _understand(self, subject, status, payload):
        """What a message means to the rank: an answer of the aggregator, or of the broker on its behalf."""
        if subject in self._sent:
            return self._acknowledged(self._sent.pop(subject), status, _message_of(payload) or {})
        message = _message_of(payload)
        if subject in self._pings:
            self._pings = {}
            return message
        # A broadcast is no answer: nobody sets our clock by one.
        is_control = subject == f"ranktrace.v1.{self._options.run}.control"
        return message if is_control and message is not None and message.get("type") != "clock_pong" else None

    def _acknowledged(self, sent, status, answer):
        waiting, was_published, is_renamed = sent
        error = answer.get("error")
        if status == "503":
            raise _Down("no JetStream stream takes the batches: there is no stream RANKTRACE, or the server shut its JetStream off (its log says why)")
        if isinstance(error, dict):
            if error.get("err_code") == 10054:
                return {"type": "refused", "batch": waiting.id, "reason": str(error.get("description"))}
            raise _Down(f"the stream RANKTRACE refuses batches: {error.get('description')}")
        if answer.get("duplicate") and not was_published:
            # The stream cannot have a batch that was never sent: another message has that id.
            if is_renamed:
                raise _Down("the stream RANKTRACE calls each batch a duplicate")
            data = waiting.data if waiting.data is not None else waiting.spool.read(waiting.segment, waiting.offset)
            waiting.was_published = False
            if data is not None:
                self.send(waiting, data, os.urandom(16).hex())
            return None
        return {"type": "ack", "batch": waiting.id}

    @property
    def is_late(self):
        """Whether the broker owes an answer for too long."""
        return any(waiting.sent_ns is not None and _now() - waiting.sent_ns > _PUBLISH_NS for waiting, _, _ in self._sent.values())

    def _make_stream(self, deadline):
        """Makes the stream where it is missing; no permission to look is fine, publishing will show."""
        answer = self._request("$JS.API.STREAM.INFO.RANKTRACE", b"", deadline)
        error = (answer or {}).get("error") or {}
        if error.get("err_code") != 10059:
            return
        size = 11 << 30
        while True:
            config = {
                **{"name": "RANKTRACE", "subjects": ["ranktrace.v1.*.batch.*"], "storage": "file", "retention": "limits", "discard": "old"},
                **{"max_msg_size": _STREAM_MESSAGE_BYTES, "duplicate_window": 120_000_000_000, "max_age": 86_400_000_000_000},
                **{"max_bytes": size, "num_replicas": 1},
            }
            answer = self._request("$JS.API.STREAM.CREATE.RANKTRACE", json.dumps(config).encode(), _now() + int(_CONNECT_S * 1e9))
            error = (answer or {}).get("error") or {}
            # The server reserves the bytes and refuses a stream for which it has no room.
            if error.get("err_code") not in (10002, 10023, 10047, 10122) or size <= 8 << 20:
                break
            size //= 2
        if error and error.get("err_code") != 10058:
            raise _Down(f"cannot create the stream RANKTRACE: {error.get('description')}")

    def _request(self, subject, data, deadline):
        self._replies += 1
        reply = f"{self._options.inbox}.{self._replies}"
        self._publish(subject, data, reply)
        # A server that does not permit the request says so, and sends no answer.
        self._asked = subject
        while self._asked and not self._is_late_for(deadline):
            found = self._next()
            if found is None:
                if self._asked:
                    self._read(min(0.2, (deadline - _now()) / 1e9))
                continue
            if found[0] == reply:
                if found[1] == "503":
                    raise _Down("the NATS server has no JetStream (yet); start it with JetStream on")
                return _message_of(found[2])
        return None


_STREAM_MESSAGE_BYTES = 1_048_576


def _nats_error(line):
    if b"Authorization" in line or b"authentication" in line.lower():
        return "the NATS server refused the credentials; check variables RANKTRACE_NATS_*"
    return f"the NATS server said {line[5:].decode(errors='replace').strip()}"


def _creds(text):
    """User JWT and seed of a .creds file. Raises ValueError."""
    blocks = re.findall(r"-{3,}BEGIN [^\n]*-{3,}\s*\n\s*([A-Za-z0-9_.=-]+)\s*\n\s*-{3,}END", text)
    if len(blocks) < 2:
        raise ValueError("a .creds file holds a JWT and a seed")
    return blocks[0], blocks[1]


def _nkey(seed):
    """Raw key and public name (U…) of a user seed (SU…). Raises _Down."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError) as error:
        raise _Down("the NKey seed is none: SU and 56 more characters") from error
    if len(raw) != 36 or raw[0] & 0xF8 != 18 << 3:
        raise _Down("the NKey seed is none: SU and 56 more characters")
    key = raw[2:34]
    public = bytes((20 << 3,)) + _ed25519_public(key)
    return key, base64.b32encode(public + struct.pack("<H", _crc16(public))).decode().rstrip("=")


def _crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
            crc &= 0xFFFF
    return crc


# Ed25519 (RFC 8032), for NATS's nonces alone: a signature takes some milliseconds, once a connection.
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_BASE_Y = 4 * pow(5, _P - 2, _P) % _P


def _base_point():
    square = (_BASE_Y * _BASE_Y - 1) * pow(_D * _BASE_Y * _BASE_Y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P != 0:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if x & 1:
        x = _P - x
    return x, _BASE_Y, 1, x * _BASE_Y % _P


def _add_points(left, right):
    a = (left[1] - left[0]) * (right[1] - right[0]) % _P
    b = (left[1] + left[0]) * (right[1] + right[0]) % _P
    c = 2 * left[3] * right[3] * _D % _P
    d = 2 * left[2] * right[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _multiply(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = _add_points(result, point)
        point = _add_points(point, point)
        number >>= 1
    return result


def _compress(point):
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _expand(key):
    digest = hashlib.sha512(key).digest()
    number = int.from_bytes(digest[:32], "little")
    return number & ((1 << 254) - 8) | 1 << 254, digest[32:]


def _ed25519_public(key):
    return _compress(_multiply(_expand(key)[0], _base_point()))


def _ed25519_sign(key, message):
    number, prefix = _expand(key)
    public = _compress(_multiply(number, _base_point()))
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % _L
    point = _compress(_multiply(r, _base_point()))
    h = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little") % _L
    return point + ((r + h * number) % _L).to_bytes(32, "little")


class _Files:
    """No aggregator: the spool is the output, for `ranktrace merge`."""

    flush_ns = 0

    def __init__(self, wake):
        self._wake = wake

    def connect(self):
        pass

    def poll(self, timeout):
        _readable(timeout, self._wake)
        return []

    def close(self):
        pass


# ---- The thread that sends ---------------------------------------------------------------------------------------------------------------------

_noticed = {}


def _notice_once(line):
    """At most one line of a kind in ten seconds."""
    now = _now()
    if now - _noticed.get(line, -_NOTICE_NS) < _NOTICE_NS:
        return
    if len(_noticed) >= 64:
        _noticed.clear()
    _noticed[line] = now
    _notice(line)


def _base36(number):
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def _host_id():
    """Processes with the same boot id, and the same offset of their time namespace, read the same clock, in containers too."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return (file.read().strip() + _clock_offset())[:256]
    except OSError:
        return socket.gethostname()[:256] or "unknown"


def _clock_offset():
    """``+500.0`` where this process reads a clock that is ahead of its host's by 500 s; empty where it reads the host's."""
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as file:
            for line in file:
                name, seconds, nanos = line.split()
                if name == "monotonic" and (int(seconds), int(nanos)) != (0, 0):
                    return "+" + seconds + "." + nanos
    except (OSError, ValueError):
        pass
    return ""


class _Sender(threading.Thread):
    """Makes batches and brings them to the aggregator in order, through every outage: spool first, then the wire."""

    def __init__(self, profile, beside=None):
        super().__init__(name="ranktrace", daemon=True)
        options = self._options = profile._options
        self._profile = profile
        self._host = _host_id()
        random = _base36(int.from_bytes(os.urandom(8), "little")).rjust(13, "0")
        own = f"{_base36(time.time_ns() // 1_000_000)}-{random}-{_base36(os.getpid())}"
        # What is recorded beside a rank begins no life of it.
        self._incarnation = f"by-{own}"[:32] if beside else own
        self._shipping = []  # processes that ship windows
        self._rows = _Rows(profile, self._incarnation, self._host, beside or os.getpid())
        # Wakes the thread: a zero, or the number of a signal.
        self._wake_read, self.wake = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self.wake, False)
        self._ended_by = None  # a signal, and when it came
        wire = {"web-socket": _WebSocket, "nats": _Nats}.get(options.transport)
        self._wire = _Files(self._wake_read) if wire is None else wire(options, self._wake_read)
        self._is_file = wire is None
        self._queue = collections.deque()  # not sent
        self._sent = collections.deque()  # sent, not acknowledged
        self._settled = collections.deque()  # acknowledged, and perhaps not yet on the receiver's disk
        self._memory = 0
        self._is_up = False
        self._attempt = 0
        self._retry_ns = 0
        self._away = set()
        self._flushed_ns = 0
        self._beaten_ns = 0
        self._flush_asked = False
        self._sampled_ns = 0
        # What is recorded beside a rank is no process that works for it.
        self._host_counters = None if beside or options.sample_interval_ms == 0 else _HostCounters()
        self._pinger = _Pinger()
        self._deadline_ns = None
        self._space = _process_space(self._host)
        name = f"rank-{options.rank}-{self._incarnation}"
        directory = os.path.join(options.spool_directory, options.run, name)
        self._spool = _Spool(directory, min(_SEGMENT_BYTES, -(-options.spool_bytes_max // 8)), keep=self._is_file)
        self._leftovers = []
        self._open_spool(directory)
        self._leave_note(directory)

    def stop(self, seconds):
        """Ends the thread once everything is acknowledged, or the time is up."""
        self._deadline_ns = self._wire.ends_ns = _now() + int(seconds * 1e9)
        self._wake_up()
        # An attempt to connect that nothing answers ends before the spool gets what is left.
        self.join(seconds + 1 + _CONNECT_S)

    def run(self):
        failures = 0
        while failures < 100:
            try:
                self._turn()
                if self._deadline_ns is not None:
                    self._finish()
                    return
                if self._ended_by is not None and _now() >= self._ended_by[1] + _STUCK_NS:
                    self._end_stuck()
                failures = 0
            except Exception as error:
                failures += 1
                _notice_once(f"sending failed and goes on: {_reason(error)}")
                time.sleep(0.1)
        _notice("sending failed 100 times in a row: recording ends")

    # One turn: connect, make a batch where one is due, send, read, ask for the clock

    def _turn(self):
        now = _now()
        if not self._is_up and now >= self._retry_ns:
            self._connect()
        self._flush_if_due()
        self._ship_windows()
        try:
            self._pump()
            self._ask_clock()
            if self._is_up and getattr(self._wire, "is_late", False):
                raise _Down("the NATS server did not answer in time")
            self._wait()
        except _Down as error:
            self._down(str(error))

    @property
    def _due_ns(self):
        """When the next batch is due, for what there is by now."""
        is_empty = not self._profile._events and not self._profile._facts and self._rows.is_empty
        return self._flushed_ns + (_HEARTBEAT_NS if is_empty else self._options.flush_interval_ms * 1_000_000)

    def _flush_if_due(self):
        now = _now()
        if now >= self._due_ns or self._flush_asked or self._rows.has_answers:
            self._flush()
        elif now >= self._beaten_ns + _HEARTBEAT_NS:
            self._beat()

    def _ship_windows(self):
        """Starts a process for each window that PyTorch's profiler has written: reading it here would take the program's own time."""
        self._shipping = [process for process in self._shipping if process.poll() is None]
        windows = self._profile._windows
        while windows:
            path = windows.popleft()
            try:
                command = [sys.executable, "-I", os.path.abspath(__file__), "--ship-window", path]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
                process.stdin.write(json.dumps({**self._profile._given, **self._options.place, **self._options.paths, "beside": os.getpid()}).encode())
                process.stdin.close()
                self._shipping.append(process)
            except Exception as error:
                _notice(f"a window of PyTorch's profiler cannot be shipped, and stays in \"{path}\": {_reason(error)}")

    def _sample_if_due(self):
        counters, now = self._host_counters, _now()
        if counters is None or now - self._sampled_ns < self._options.sample_interval_ms * 1_000_000:
            return
        self._sampled_ns = now
        try:
            self._rows.add_samples(now, counters.sample(list(self._profile._threads.values())))
        except Exception as error:
            self._host_counters = None
            _notice(f"the host is not sampled any more: {_reason(error)}")

    def _beat(self):
        """Where `flush_interval_ms` is long, a rank is heard each second. What it recorded leaves the bounded queue for the batch under construction."""
        self._add_own()
        if self._rows.drain():
            self._flush()
            return
        batch = self._rows.beat()
        if batch is not None:
            self._ship(*batch, False)
        self._beaten_ns = _now()

    def _add_own(self):
        self._sample_if_due()
        self._rows.add_clock_samples(self._pinger.take())

    def _flush(self, is_last=False):
        self._flush_asked = False
        self._add_own()
        ended = self._rows.ended_threads()
        has_more = True
        while has_more:
            has_more = self._rows.drain()
            ends = is_last and not has_more
            batch = self._rows.take(not has_more, ends)
            if batch is not None:
                self._ship(*batch, ends)
        self._rows.forget(ended)
        self._flushed_ns = self._beaten_ns = _now()

    def _ship(self, data, id, is_last):
        leftover = sum(spool.bytes for spool in self._leftovers)
        place = self._spool.append(data, self._options.spool_bytes_max - leftover, is_last)
        if place is None and self._spool.shortage == "ENOSPC":
            place = self._spool.append(data, self._options.spool_bytes_max - leftover, is_last)
        has_room = self._memory + len(data) <= _MEMORY_BYTES_MAX
        if self._is_file:
            if place is None:
                self._lose(f"the output cannot be written ({self._spool.shortage}, \"{self._spool.directory}\")")
            return
        if place is None and not has_room and not is_last:
            self._lose(f"the spool is full ({self._spool.shortage}, \"{self._spool.directory}\")")
            return
        keep = data if has_room or place is None else None
        if keep is not None:
            self._memory += len(data)
        self._queue.append(_Waiting(id, keep, len(data), self._spool, *(place or ())))

    def _lose(self, why):
        self._rows.dropped_batches += 1
        _notice_once(f"{why}: batches are dropped and counted")

    def _pump(self):
        while self._is_up and self._queue and len(self._sent) < _IN_FLIGHT_MAX:
            waiting = self._queue[0]
            data = waiting.data if waiting.data is not None else waiting.spool.read(waiting.segment, waiting.offset)
            if data is None:
                self._queue.popleft()
                self._rows.dropped_batches += 1
                _notice_once("a batch cannot be read back from the spool and is lost")
                self._release(waiting)
                continue
            waiting.sent_ns = _now()
            self._wire.send(waiting, data)
            self._sent.append(self._queue.popleft())

    def _ask_clock(self):
        if self._is_up and not self._is_file:
            id = self._pinger.due()
            if id is not None:
                self._wire.ping(id)

    def _wait(self):
        now = _now()
        # Events wake nobody: whether some have come is looked at each interval. A time that has passed would make this thread spin.
        until = now + min(self._options.flush_interval_ms * 1_000_000, _HEARTBEAT_NS)
        if self._deadline_ns is not None:
            until = min(until, self._deadline_ns)
        else:
            until = min(until, self._due_ns, self._beaten_ns + _HEARTBEAT_NS)
            if self._is_up and not self._is_file:
                until = min(until, self._pinger.next_ns)
        if not self._is_up:
            until = min(until, self._retry_ns)
        if self._ended_by is not None:
            until = min(until, self._ended_by[1] + _STUCK_NS)
        timeout = max(0.0, (until - now) / 1e9)
        if not self._is_up:
            _readable(timeout, self._wake_read)
        else:
            for at, message in self._wire.poll(timeout):
                self._receive(at, message)
        try:
            numbers = os.read(self._wake_read, 4096)
            if signal.SIGINT in numbers:
                self._profile._interrupt(signal.SIGINT)
            ends = [number for number in numbers if number in _END_SIGNALS]
            if ends and self._ended_by is None:
                self._profile._interrupt(ends[0])
                self._ended_by = (ends[0], _now())
        except BlockingIOError:
            pass
        self._let_go(_now() - self._wire.flush_ns)

    def _receive(self, at, message):
        kind = message.get("type")
        if kind == "ack":
            self._settle(message.get("batch"))
        elif kind == "refused":
            # The aggregator cannot read the id of a broken batch: an empty id stands for the oldest unanswered one.
            id = message.get("batch") or (self._sent[0].id if self._sent else "")
            if self._settle(id):
                self._rows.dropped_batches += 1
                _notice_once(f"batch {id} refused: {str(message.get('reason'))[:200]}")
        elif kind == "clock_pong":
            self._pinger.answer(at, message)
        elif message.get("run", self._options.run) == self._options.run:
            if kind == "record":
                first, last = message.get("fromStep"), message.get("toStep")
                if isinstance(first, int) and isinstance(last, int) and 0 <= first <= last < 1 << 53:
                    self._rows.ask(first, last)
            if kind in ("flush", "pull", "record"):
                self._flush_asked = True

    def _settle(self, id):
        for waiting in self._sent:
            if waiting.id == id:
                break
        else:
            return False
        self._sent.remove(waiting)
        waiting.settled_ns = _now()
        self._settled.append(waiting)
        if self._away:
            _notice(f"back at {self._peer}")
            self._away.clear()
        return True

    def _let_go(self, before):
        """Releases batches that the receiver has on its disk by now."""
        while self._settled and self._settled[0].settled_ns <= before:
            self._release(self._settled.popleft())

    def _release(self, waiting):
        if waiting.data is not None:
            self._memory -= waiting.size
            waiting.data = None
        spool = waiting.spool
        if waiting.segment is not None:
            spool.release(waiting.segment)
        if spool is not self._spool and not spool._left:
            self._leftovers.remove(spool)
            spool.remove()

    # Up and down

    def _connect(self):
        try:
            self._wire.connect()
        except _Down as error:
            self._down(str(error))
            return
        self._is_up = True
        self._attempt = 0
        self._pinger.start()

    def _down(self, reason):
        self._wire.close()
        self._is_up = False
        self._pinger.stop()
        # What was acknowledged a moment ago may be lost with the broker.
        again = [*self._settled, *self._sent]
        self._settled.clear()
        self._sent.clear()
        self._queue.extendleft(reversed(again))
        delay = min(2.0, 0.1 * 2 ** min(self._attempt, 10)) * (1 - int.from_bytes(os.urandom(2), "little") / 131072)
        self._attempt += 1
        self._retry_ns = _now() + int(delay * 1e9)
        if reason not in self._away and len(self._away) < 8:
            self._away.add(reason)
            _notice_once(f"away from {self._peer}: {reason}; batches wait in the spool")

    @property
    def _peer(self):
        server = self._options.servers[0]
        return f"{server.scheme}://{server.hostname}{':' + str(server.port) if server.port else ''}"

    def _wake_up(self):
        try:
            os.write(self.wake, b"\0")
        except OSError:
            pass

    # The end

    def close(self):
        """Once the thread has ended, and no signal is written here any more."""
        if not self.is_alive():
            os.close(self._wake_read)
            os.close(self.wake)

    def _end_stuck(self):
        """Ends the process by the signal that its main thread does not handle, unless the program has a handler of its own by now."""
        number, self._ended_by = self._ended_by[0], None
        if _getsignal(number) is not _end_by:
            return
        self._deadline_ns = _now() + self._options.exit_deadline_ms * 1_000_000
        try:
            self._finish()
        finally:
            _end_stuck_by(number)

    def _finish(self):
        self._ship_windows()
        self._flush(is_last=True)
        while (self._queue or self._sent) and _now() < self._deadline_ns:
            # A receiver that is away is not waited for.
            if not self._is_up and self._attempt > 0:
                break
            try:
                if not self._is_up:
                    self._connect()
                    continue
                self._pump()
                self._wait()
            except _Down as error:
                self._down(str(error))
        for process in self._shipping:
            # One that takes longer goes on alone.
            try:
                process.wait(max(0.0, (self._deadline_ns - _now()) / 1e9))
            except Exception:
                pass
        self._wire.close()
        rest = len(self._queue) + len(self._sent)
        if self._is_file:
            self._spool.close(None)
        elif rest == 0:
            self._spool.remove()
        else:
            lost = sum(1 for waiting in [*self._queue, *self._sent] if waiting.segment is None)
            self._rows.dropped_batches += lost
            self._spool.close(self._space)
            command = f"ranktrace merge {os.path.join(self._options.spool_directory, self._options.run)} -o {self._options.run}.pftrace"
            _notice(f'not everything was acknowledged: the rest stays in "{self._spool.directory}" for the next start of this rank; to make a trace of it: {command}')
        if self._rows.dropped_batches > 0:
            _notice(f"batches lost in all: {self._rows.dropped_batches} (the spool or its disk was full, they were refused, or damaged in the spool)")

    # The start

    def _open_spool(self, directory):
        try:
            if not self._is_file:
                self._adopt()
            self._spool.open(None if self._is_file else self._space)
        except (OSError, ValueError) as error:
            _notice(f"{_reason(error)}: batches are held in memory, and lost if the process is killed")

    def _adopt(self):
        """Takes over what earlier lives of this rank left."""
        parent = os.path.join(self._options.spool_directory, self._options.run)
        prefix = f"rank-{self._options.rank}-"
        try:
            names = sorted(name for name in os.listdir(parent) if name.startswith(prefix))
        except OSError:
            return
        for name in names:
            spool = _Spool(os.path.join(parent, name), _SEGMENT_BYTES)
            try:
                _check_owner(spool.directory)
                if not _is_writer_dead(spool.directory, self._space):
                    continue
                for segment, offset, data in spool.frames():
                    header, _ = _unpack(data)
                    id = f"{header['run']}.{header['rank']}.{header['incarnation']}.{header['sequence']}"
                    self._queue.append(_Waiting(id, None, len(data), spool, segment, offset))
                if spool._left:
                    self._leftovers.append(spool)
                else:
                    spool.remove()
            except (OSError, ValueError, KeyError, TypeError) as error:
                _notice(f"what an earlier process left is not shipped: {_reason(error)}")

    def _leave_note(self, directory):
        """For `ranktrace run`: where this rank records to."""
        folder = self._options.launch_directory
        if not folder:
            return
        options = self._options
        url = None if self._is_file else self._peer
        note = {"run": options.run, "rank": options.rank, "url": url, "spool": directory, "pid": self._rows._pid}
        path = os.path.join(folder, f"rank-{options.rank}-{self._incarnation}")
        try:
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(note, file)
            os.rename(f"{path}.new", f"{path}.json")
        except OSError:
            pass


class _HostCounters:
    """Counters of the process and its host, as the SDK has them. A thread's file costs some 15 µs, so of the threads those are asked that record, and of the
    processes that load their data (children of multiprocessing) the main threads."""

    def __init__(self):
        self._before = None

    def sample(self, threads):
        """Rates since the last call, as (name, value, unit); what the system does not tell is left out."""
        before, now = self._before, self._read(threads)
        self._before = now
        samples = [("rss", now["rss"], "bytes")] if "rss" in now else []
        if before is None:
            return samples
        passed = now["at"] - before["at"]
        for name, key in (("process cpu", "process"), ("shipper cpu", "sender")):
            if passed > 0 and key in now and key in before:
                samples.append((name, 100 * (now[key] - before[key]) / passed, "%"))
        total, busy = (after - earlier for after, earlier in zip(now["cores"], before["cores"]))
        if total > 0:
            samples.append(("system cpu", 100 * busy / total, "%"))
        ran = waited = 0
        for key, times in now["threads"].items():
            if key in before["threads"]:
                ran, waited = ran + times[0] - before["threads"][key][0], waited + times[1] - before["threads"][key][1]
        if ran > 0 and waited >= 0:
            samples.append(("cpu wait", 100 * waited / (ran + waited), "%"))
            if passed > 0:
                samples.append(("cpu wait time", 100 * waited / passed, "%"))
        return samples

    def _read(self, threads):
        now = {"at": _now(), "process": time.process_time_ns(), "sender": time.thread_time_ns(), "threads": {}, "cores": (0, 0)}
        own = [f"/proc/self/task/{thread.tid}/schedstat" for thread in threads[:_THREADS_ASKED_MAX]]
        multiprocessing = sys.modules.get("multiprocessing.process")
        children = [child.pid for child in list(getattr(multiprocessing, "_children", ()))][:_THREADS_ASKED_MAX]
        for path in [*own, *(f"/proc/{pid}/schedstat" for pid in children if pid is not None)]:
            try:
                # proc(5): ns on a CPU, ns ready without one.
                ran, waited = _first_line(path).split()[:2]
                now["threads"][path] = (int(ran), int(waited))
            except (OSError, ValueError):
                pass
        try:
            # proc(5): user nice system idle iowait irq softirq steal …; later ones are part of user and nice.
            times = [int(one) for one in _first_line("/proc/stat").split()[1:9]]
            now["cores"] = (sum(times), sum(times) - sum(times[3:5]))
            now["rss"] = int(_first_line("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            pass
        return now


_THREADS_ASKED_MAX = 16  # how long they waited for a CPU, of each kind


def _first_line(path):
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1024).split(b"\n", 1)[0]
    finally:
        os.close(file)


class _Pinger:
    """Asks the aggregator for its clock and keeps the answers with the shortest round trips: 16 pings at first, then 4 each second."""

    def __init__(self):
        self._samples = collections.deque(maxlen=64)
        self._burst = []
        self._left = 0
        self._id = 0
        self._sent_ns = None
        self.next_ns = 0

    def start(self):
        self._left = 16
        self._sent_ns = None
        self.next_ns = 0

    def stop(self):
        self._sent_ns = None
        self._keep_best()

    def due(self):
        """Id of a ping to send now, or None."""
        now = _now()
        if now < self.next_ns:
            return None
        if self._left == 0:
            self._keep_best()
            self._left = 4
            if self._sent_ns is not None or self.next_ns != 0 and now < self.next_ns:
                return None
        self._left -= 1
        self._id += 1
        self._sent_ns = _now()
        self.next_ns = self._sent_ns + _PING_NS
        return self._id

    def answer(self, at, pong):
        if self._sent_ns is None or pong.get("id") != self._id:
            return
        try:
            host = str(pong["host"])[:256]
            received, sent = int(pong["received"]), int(pong["sent"])
        except (KeyError, TypeError, ValueError):
            return
        self._burst.append((self._sent_ns, at, received, sent, host))
        self._sent_ns = None
        self.next_ns = _now() if self._left > 0 else _now() + _BURST_NS

    def take(self):
        taken = list(self._samples)
        self._samples.clear()
        return taken

    def _keep_best(self):
        burst = sorted(self._burst, key=lambda one: one[1] - one[0] - (one[3] - one[2]))
        self._burst = []
        self._samples.extend(burst[: (len(burst) + 1) // 2])


# ---- PyTorch -----------------------------------------------------------------------------------------------------------------------------------

_is_instrumented = False
_first_optimizer = None
_optimizer_steps = 0
_OTHER_STEPS_MAX = 16  # of another optimizer between two steps of the first one: networks that train in turns take 1 to about 5
_has_loader = False
_mark = threading.local()  # by thread: when the forward pass may have begun, and its parts before waits for a device
_WAIT_NS = 50_000  # a call that may wait for a device and takes so long has waited


def _learn_torch():
    """Once torch is loaded, its profiler sees our spans, too."""
    global _torch_record_function
    torch = sys.modules.get("torch")
    if torch is None or _torch_record_function is not None:
        return
    try:
        own, is_enabled = torch.autograd.profiler.record_function, torch.autograd._profiler_enabled
        # Entering torch's own costs a microsecond and more also where no profiler runs.
        _torch_record_function = lambda name: own(name) if is_enabled() else _NoSpan  # noqa: E731
    except AttributeError:
        pass
    _after_import("torch._dynamo.trace_rules", _skip_this_file)


def _skip_this_file(rules):
    """torch.compile leaves our calls to Python: it would warn of each clock that it cannot compile, and compile again for each span."""
    try:
        rules.add(__name__)
    except Exception:
        pass


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


_NoSpan = _Nothing()


def instrument_torch():
    """Steps by the optimizer; phases by PyTorch's own calls: `data`, `forward`, `backward`, `optimizer`, `synchronize`; and collectives. Once a process."""
    global _is_instrumented
    torch = sys.modules.get("torch")
    if _is_instrumented or torch is None:
        return
    _is_instrumented = True
    _learn_torch()
    parts = (_hook_process_group, _hook_optimizers, _hook_data_loaders, _hook_backward, _hook_data_parallel, _hook_device_waits, trace_collectives)
    for part in parts:
        try:
            part()
        except Exception as error:
            _notice(f"this version of PyTorch is not known well enough ({part.__name__.strip('_')}): {_reason(error)}")


def _hook_process_group():
    """The process group tells which rank this is, where no launcher does. A rank that waits in it for others is inside of it."""
    import torch

    if not torch.distributed.is_available():
        return
    original = torch.distributed.init_process_group

    @functools.wraps(original)
    def init(*args, **kwargs):
        profile = _running
        if profile is not None:
            profile._meeting = _now()
        try:
            made = original(*args, **kwargs)
        finally:
            if profile is not None:
                profile._meeting = None
                profile._meetings += 1
        _recording()
        group = _group()
        if _running is not None and group is not None and group[1] > 1 and not _running._options.is_placed:
            _notice(f"this process is rank {group[0]} of {group[1]}, but began to train before it said so: it is recorded alone")
        return made

    for module in (torch.distributed, torch.distributed.distributed_c10d):
        if getattr(module, "init_process_group", None) is original:
            module.init_process_group = init


def _begin_steps(profile):
    """The first step of a program that was not changed begins with its first batch, not with the process: imports are no training."""
    if profile._step is None:
        profile._step = (profile._first_step, _now())


_STATES_MAX = 10_000


def _go_on_from(profile, optimizer):
    """Before the first step of an optimizer: of one that goes on from a checkpoint, the steps go on from those that it has taken."""
    if profile._counts_steps:
        return
    try:
        profile._go_on_from(_steps_taken(optimizer))
    except Exception as error:
        _notice_once(f"how many steps the optimizer has taken is not known: {_reason(error)}")


def _steps_taken(optimizer):
    """As the optimizer's state counts them; 0 where it does not, as SGD. One value at most is read from a device, for that waits."""
    import torch

    taken = 0
    for state in itertools.islice(optimizer.state.values(), _STATES_MAX):
        step = state.get("step") if isinstance(state, dict) else None
        step = step.to_local() if hasattr(step, "to_local") else step
        if isinstance(step, torch.Tensor) and step.device.type != "cpu":
            is_captured = step.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
            return taken if is_captured else max(taken, int(step.item()))
        if step is not None:
            taken = max(taken, int(step))
    return taken if taken < _WHOLE_MAX else 0


def _hook_optimizers():
    from torch.optim import optimizer as module

    open_spans = weakref.WeakKeyDictionary()

    def is_inner():
        """Whether the step of another optimizer, or of this one's base class, calls this one: the hooks' caller is on the stack twice."""
        caller = sys._getframe(2)
        frame = caller.f_back
        while frame is not None and frame.f_code is not caller.f_code:
            frame = frame.f_back
        return frame is not None

    def begin(optimizer, args, kwargs):
        if _recording() is None:
            return
        _begin_steps(_running)
        if _optimizer_steps == 0:
            _go_on_from(_running, optimizer)
        # One that raised is still among the running ones: only the stack tells it from one that calls this.
        if getattr(_mark, "is_stepping", False) and is_inner():
            _mark.has_inner = True
            return
        _mark.is_stepping, _mark.has_inner = True, False
        if any(callable(one) for one in (*args, *kwargs.values())):
            # A closure has the passes in it, as Lightning's: what follows them is the optimizer's own work.
            if getattr(_mark, "time", None) is None:
                _set_mark(_now())
            return
        _end_failed_optimizer(open_spans.pop(optimizer, None))
        span = _begin_phase(_running, "optimizer")
        if span is not None:
            open_spans[optimizer] = span.thread.optimizer = span

    def hooked_end(optimizer, *_):
        if getattr(_mark, "has_inner", False) and is_inner():
            return
        _mark.is_stepping = False
        end(optimizer)

    def end(optimizer):
        global _optimizer_steps
        _optimizer_steps += 1
        profile = _running
        span = open_spans.pop(optimizer, None)
        if span is not None and span in span.thread.stack:
            span.thread.optimizer = None
            _end(span)
        elif profile is not None:
            _add_since_mark(profile, "optimizer")
        if profile is None:
            return
        if counts(optimizer) and not profile._counts_steps:
            if _is_in_backward():
                profile._ends_with_backward = True
                return
            profile._end_step()
        # Of a loop with a loader, the next batch comes first.
        _set_mark(_now(), is_forward=not _has_loader)

    others = weakref.WeakKeyDictionary()  # steps of each since the last one of the first optimizer
    most = 0

    def counts(optimizer):
        """A program may have several optimizers: the first one counts the steps, until it takes none while another one goes on and on."""
        nonlocal most
        global _first_optimizer
        first = _first_optimizer and _first_optimizer()
        if first is not optimizer:
            others[optimizer] = others.get(optimizer, 0) + 1
            if first is not None and others[optimizer] <= max(_OTHER_STEPS_MAX, 2 * most):
                return False
            _first_optimizer = weakref.ref(optimizer)
            most = 0
        else:
            most = max((most, *others.values()))
        others.clear()
        return True

    module.register_optimizer_step_pre_hook(begin)
    module.register_optimizer_step_post_hook(hooked_end)
    _hook_grad_scaler(end)


def _is_in_backward():
    """Whether a backward pass calls this, as that of a program does whose hooks update each parameter once its gradient is there."""
    try:
        return sys.modules["torch"]._C._current_graph_task_id() >= 0
    except AttributeError:
        return False


def _end_failed_optimizer(span):
    """No hook tells the end of a step that raised. The next call of PyTorch's on its thread shows that it is over: its span is then its begin."""
    if span is not None and span in span.thread.stack:
        span.thread.optimizer = None
        _end(span, span.start)


def _open_optimizer(profile):
    thread = _thread_of(profile)
    return None if thread is None else thread.optimizer


def _hook_grad_scaler(end):
    """Where gradients overflow, as at the beginning with float16, the scaler leaves the optimizer's step out: for the loop it is a step like any other."""
    import torch

    module = getattr(torch.amp, "grad_scaler", None) or torch.cuda.amp.grad_scaler
    original = module.GradScaler.step

    @functools.wraps(original)
    def step(scaler, optimizer, *args, **kwargs):
        taken = _optimizer_steps
        result = original(scaler, optimizer, *args, **kwargs)
        if taken == _optimizer_steps and _recording() is not None:
            _begin_steps(_running)
            if taken == 0:
                _go_on_from(_running, optimizer)
            end(optimizer)
        return result

    module.GradScaler.step = step


def _hook_data_loaders():
    from torch.utils.data import dataloader

    original = dataloader._BaseDataLoaderIter.__next__

    @functools.wraps(original)
    def next_batch(self):
        global _has_loader
        awaited = _awaited
        if awaited is not None and _group() is None:
            # A batch alone is no training: a program may look at one, and then start its ranks.
            start = _now()
            batch = original(self)
            awaited.batch = (start, _now(), getattr(self, "_num_workers", 0))
            _set_mark(awaited.batch[1])
            return batch
        profile = _recording()
        span = None
        if profile is not None:
            _begin_steps(profile)
            _has_loader = True
            _add_loader_workers(profile, getattr(self, "_num_workers", 0))
            _end_failed_optimizer(_open_optimizer(profile))
            span = _begin_phase(profile, "data")
        try:
            return original(self)
        finally:
            if span is not None:
                _end(span)
            if profile is not None:
                _set_mark(_now(), is_forward=True)

    dataloader._BaseDataLoaderIter.__next__ = next_batch


def _add_first_batch(profile, start, end, workers):
    """The first step of a recording that begins after its batch was read."""
    profile._step = (profile._first_step, start)
    _add_loader_workers(profile, workers)
    _add_phase(profile, _thread_of(profile), "data", start, end)


def _add_loader_workers(profile, workers):
    if workers > profile._loader_workers:
        # A loader that works ahead: what the loop waits for it is no work of this rank.
        profile._loader_workers = workers
        profile.add_metadata("ranktrace.loader_workers", workers)


def _hook_backward():
    import torch

    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*args, **kwargs):
        profile = _recording()
        depth = getattr(_backward, "depth", 0)
        if profile is None or depth > 0:
            # Checkpointed parts run a backward within the backward.
            _backward.depth = depth + 1
            try:
                return original(*args, **kwargs)
            finally:
                _backward.depth = depth
        _begin_steps(profile)
        _end_failed_optimizer(_open_optimizer(profile))
        # The forward pass: from the last batch, backward or step to here. What lies between is the program's own work.
        _add_since_mark(profile, "forward")
        span = _begin_phase(profile, "backward")
        _backward.depth, _backward.computed = 1, None
        try:
            return original(*args, **kwargs)
        finally:
            _backward.depth = 0
            if _data_parallel:
                _add_data_parallel(profile)
            if span is not None:
                _end(span)
            if profile._ends_with_backward:
                profile._ends_with_backward = False
                profile._end_step()
            _set_mark(_now())

    torch.autograd.backward = backward


_data_parallel = weakref.WeakSet()  # modules whose gradients are reduced on CPUs, in backward
_with_buckets = weakref.WeakSet()  # all modules whose gradients are reduced
_backward = threading.local()  # by thread: how many backwards run within each other, and when the outermost one's last gradient was computed


def _hook_data_parallel():
    """DistributedDataParallel reduces gradients below Python. On CPUs backward waits for that at its end: this shows from when on."""
    import torch

    if not torch.distributed.is_available():
        return
    module = torch.nn.parallel.DistributedDataParallel
    original = module.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        try:
            _with_buckets.add(self)
            _watch_data_parallel(self)
        except Exception as error:
            _notice(f"this version of PyTorch is not known well enough (DistributedDataParallel): {_reason(error)}")

    module.__init__ = init
    _hook_buckets(torch.distributed)


def _hook_buckets(distributed):
    """In the second forward pass gradients are put into other buckets, on which the ranks agree: each waits for the others there, once."""
    Reducer = getattr(distributed, "Reducer", None)
    original = getattr(Reducer, "_rebuild_buckets", None)
    if original is None:
        return

    @functools.wraps(original)
    def rebuild(reducer):
        began = _now()
        is_rebuilt = original(reducer)
        if is_rebuilt and _running is not None:
            of = next((module for module in list(_with_buckets) if getattr(module, "reducer", None) is reducer), None)
            _add_collective(_running, "broadcast", _data_parallel_group("DDP buckets", of), began)
        return is_rebuilt

    Reducer._rebuild_buckets = rebuild


def _watch_data_parallel(module):
    import torch

    # Of a graph's leaves, that of the last parameter mostly comes first. What it queues runs before what the module queues with the last gradient.
    parameters = [one for one in module.parameters() if one.requires_grad]
    if module.device_type != "cpu" or not parameters or not hasattr(parameters[-1], "register_post_accumulate_grad_hook"):
        return
    engine = torch.autograd.Variable._execution_engine

    def computed():
        # Of several modules in one backward, the first one waits for the gradients of its own before the next one's call comes.
        if _backward.computed is None:
            _backward.computed = _now()

    def begun(_parameter):
        if _running is not None and getattr(_backward, "depth", 0) == 1:
            engine.queue_callback(computed)

    parameters[-1].register_post_accumulate_grad_hook(begun)
    _data_parallel.add(module)


def _add_data_parallel(profile):
    try:
        # Every rank counts this backward, also where the parameter got no gradient.
        for group in dict.fromkeys(_data_parallel_group("DDP", module) for module in list(_data_parallel) if module.require_backward_grad_sync):
            _add_collective(profile, "all_reduce", group, _backward.computed)
    except Exception:
        profile._dropped_events += 1


def _data_parallel_group(name, module):
    """Stages of a pipeline reduce in groups of their own, which do not meet."""
    group = _group_name((getattr(module, "process_group", None),), {})
    return name if group in ("world", None) else f"{name} of {group}"


def _add_collective(profile, op, group, began):
    """One that ends now. `began`: None: it is counted, and not recorded."""
    span = profile._collective(op, group, 0, None)
    if span is None or began is None:
        return
    span.thread, span.start, span.end = _thread_of(profile), began, _now()
    _add_ended(profile, span)


def _hook_device_waits():
    """Calls that wait for a device: where the host runs ahead of it, the time of a step is in them, and is nobody's work."""
    import torch

    if not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return
    reading = ("item", "tolist", "cpu", "__bool__", "__float__", "__int__", "__index__")
    for owner, names in ((torch.Tensor, reading), (torch.cuda, ("synchronize",)), (torch.cuda.Event, ("synchronize",)), (torch.cuda.Stream, ("synchronize",))):
        for name in names:
            original = getattr(owner, name, None)
            if callable(original):
                setattr(owner, name, _waiting(original))


def _waiting(original):
    @functools.wraps(original)
    def call(*args, **kwargs):
        profile = _running
        if profile is None:
            return original(*args, **kwargs)
        began = _now()
        try:
            return original(*args, **kwargs)
        finally:
            ended = _now()
            if ended - began >= _WAIT_NS:
                _add_wait(profile, began, ended)

    return call


_pending = {}  # by id of a Work: it, its profile, and the span of the call that enqueued its collective
_PENDING_MAX = 4096  # beyond, a collective is the call that enqueues it


def _hook_work_waits():
    """On CPUs the host waits where it waits for what it enqueued: there, and no earlier, time is nobody's work."""
    import torch

    Work = torch.distributed.Work
    original = Work.wait
    if getattr(original, "_is_traced", False):
        return
    others = _waiting(original)

    @functools.wraps(original)
    def wait(work, *args, **kwargs):
        profile = _running
        # What a collective itself waits for is part of it.
        if profile is None or getattr(_local, "is_in_collective", False):
            return original(work, *args, **kwargs)
        span = _take_pending(profile, work) if _pending else None
        if span is None:
            return others(work, *args, **kwargs)
        try:
            return original(work, *args, **kwargs)
        finally:
            _end(span)

    wait._is_traced = True
    Work.wait = wait
    _after_import("torch.distributed._functional_collectives", _hook_tensor_waits)


def _hook_tensor_waits(functional):
    """Functional collectives, as tensor parallelism has them, are waited for by the first use of their tensor."""
    try:
        for name in ("trigger_wait", "wait"):
            setattr(functional.AsyncCollectiveTensor, name, _waiting(getattr(functional.AsyncCollectiveTensor, name)))
    except AttributeError:
        pass


def _put_pending(profile, span, work, args, kwargs):
    """Whether the collective that this call enqueued is recorded where it is waited for."""
    try:
        if not getattr(getattr(work, "wait", None), "_is_traced", False) or len(_pending) >= _PENDING_MAX:
            return False
        if any(tensor.device.type != "cpu" for tensor in _tensors(args, kwargs)):
            return False
        key = id(work)
        reference = weakref.ref(work, lambda _: _drop_pending(key))
        span.end = _now()
        span.thread.stack.remove(span)
        _pending[key] = (reference, profile, span)
        return True
    except Exception:
        return False


def _take_pending(profile, work):
    """The span of the wait for `work`, which begins now; None: its collective is not known, or was waited for."""
    try:
        _, owner, span = _pending.pop(id(work), (None, None, None))
        if owner is not profile:
            return None
        # One that a batch has shown while it was enqueued keeps its begin.
        return span if span.announced else profile._begin(span)
    except Exception:
        return None


def _drop_pending(key):
    """Nobody waited for it: the collective is the call that enqueued it."""
    _, profile, span = _pending.pop(key, (None, None, None))
    if profile is not None:
        _add_ended(profile, span)


def _add_wait(profile, began, ended):
    thread = _thread_of(profile)
    mark = getattr(_mark, "time", None)
    if mark is not None and thread is not None and not thread.stack:
        # What is before and behind it is one phase, whose name comes with its end.
        if len(_mark.parts) < _PHASES_MAX:
            _mark.parts.append((mark, began))
        _mark.time = ended
    if not profile._has_waited:
        profile._has_waited = True
        _say_for_whom(profile)
    _add_phase(profile, thread, "synchronize", began, ended)


def _say_for_whom(profile):
    """Without a device, what a rank waits for are its peers: no such wait ends before all of them are there."""
    try:
        if "synchronize" not in profile._options.phase_roles and not sys.modules["torch"].cuda.is_initialized():
            profile.add_metadata("phase_role.synchronize", "collective")
    except Exception:
        pass


def _set_mark(time, is_forward=False):
    """What follows may be the forward pass; `is_forward`: it is nothing else."""
    _mark.time, _mark.parts = time, []
    _, thread = getattr(_local, "thread", None) or (None, None)
    if thread is not None:
        thread.forward = time if is_forward else None


def _add_since_mark(profile, name):
    """A phase from the end of the one before to now, without waits for a device, unless something is open that encloses it."""
    began = getattr(_mark, "time", None)
    _mark.time = None
    thread = _thread_of(profile)
    if thread is not None:
        thread.forward = None
    if began is None or thread is not None and thread.stack:
        return
    for start, end in (*_mark.parts, (began, _now())):
        _add_phase(profile, thread, name, start, end)


def _begin_phase(profile, name):
    """The span of a call of PyTorch's; None directly inside of the program's own span of that name, which is the phase then."""
    thread = _thread_of(profile)
    around = thread.stack[-1].name if thread is not None and thread.stack else None
    return None if isinstance(around, str) and around == name else profile._begin(_Span(name))


def _add_phase(profile, thread, name, start, end):
    span = _Span(name)
    span.thread, span.start, span.end = thread, start, end
    _add_ended(profile, span)


def _add_ended(profile, span):
    """A span that was not open on the stack of its thread."""
    if span.thread is not None and len(profile._events) < _EVENTS_MAX:
        profile._events.append(span)
    else:
        profile._dropped_events += 1


_COLLECTIVES = {
    "all_reduce": "all_reduce", "all_reduce_coalesced": "all_reduce", "broadcast": "broadcast", "reduce": "reduce", "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather", "all_gather_single": "all_gather", "gather": "gather", "scatter": "scatter",
    "reduce_scatter": "reduce_scatter", "reduce_scatter_tensor": "reduce_scatter", "reduce_scatter_single": "reduce_scatter",
    "all_to_all": "all_to_all", "all_to_all_single": "all_to_all", "barrier": "barrier",
}
# Their first argument, where it is given by name.
_TENSORS = ("tensor", "tensors", "tensor_list", "output_tensor", "output_tensor_list", "output")
# Those whose first argument is an output, and their second one, the input.
_WITH_OUTPUT = {"all_gather", "reduce_scatter", "scatter", "all_to_all"}
_INPUTS = ("input_tensor", "input_tensor_list", "input_list", "input", "scatter_list")


def trace_collectives():
    """Records the calls of torch.distributed's collectives: of an asynchronous one on CPUs the wait for it, of one on GPUs the time to enqueue it."""
    import torch

    distributed = torch.distributed
    if not distributed.is_available():
        return
    try:
        _hook_work_waits()
    except AttributeError:
        pass  # This version has no such class: a collective is the call that enqueues it.
    for name, op in _COLLECTIVES.items():
        original = getattr(distributed, name, None)
        if original is None or getattr(original, "_is_traced", False):
            continue
        traced = _traced(original, functools.partial(_collective_part, op))
        _bind_traced(name, original, traced)
        # Callers inside of torch use the module's own names.
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if module is not None and getattr(module, name, None) is original:
            setattr(module, name, traced)
    _hook_buffers(distributed)
    for name, peer in (("send", "dst"), ("recv", "src")):
        original = getattr(distributed, name, None)
        if original is not None and not getattr(original, "_is_traced", False):
            _bind_traced(name, original, _traced(original, functools.partial(_send_or_receive, name, peer)))


def _hook_buffers(distributed):
    """DistributedDataParallel broadcasts its buffers, such as those of a BatchNorm, below Python, at the beginning of each forward pass."""
    original = getattr(distributed, "_broadcast_coalesced", None)
    if original is None:
        _notice("this version of PyTorch is not known well enough: broadcasts of buffers (DistributedDataParallel) are not recorded")
    elif not getattr(original, "_is_traced", False):

        def part_of(args, kwargs):
            given = {**dict(zip(("process_group", "tensors"), args)), **kwargs}
            return "broadcast", _group_name((given.get("process_group"),), {}), _payload((given.get("tensors"),), {}), None

        distributed._broadcast_coalesced = _traced(original, part_of)


def _bind_traced(name, original, traced):
    """In torch.distributed, and in the program's modules that have taken the name from there: a process that it starts loads them first."""
    # By their types alone: a program's lazy module or proxy may raise when it is asked for anything.
    spaces = [object.__getattribute__(module, "__dict__") for module in list(sys.modules.values()) if issubclass(type(module), types.ModuleType)]
    # The main module of a spawned process is a copy: its functions see the names of the original.
    main = object.__getattribute__(sys.modules["__main__"], "__dict__")
    spaces += [value.__globals__ for value in list(main.values()) if type(value) is types.FunctionType]
    for names in spaces:
        if names.get(name) is not original:
            continue
        module = str(names.get("__name__"))
        if module == "torch.distributed" or not module.startswith("torch."):
            names[name] = traced


def _traced(original, part_of):
    """`part_of`: the op, group, bytes and peer of a call with such arguments; None: it is not recorded."""

    @functools.wraps(original)
    def call(*args, **kwargs):
        # A collective may be another name of a second one, which it calls.
        profile = _running
        part = None if profile is None or getattr(_local, "is_in_collective", False) else part_of(args, kwargs)
        if part is None:
            return original(*args, **kwargs)
        span, work = profile._enter_collective(*part), None
        _local.is_in_collective = True
        try:
            work = original(*args, **kwargs)
            return work
        finally:
            _local.is_in_collective = False
            if span is not None and (work is None or not _put_pending(profile, span, work, args, kwargs)):
                _end(span)

    call._is_traced = True
    return call


def _collective_part(op, args, kwargs):
    group = _group_name(args, kwargs)
    return None if group is None else (op, group, _payload(args, kwargs, op), None)


def _send_or_receive(op, peer, args, kwargs):
    """What a rank receives from any other has no partner that is known when it begins."""
    given = {**dict(zip(("tensor", peer, "group", "tag", f"group_{peer}"), args)), **kwargs}
    try:
        rank, group, tag = given.get(peer), _group_name((), given), given.get("tag", 0)
        if group is None:
            return None
        if rank is None and given.get(f"group_{peer}") is not None:
            import torch

            rank = torch.distributed.get_global_rank(given["group"], given[f"group_{peer}"])
        return None if rank is None else (op, f"{group}, tag {tag}" if tag else group, _payload((), given), int(rank))
    except Exception:
        return None


def _group_name(args, kwargs):
    """None where this rank is not in the group: the call returns at once, and the group does not count it."""
    try:
        from torch.distributed import distributed_c10d as c10d

        outside = c10d.GroupMember.NON_GROUP_MEMBER
        if any(type(one) is type(outside) and one == outside for one in (*args, kwargs.get("group"))):
            return None
        group = kwargs.get("group")
        if group is None:
            group = next((one for one in args if isinstance(one, c10d.ProcessGroup)), None)
        if group is None or group is c10d.GroupMember.WORLD:
            return "world"
        return str(getattr(group, "group_name", "group"))
    except Exception:
        return "world"


def _payload(args, kwargs, op=None):
    """What this rank puts in, bytes: bandwidths are by the input."""
    try:
        given = None
        if op in _WITH_OUTPUT:
            given = args[1] if len(args) > 1 else next((kwargs[name] for name in _INPUTS if name in kwargs), None)
            if given is None and op == "all_gather":
                given = kwargs.get("tensor")
        # Of a scatter the root alone has an input.
        tensors = _tensors(args, kwargs) if given is None else _tensors((given,), {})
        return sum(one.numel() * one.element_size() for one in tensors)
    except Exception:
        return 0


def _tensors(args, kwargs):
    first = args[0] if args else next((kwargs[name] for name in _TENSORS if name in kwargs), None)
    return [one for one in (first if isinstance(first, (list, tuple)) else (first,)) if hasattr(one, "element_size")]


# ---- Windows of PyTorch's profiler -------------------------------------------------------------------------------------------------------------

_WINDOWS_MAX = 16  # that wait to be shipped; more are left where they are, and named
_WINDOW_DEADLINE_MS = 60_000  # for a window to be acknowledged; what is not stays in the spool
_WINDOW_MARKS = {"Record Window End", "Iteration Start: PyTorch Profiler"}
_has_discarded = False  # a window, which was said
_DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}


def trace_handler():
    """For `torch.profiler.profile(on_trace_ready=ranktrace.trace_handler())`: ships each window as part of this rank, shown beside its own steps.

    PyTorch writes the window's file on the calling thread, as for its own handlers; a process of its own reads and ships it.
    """

    def ready(prof):
        global _has_discarded
        profile = _recording()
        if profile is None:
            if not _has_discarded:
                _has_discarded = True
                _notice("windows of PyTorch's profiler are discarded: no profile records here; begin one with ranktrace.profile(), or python -m ranktrace")
            return
        try:
            path = os.path.join(tempfile.mkdtemp(prefix="ranktrace-window-"), "window.json")
            prof.export_chrome_trace(path)
            if len(profile._windows) >= _WINDOWS_MAX:
                _notice(f'too many windows of PyTorch\'s profiler wait to be shipped: one stays in "{path}"')
            else:
                profile._windows.append(path)
        except Exception as error:
            _notice(f"a window of PyTorch's profiler is lost: {_reason(error)}")

    return ready


def _ship_window(path):
    """The process that ships a window; its options come as JSON on stdin."""
    os.nice(10)
    given = json.load(sys.stdin)
    beside = given.pop("beside")
    try:
        with open(path, "rb") as file:
            tracks, spans, left_out = _read_window(*_events_of(file.read().decode("utf-8", "replace")), _wall_ahead_ns())
    except Exception as error:
        _notice(f'a window of PyTorch\'s profiler cannot be read, and stays in "{path}": {_reason(error)}')
        return 1
    recording = Profile(**{**given, "exit_deadline_ms": _WINDOW_DEADLINE_MS})
    if spans:
        recording.start(begins_step=False, epoch=spans[0].start, beside=beside)
        recording._threads = {track.number: track for track in tracks}
        recording.add_metadata("ranktrace.left_out", json.dumps(left_out))
        sender = recording._sender
        for span in spans:
            while len(recording._events) >= _EVENTS_MAX // 2 and sender and sender.is_alive():
                time.sleep(0.01)
            recording._events.append(span)
        recording.stop()
        if recording._events:
            _notice(f'a window of PyTorch\'s profiler cannot be shipped, and stays in "{path}"')
            return 1
    os.remove(path)
    os.rmdir(os.path.dirname(path))
    return 0


def _wall_ahead_ns():
    """ns to add to a wall time for this host's clock: of the pair of readings that took the shortest time."""
    readings = []
    for _ in range(100):
        before, wall, after = _now(), time.time_ns(), _now()
        readings.append((after - before, before - wall))
    return min(readings)[1]


def _events_of(text):
    """The base time and events of a file of torch.profiler, and how many are no JSON: PyTorch writes a quote in a span's name, or in a fact, as it is."""
    try:
        window = json.loads(text, strict=False)
        return int(window.get("baseTimeNanoseconds", 0)), window.get("traceEvents", ()), 0
    except ValueError:
        base, start = re.search(r'"baseTimeNanoseconds": *(\d+)', text), re.search(r'"traceEvents": *\[', text)
        if start is None:
            raise
    decoder, events, broken, at = json.JSONDecoder(strict=False), [], 0, start.end()
    while (begin := re.compile(r"[\s,]*(?=\{)").match(text, at)) is not None:
        try:
            event, at = decoder.raw_decode(text, begin.end())
            events.append(event)
        except ValueError:
            broken += 1
            # PyTorch begins each event on a line of its own.
            at = text.find("\n  {", begin.end())
            if at < 0:
                break
    return int(base[1]) if base else 0, events, broken


def _read_window(base, events, broken, ahead):
    """The lines and spans of a file of torch.profiler, by time, and the numbers of what is no span."""
    base += ahead
    now = _now()
    events = [event for event in events if isinstance(event, dict)]
    names = {}
    for event in events:
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[(event.get("pid"), event.get("tid"))] = str(event.get("args", {}).get("name", ""))
    tracks, spans = {}, []
    left_out = {"malformed": broken, "otherKinds": 0, "arguments": 0, "metadata": 0}
    for event in events:
        kind = event.get("ph")
        if kind != "X" or event.get("cat") == "Trace":
            # Arrows follow from the arguments; marks of the window say nothing more than its events.
            left_out["otherKinds"] += kind not in ("X", "M", "s", "f") and event.get("name") not in _WINDOW_MARKS
            continue
        try:
            one = _Recorded()
            one.start = base + round(event["ts"] * 1000)
            one.length = max(0, round(event["dur"] * 1000))
            # Some versions write kernels without a time at 0, which a batch could not hold beside the others' times.
            if abs(one.start - now) > _WHOLE_MAX // 2 or one.length > _WHOLE_MAX // 2:
                raise ValueError("no time of this window")
            one.name, one.category = str(event["name"]), str(event.get("cat", ""))
            key = (event.get("pid"), event.get("tid"), one.category in _DEVICE_CATEGORIES)
            if key not in tracks:
                tracks[key] = _window_track(len(tracks) + 1, *key, names.get(key[:2], ""))
            one.thread = tracks[key]
            one.args = event.get("args")
            spans.append(one)
        except (KeyError, TypeError, ValueError, OverflowError):
            left_out["malformed"] += 1
    spans.sort(key=lambda span: (span.start, -span.length))
    return list(tracks.values()), spans, left_out


def _window_track(number, pid, tid, is_device, name):
    if is_device:
        return _Thread(number, "stream", f"GPU {pid} · {name or f'stream {tid}'}", 0)
    # PyTorch's own names repeat the number: `thread 155 (pt_autograd_0)`.
    name = re.sub(r"^thread \d+ \((.+)\)$", r"\1", name)
    return _Thread(number, "thread", name or "thread", tid if isinstance(tid, int) and tid > 0 else 0)


# ---- Trainers ----------------------------------------------------------------------------------------------------------------------------------


def __getattr__(name):
    """Callbacks for trainers of others; each is made when it is asked for, as its base class is the trainer's."""
    make = {"LightningCallback": _lightning_callback, "TransformersCallback": _transformers_callback}.get(name)
    if make is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made = make()
    return made


class _Trained:
    """The profile of a trainer: the one that runs, as under `python -m ranktrace`, or one of its own."""

    def __init__(self, options):
        _Options(options)  # a wrong one raises here, and not in the midst of the training
        self._options = options
        self._own = None

    def begin(self, taken, **facts):
        """`taken`: steps that the training took before the checkpoint that it goes on from; None: not known."""
        if _recording() is None:
            self._own = Profile(**self._options).start(begins_step=False)
        instrument_torch()
        if _running is not None:
            # Not the optimizer's: a step of the trainer may have several, or none.
            _running._counts_steps = True
            _running._go_on_from(_whole(taken) or 0)
            _running.context(**facts)

    def end(self, error=None):
        if self._own is not None:
            self._own.__exit__(None, error)


def _number(value):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _lightning_callback():
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        from pytorch_lightning.callbacks import Callback

    class LightningCallback(Callback):
        """`Trainer(callbacks=[ranktrace.LightningCallback()])`: each batch is a step. Options are those of `profile`."""

        def __init__(self, **options):
            self._trained = _Trained(options)

        def on_train_start(self, trainer, module):
            last = getattr(trainer.fit_loop, "total_batch_idx", -1)  # over all epochs
            self._trained.begin(last + 1, accumulate_grad_batches=trainer.accumulate_grad_batches)

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            step()

        def on_train_end(self, trainer, module):
            self._trained.end()

        def on_exception(self, trainer, module, exception):
            self._trained.end(exception)

    return LightningCallback


def _transformers_callback():
    from transformers import TrainerCallback

    class TransformersCallback(TrainerCallback):
        """`Trainer(callbacks=[ranktrace.TransformersCallback()])`: each optimizer step is a step, and logged values are counters."""

        def __init__(self, **options):
            self._trained = _Trained(options)

        def on_train_begin(self, args, state, control, **_):
            self._trained.begin(
                state.global_step,
                batch_size=args.per_device_train_batch_size * args.gradient_accumulation_steps,
                gradient_accumulation_steps=args.gradient_accumulation_steps,
            )

        def on_step_end(self, args, state, control, **_):
            step()

        def on_log(self, args, state, control, logs=None, **_):
            for name, value in (logs or {}).items():
                if _number(value) is not None:
                    counter(name, value)

        def on_train_end(self, args, state, control, **_):
            self._trained.end()

    return TransformersCallback


def _after_import(name, then):
    module = sys.modules.get(name)
    if module is not None:
        then(module)
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


class _AfterImport:
    """Calls `then` with a module once that is loaded: a program may load it late, or never."""

    def __init__(self, name, then):
        self._name, self._then = name, then
        self._asking = set()  # threads that ask the other finders, which may ask this one

    def find_spec(self, name, path=None, target=None):
        thread = threading.get_ident()
        if name != self._name or thread in self._asking:
            return None
        self._asking.add(thread)
        try:
            spec = self._found_by_others(name, path, target)
        finally:
            self._asking.remove(thread)
        load = getattr(spec.loader, "exec_module", None) if spec is not None else None
        if load is None:
            return spec

        def exec_module(module):
            load(module)
            # Not before: a program may look for a module that it does not load.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._then(module)

        spec.loader.exec_module = exec_module
        return spec

    def _found_by_others(self, name, path, target):
        """An editable installation has a finder of its own, mostly behind that of `sys.path`."""
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                return spec
        return None


_USAGE = """usage: python -m ranktrace [--run NAME] [--url URL] [-m MODULE | FILE] [ARGUMENT …]

Runs a training program and records it, without a change: a step per optimizer step, phases by PyTorch's own calls.
Other options are RANKTRACE_* variables, those of @ranktrace/sdk; rank and world size come from the launcher, or from the program's process group.
"""


def _main(arguments):
    import runpy

    options = {}
    while arguments and arguments[0].startswith("--"):
        name, separator, value = arguments.pop(0)[2:].partition("=")
        if name == "help":
            sys.stdout.write(_USAGE)
            return 0
        if name == "version":
            sys.stdout.write(f"{__version__}\n")
            return 0
        if name not in ("run", "url", "directory"):
            _notice(f"unknown option --{name}: python -m ranktrace --help lists them")
            return 2
        if not separator and not arguments:
            _notice(f"--{name} needs a value")
            return 2
        options[name] = value if separator else arguments.pop(0)
    is_module = arguments[:1] == ["-m"]
    if is_module:
        arguments.pop(0)
    if not arguments:
        sys.stderr.write(_USAGE)
        return 2
    try:
        if not is_module:
            if arguments[0].startswith("-"):
                _notice(f"unknown option {arguments[0]}: python -m ranktrace --help lists them; options of Python stand before -m")
                return 2
            os.stat(arguments[0])
        # Those of the command alone: variables do not keep the program from running.
        _Options(options, {})
    except OSError as error:
        _notice(f"cannot open \"{arguments[0]}\": {error.strerror}")
        return 2
    except ValueError as error:
        _notice(str(error))
        return 2
    try:
        recording = profile(**options)
    except ValueError as error:
        _notice(f"this program is not recorded: {error}")
    else:
        _record_whole(recording, options)
    sys.argv = arguments
    try:
        if is_module:
            sys.path[0] = os.getcwd()
            _noting(runpy.run_module)(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            _noting(_run_file)(arguments[0])
    finally:
        if _running is not None:
            _running.stop()
        elif _awaited is not None and not _awaited.has_children:
            _notice("nothing is recorded: the program trained nothing with PyTorch, and called nothing of ranktrace")
    return 0


def _record_whole(recording, options):
    """Records the whole program: from now on, or once it is known which rank this is."""
    _instrument_when_loaded()
    about = recording._options
    if about.is_placed and about.is_run_named:
        recording._is_whole = True
        recording.start(begins_step=False)
    else:
        _await(_Awaited({**options, **about.paths}, about.run, about.is_placed, about.is_run_named))
        if not about.is_placed:
            _follow_processes()


def _run_file(path):
    """Runs a program as `python PATH` does: `__file__` is absolute, `sys.argv[0]` as it was given. runpy would give both one value."""
    import importlib.machinery
    import runpy

    whole = os.path.abspath(path)
    if os.path.isdir(path) or (os.path.isfile(path) and zipfile.is_zipfile(path)) or path.endswith(".pyc"):
        runpy.run_path(path, run_name="__main__")
        return
    with io.open_code(whole) as file:
        code = compile(file.read(), whole, "exec", dont_inherit=True)
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__, main.__cached__ = whole, sys.modules["builtins"], None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", whole)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _instrument_when_loaded():
    _after_import("torch", lambda _: instrument_torch())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ship-window"]:
        sys.exit(_ship_window(sys.argv[2]))
    # The program's own `import ranktrace` must find the profile that runs.
    import ranktrace as _ranktrace

    sys.exit(_ranktrace._main(sys.argv[1:]))

// A bounded ring of fixed rows in a file of shared memory: from any thread of a process that uses GPUs to the one reader of that process's rank.
//
//   | header 4096 B | row 0 | row 1 | …                                   | row capacity − 1 |
//                     |  free  |  published, to be read  |  reserved  |  free  |
//                              ^ read                                 ^ reserve
//
// Many threads write: one reserves rows by a compare-and-swap of `reserve`, fills them, and publishes each by storing its `turn` last. One reader takes
// rows in order while their turn is the one it expects, and moves `read`. The bytes of a name lie in the rows behind its RT_ROW_NAME.
//
// Invariant: read ≤ reserve ≤ read + capacity. A writer that finds no room drops its row and counts it in `dropped`: it never waits, and never allocates.
// Invariant: a row is written once a turn; its turn is position / capacity + 1 (mod 2³²), so a file of zeros holds no row.
// Invariant: no pointer is stored: a reader in another process, in any language, needs nothing but the bytes.
//
// src/row-layout.ts repeats these layouts; a test compares both.

#ifndef RANKTRACE_RING_H
#define RANKTRACE_RING_H

#include <stddef.h>
#include <stdint.h>

#define RT_RING_MAGIC 0x474e495255504752ull /* "RGPURING" in a file that begins with it */
#define RT_RING_VERSION 1
#define RT_HEADER_BYTES 4096
#define RT_ROW_BYTES 64
/* Bytes of a name in one row behind its RT_ROW_NAME: all but its turn. */
#define RT_NAME_BYTES_PER_ROW 60
/* Longer names of kernels are cut here, bytes. */
#define RT_NAME_BYTES_MAX 1920

enum rt_source { RT_SOURCE_CUPTI = 1, RT_SOURCE_NCCL = 2 };

enum rt_state {
  RT_STATE_STARTING = 0,
  RT_STATE_RECORDING = 1,
  RT_STATE_REFUSED = 2, /* `message` says why: training goes on without */
  RT_STATE_ENDED = 3,
};

struct rt_header {
  uint64_t magic;
  uint32_t version;
  uint32_t capacity; /* rows, a power of two */
  uint32_t pid;
  uint32_t source;   /* enum rt_source */
  uint32_t state;    /* enum rt_state */
  uint32_t library;  /* version of the library that reports: CUPTI's API version; NCCL's profiler interface 1 to 6 */
  uint64_t pid_start; /* field 22 of /proc/pid/stat: a later process with the same pid is another one */
  uint32_t is_read_inside; /* 1: the process reads it itself, and nobody else may; written by its reader */
  uint8_t padding0[20];

  uint64_t reserve; /* rows since the begin; written by writers */
  uint8_t padding1[56];
  uint64_t read; /* rows since the begin; written by the reader */
  uint8_t padding2[56];
  uint64_t dropped;         /* rows dropped because the ring was full */
  uint64_t dropped_records; /* records that CUPTI dropped (cuptiActivityGetNumDroppedRecords), or NCCL events without a free slot */
  uint64_t unknown_records; /* records of kinds or lengths that this library does not know */
  uint64_t dropped_names;   /* names beyond the table's limit: their rows have name 0 */
  uint8_t padding3[32];
  char message[512]; /* UTF-8, NUL-terminated: why it refused, or what it cannot see */
};

enum rt_row_kind {
  RT_ROW_KERNEL = 1,
  RT_ROW_COPY = 2,
  RT_ROW_SET = 3,
  RT_ROW_SYNC = 4,
  RT_ROW_CALL = 5,     /* a call of CUDA's runtime or driver on a thread of the host */
  RT_ROW_OVERHEAD = 6, /* time that CUPTI itself took */
  RT_ROW_COLLECTIVE = 7,
  RT_ROW_NAME = 8,
  RT_ROW_GROUP = 9, /* a communicator, before its first collective */
};

/* Bits of `detail` of a collective: what its times mean. A collective has a row when it was enqueued, and another when its end is known. */
enum rt_collective_detail {
  RT_COLLECTIVE_ENQUEUED = 1, /* start … end is the call that enqueued it, on the host */
  RT_COLLECTIVE_RAN = 2,      /* start … end is its work, as kernel or proxy events give it */
  RT_COLLECTIVE_P2P = 4,      /* a send or receive: `peer` is known, `sequence` counts this pair's and is 0 where NCCL gives none */
};

/* Times: ns of CLOCK_MONOTONIC. */
struct rt_row {
  uint32_t turn; /* stored last, with release order */
  uint8_t kind;  /* enum rt_row_kind */
  uint8_t detail; /* copy: CUpti_ActivityMemcpyKind; sync: CUpti_ActivitySynchronizationType; call: 1 runtime, 2 driver; collective: see above */
  uint16_t device; /* 0xffff: not known */
  uint64_t start;
  uint64_t end;
  uint32_t name;        /* number of a name, 0: none */
  uint32_t stream;      /* CUDA's number of the stream; a call: id of the host's thread (gettid) */
  uint32_t correlation; /* the same in a call and in the device work that it launched; 0: none */
  uint32_t context;     /* CUDA's number of the context, 0: not known */
  union {
    struct { uint32_t grid[3]; uint16_t block[3]; uint16_t registers; uint32_t shared_bytes; } kernel; /* shared memory: static + dynamic */
    struct { uint64_t bytes; uint32_t peer_device; uint8_t source, destination, is_async, padding; } copy; /* memory kinds of CUPTI; a set: destination alone */
    struct { uint32_t event; uint32_t padding; } sync;
    struct { uint64_t sequence; uint64_t bytes; uint32_t group; uint16_t peer; uint8_t padding[2]; } collective; /* name: AllReduce, …; group: number of its group row; peer 0xffff: none */
    struct { uint64_t communicator; uint32_t number, ranks, rank, nodes; } group; /* name: the communicator's name, 0: none */
    struct { uint32_t number, length; } name; /* `length` bytes, UTF-8, 60 a row behind the turns of the next ceil(length / 60) rows */
    uint8_t bytes[24];
  } u;
};

_Static_assert(sizeof(struct rt_header) <= RT_HEADER_BYTES, "the header fits its page");
_Static_assert(sizeof(struct rt_row) == RT_ROW_BYTES, "a row is one cache line");

/* One writer's side of a ring, mapped. */
struct rt_ring;

/*
 * Writes the path of this process's ring into `path`: FOLDER/KIND-PID-START.ring, START as `pid_start`, for processes of two containers may have one pid;
 * FOLDER/KIND-PID.ring where the start is not known. 0: errno says why.
 */
int rt_ring_path(char *path, size_t bytes, const char *folder, const char *kind);
/* Makes the file `path` (mode 0600, refused where it exists) and maps it. NULL: errno says why. */
struct rt_ring *rt_ring_create(const char *path, uint32_t capacity, enum rt_source source, uint32_t library);
struct rt_header *rt_ring_header(struct rt_ring *ring);
/* Copies the row (its turn is set here) into the ring. 0: dropped and counted. */
int rt_ring_write(struct rt_ring *ring, struct rt_row row);
/*
 * Number of a name, written into the ring when it is new; 0 where the table or the ring is full. Any thread. A C++ name is written as its source has it,
 * where the process has libstdc++, as Node and PyTorch do.
 */
uint32_t rt_ring_name(struct rt_ring *ring, const char *name);
void rt_ring_state(struct rt_ring *ring, enum rt_state state, const char *message);
/* After a fork the child has no ring: its calls do nothing. */
void rt_ring_forget(struct rt_ring *ring);

#endif

// The interface between NCCL and a profiler plugin, versions 1 to 6: our own declarations of its binary layout.
//
//   version   NCCL     new
//   1         2.23.4   collectives, sends and receives, proxy operations; functions and data types are numbers
//   2         2.24.3   functions and data types are strings
//   3         2.26.2   channels of kernels
//   4         2.27.3   the communicator is given to init; channels carry the GPU's timestamps
//   5         2.28.3   `type` has 64 bits
//   6         2.29.2   collectives of the copy engine
//
// NCCL looks for the symbol of its newest version first, then for older ones. The layouts are those that NVIDIA documents in NCCL's
// plugins/profiler/README.md and example headers. A struct here ends behind the last member that we read: NCCL owns the memory.
//
// Invariant: offsets are asserted below. They hold for 64-bit Linux, the only platform of NCCL.

#ifndef RANKTRACE_NCCL_PROFILER_ABI_H
#define RANKTRACE_NCCL_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* NCCL's result of a call: 0 is success. */
typedef int nccl_result;
/* NCCL's log. Levels: 2 warnings, 3 information. Flags: 1 initialisation. */
typedef void (*nccl_log)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

enum nccl_event {
  NCCL_EVENT_GROUP = 1 << 0,
  NCCL_EVENT_COLL = 1 << 1,
  NCCL_EVENT_P2P = 1 << 2,
  NCCL_EVENT_PROXY_OP = 1 << 3,
  NCCL_EVENT_PROXY_STEP = 1 << 4,
  NCCL_EVENT_PROXY_CTRL = 1 << 5,
  NCCL_EVENT_KERNEL_CHANNEL = 1 << 6,
  NCCL_EVENT_NET_PLUGIN = 1 << 7,
  NCCL_EVENT_GROUP_API = 1 << 8,
  NCCL_EVENT_COLL_API = 1 << 9,
  NCCL_EVENT_P2P_API = 1 << 10,
  NCCL_EVENT_KERNEL_LAUNCH = 1 << 11,
  NCCL_EVENT_CE_COLL = 1 << 12,
  NCCL_EVENT_CE_SYNC = 1 << 13,
  NCCL_EVENT_CE_BATCH = 1 << 14,
};

/* States of events, as recordEventState gives them: 0 to 7 and 19 are a proxy operation's. */
enum nccl_state {
  NCCL_STATE_PROXY_OP_LAST = 7,
  NCCL_STATE_PROXY_OP_IN_PROGRESS = 19,
  NCCL_STATE_KERNEL_CHANNEL_STOP = 22,
};

/* pid: the process that enqueued it; a parent from another process is an address there. */
struct nccl_proxy_op { pid_t pid; uint8_t channel; int peer; int steps; int chunk_bytes; int is_send; };

struct nccl_event_v1 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct { const char *name; uint64_t communicator; uint64_t sequence; uint8_t function; const void *send; void *receive; size_t count; int root; uint8_t data_type; } coll;
    struct { const char *name; uint64_t communicator; uint8_t function; void *buffer; uint8_t data_type; size_t count; int peer; } p2p;
    struct nccl_proxy_op proxy_op;
  } of;
};

/* Version 2 has a count of bytes before the channels; all that we read lies before it in both. */
struct nccl_event_v3 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct { const char *name; uint64_t communicator; uint64_t sequence; const char *function; const void *send; void *receive; size_t count; int root; const char *data_type; uint8_t channels_max; } coll;
    struct { const char *name; uint64_t communicator; const char *function; void *buffer; const char *data_type; size_t count; int peer; } p2p;
    struct nccl_proxy_op proxy_op;
    struct { uint8_t channel; } kernel_channel;
  } of;
};

/* What versions 4, 5 and 6 say of an event, by its type. */
union nccl_event_body_v4 {
  struct { uint64_t sequence; const char *function; const void *send; void *receive; size_t count; int root; const char *data_type; uint8_t channels; } coll; /* of the copy engine too, but for its channels */
  struct { const char *function; void *buffer; const char *data_type; size_t count; int peer; uint8_t channels; } p2p;
  struct nccl_proxy_op proxy_op;
  struct { uint8_t channel; uint64_t gpu_time; } kernel_channel; /* ns of the GPU's global timer */
};
struct nccl_event_v4 { uint8_t type; void *parent; int rank; union nccl_event_body_v4 of; };
struct nccl_event_v5 { uint64_t type; void *parent; int rank; union nccl_event_body_v4 of; };

/* From version 4 on; a state's arguments are a union, of which we read the kernel channel's. */
struct nccl_state_arguments_v4 { uint64_t gpu_time; };

_Static_assert(sizeof(void *) == 8, "NCCL is for 64-bit platforms");
_Static_assert(offsetof(struct nccl_event_v1, of) == 24 && offsetof(struct nccl_event_v5, of) == 24, "bodies begin at the same offset");
_Static_assert(offsetof(struct nccl_event_v1, of.coll.count) == 72 && offsetof(struct nccl_event_v1, of.coll.data_type) == 84, "v1 collective");
_Static_assert(offsetof(struct nccl_event_v1, of.p2p.count) == 64 && offsetof(struct nccl_event_v1, of.p2p.peer) == 72, "v1 send or receive");
_Static_assert(offsetof(struct nccl_event_v3, of.coll.count) == 72 && offsetof(struct nccl_event_v3, of.coll.data_type) == 88, "v2, v3 collective");
_Static_assert(offsetof(struct nccl_event_v3, of.coll.channels_max) == 96, "v3 channels");
_Static_assert(offsetof(struct nccl_event_v3, of.p2p.count) == 64 && offsetof(struct nccl_event_v3, of.p2p.peer) == 72, "v2, v3 send or receive");
_Static_assert(offsetof(struct nccl_event_v5, of.coll.count) == 56 && offsetof(struct nccl_event_v5, of.coll.data_type) == 72, "v4 to v6 collective");
_Static_assert(offsetof(struct nccl_event_v5, of.coll.channels) == 80, "v4 to v6 channels");
_Static_assert(offsetof(struct nccl_event_v5, of.p2p.peer) == 56 && offsetof(struct nccl_event_v5, of.p2p.channels) == 60, "v4 to v6 send or receive");
_Static_assert(offsetof(struct nccl_event_v5, of.kernel_channel.gpu_time) == 32, "v4 to v6 kernel channel");

/* The plugin's symbol `ncclProfiler_v<n>`, by version; `event` is a pointer to that version's struct, `arguments` to its union. */
struct nccl_profiler_v1 {
  const char *name;
  nccl_result (*init)(void **context, int *mask);
  nccl_result (*start)(void *context, void **handle, void *event);
  nccl_result (*stop)(void *handle);
  nccl_result (*record)(void *handle, int state, void *arguments);
  nccl_result (*finalize)(void *context);
};
struct nccl_profiler_v4 {
  const char *name;
  nccl_result (*init)(void **context, int *mask, const char *name, uint64_t communicator, int nodes, int ranks, int rank, nccl_log log);
  nccl_result (*start)(void *context, void **handle, void *event);
  nccl_result (*stop)(void *handle);
  nccl_result (*record)(void *handle, int state, void *arguments);
  nccl_result (*finalize)(void *context);
};
struct nccl_profiler_v5 {
  const char *name;
  nccl_result (*init)(void **context, uint64_t communicator, int *mask, const char *name, int nodes, int ranks, int rank, nccl_log log);
  nccl_result (*start)(void *context, void **handle, void *event);
  nccl_result (*stop)(void *handle);
  nccl_result (*record)(void *handle, int state, void *arguments);
  nccl_result (*finalize)(void *context);
};

#endif

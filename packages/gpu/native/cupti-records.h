// Layouts of CUPTI's activity records, as far as they are read: the first fields of each kind, which have kept their places since CUDA 9 (kernels: 8).
// cupti-layouts.c holds them against the real headers where those are found.

#ifndef RANKTRACE_CUPTI_RECORDS_H
#define RANKTRACE_CUPTI_RECORDS_H

#include <stdint.h>

enum cupti_kind {
  CUPTI_KIND_MEMCPY = 1,
  CUPTI_KIND_MEMSET = 2,
  CUPTI_KIND_DRIVER = 4,
  CUPTI_KIND_RUNTIME = 5,
  CUPTI_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_KIND_OVERHEAD = 17,
  CUPTI_KIND_MEMCPY_PEER = 22,
  CUPTI_KIND_SYNCHRONIZATION = 38,
};

enum cupti_result {
  CUPTI_OK = 0,
  CUPTI_NO_MORE_RECORDS = 12, /* CUPTI_ERROR_MAX_LIMIT_REACHED */
  CUPTI_NOT_INITIALIZED = 15,
  CUPTI_INVALID_KIND = 21,
  CUPTI_NO_PERMISSION = 35,
  CUPTI_OTHER_PROFILER = 36,    /* CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED */
  CUPTI_OTHER_SUBSCRIBER = 39,  /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
  CUPTI_UNKNOWN = 999,
};

/* Kernel4 to Kernel10. */
struct cupti_kernel {
  uint32_t kind;
  uint16_t cache_config, registers;
  uint64_t reserved0, start, end, completed;
  uint32_t device, context, stream, grid[3], block[3], static_shared, dynamic_shared, local_thread, local_total, correlation;
  int64_t grid_id;
  const char *name;
};

struct cupti_copy {
  uint32_t kind;
  uint8_t copy_kind, source, destination, flags; /* flags: 1 asynchronous */
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
};

struct cupti_peer_copy {
  uint32_t kind;
  uint8_t copy_kind, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, source_device, source_context, destination_device, destination_context, correlation;
};

struct cupti_set {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
};

struct cupti_sync {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};

struct cupti_call {
  uint32_t kind, callback;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};

struct cupti_overhead {
  uint32_t kind, overhead_kind, object_kind;
  uint8_t object[12];
  uint64_t start, end;
};

#endif

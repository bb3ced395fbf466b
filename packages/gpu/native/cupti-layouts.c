// Compiled only where CUDA's headers are found: our layouts of activity records are those of this version's own.

#include "cupti-records.h"

#include <cupti.h>
#include <stddef.h>

#define SAME(ours, our_field, theirs, their_field) _Static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field), #theirs "." #their_field)

#define KERNEL(theirs)                                  \
  SAME(cupti_kernel, registers, theirs, registersPerThread);  \
  SAME(cupti_kernel, start, theirs, start);             \
  SAME(cupti_kernel, end, theirs, end);                 \
  SAME(cupti_kernel, device, theirs, deviceId);         \
  SAME(cupti_kernel, context, theirs, contextId);       \
  SAME(cupti_kernel, stream, theirs, streamId);         \
  SAME(cupti_kernel, grid, theirs, gridX);              \
  SAME(cupti_kernel, block, theirs, blockX);            \
  SAME(cupti_kernel, static_shared, theirs, staticSharedMemory);   \
  SAME(cupti_kernel, dynamic_shared, theirs, dynamicSharedMemory); \
  SAME(cupti_kernel, correlation, theirs, correlationId);          \
  SAME(cupti_kernel, name, theirs, name)

KERNEL(CUpti_ActivityKernel4);
KERNEL(CUpti_ActivityKernel5);
KERNEL(CUpti_ActivityKernel9);
#if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10);
#endif

#define COPY(ours, theirs)                        \
  SAME(ours, copy_kind, theirs, copyKind);        \
  SAME(ours, source, theirs, srcKind);            \
  SAME(ours, destination, theirs, dstKind);       \
  SAME(ours, flags, theirs, flags);               \
  SAME(ours, bytes, theirs, bytes);               \
  SAME(ours, start, theirs, start);               \
  SAME(ours, end, theirs, end);                   \
  SAME(ours, device, theirs, deviceId);           \
  SAME(ours, context, theirs, contextId);         \
  SAME(ours, stream, theirs, streamId);           \
  SAME(ours, correlation, theirs, correlationId)

COPY(cupti_copy, CUpti_ActivityMemcpy);
COPY(cupti_peer_copy, CUpti_ActivityMemcpyPtoP);
SAME(cupti_peer_copy, source_device, CUpti_ActivityMemcpyPtoP, srcDeviceId);
SAME(cupti_peer_copy, destination_device, CUpti_ActivityMemcpyPtoP, dstDeviceId);
SAME(cupti_set, bytes, CUpti_ActivityMemset, bytes);
SAME(cupti_set, start, CUpti_ActivityMemset, start);
SAME(cupti_set, end, CUpti_ActivityMemset, end);
SAME(cupti_set, device, CUpti_ActivityMemset, deviceId);
SAME(cupti_set, stream, CUpti_ActivityMemset, streamId);
SAME(cupti_set, correlation, CUpti_ActivityMemset, correlationId);
SAME(cupti_set, memory_kind, CUpti_ActivityMemset, memoryKind);
SAME(cupti_sync, type, CUpti_ActivitySynchronization, type);
SAME(cupti_sync, start, CUpti_ActivitySynchronization, start);
SAME(cupti_sync, end, CUpti_ActivitySynchronization, end);
SAME(cupti_sync, correlation, CUpti_ActivitySynchronization, correlationId);
SAME(cupti_sync, context, CUpti_ActivitySynchronization, contextId);
SAME(cupti_sync, stream, CUpti_ActivitySynchronization, streamId);
SAME(cupti_sync, event, CUpti_ActivitySynchronization, cudaEventId);
SAME(cupti_call, callback, CUpti_ActivityAPI, cbid);
SAME(cupti_call, start, CUpti_ActivityAPI, start);
SAME(cupti_call, end, CUpti_ActivityAPI, end);
SAME(cupti_call, thread, CUpti_ActivityAPI, threadId);
SAME(cupti_call, correlation, CUpti_ActivityAPI, correlationId);
SAME(cupti_overhead, overhead_kind, CUpti_ActivityOverhead, overheadKind);
SAME(cupti_overhead, start, CUpti_ActivityOverhead, start);
SAME(cupti_overhead, end, CUpti_ActivityOverhead, end);

#define EQUAL(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)

EQUAL(CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
EQUAL(CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
EQUAL(CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
EQUAL(CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
EQUAL(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQUAL(CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
EQUAL(CUPTI_KIND_MEMCPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
EQUAL(CUPTI_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
EQUAL(CUPTI_NO_MORE_RECORDS, CUPTI_ERROR_MAX_LIMIT_REACHED);
EQUAL(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
EQUAL(CUPTI_INVALID_KIND, CUPTI_ERROR_INVALID_KIND);
EQUAL(CUPTI_NO_PERMISSION, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
EQUAL(CUPTI_OTHER_PROFILER, CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED);
EQUAL(CUPTI_OTHER_SUBSCRIBER, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
EQUAL(CUPTI_UNKNOWN, CUPTI_ERROR_UNKNOWN);

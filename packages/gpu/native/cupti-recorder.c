// See cupti-recorder.h.
//
//   CUPTI's thread ── a buffer is full ──► completed() ── each record ──► a row ──► ring
//   our thread, every 200 ms ──► cuptiActivityFlushAll          (buffers that are not full yet)
//
// Invariant: no lock of ours is held while CUPTI is called, for it calls back with locks of its own.
// Invariant: a record is read only where it lies whole in its buffer, by fields that every version has at the same place.

#define _GNU_SOURCE
#include "cupti-recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cupti-records.h"
#include "ring.h"

#define BUFFER_BYTES (128u << 10)
/* Buffers that CUPTI may hold at one time; beyond, it drops records and counts them. */
#define BUFFERS_MAX 512
#define FLUSH_MS 200
/* Callback ids of CUDA's runtime and driver; both have below 1,000. */
#define CALLBACKS_MAX 4096

/* Functions of libcupti. Those marked may be missing in older ones. */
static struct {
  int (*get_version)(uint32_t *);
  int (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *);
  int (*unsubscribe)(void *);
  int (*register_callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
  int (*enable)(int);
  int (*disable)(int);
  int (*flush_all)(uint32_t);
  int (*next_record)(uint8_t *, size_t, uint8_t **);
  int (*dropped_records)(void *, uint32_t, size_t *);
  int (*get_timestamp)(uint64_t *);
  int (*callback_name)(int, uint32_t, const char **);
  int (*result_string)(int, const char **);           /* may be missing */
  int (*register_timestamp)(uint64_t (*)(void));      /* CUDA 11.6 */
  int (*thread_id_type)(int);                         /* CUDA 11 */
  int (*enable_call[2])(uint32_t, uint8_t);           /* of the driver and the runtime; CUDA 12 */
} cupti;

static const struct { const char *name; void *function; int is_needed; } symbols[] = {
  {"cuptiGetVersion", &cupti.get_version, 1},
  {"cuptiSubscribe", &cupti.subscribe, 1},
  {"cuptiUnsubscribe", &cupti.unsubscribe, 1},
  {"cuptiActivityRegisterCallbacks", &cupti.register_callbacks, 1},
  {"cuptiActivityEnable", &cupti.enable, 1},
  {"cuptiActivityDisable", &cupti.disable, 1},
  {"cuptiActivityFlushAll", &cupti.flush_all, 1},
  {"cuptiActivityGetNextRecord", &cupti.next_record, 1},
  {"cuptiActivityGetNumDroppedRecords", &cupti.dropped_records, 1},
  {"cuptiGetTimestamp", &cupti.get_timestamp, 1},
  {"cuptiGetCallbackName", &cupti.callback_name, 1},
  {"cuptiGetResultString", &cupti.result_string, 0},
  {"cuptiActivityRegisterTimestampCallback", &cupti.register_timestamp, 0},
  {"cuptiSetThreadIdType", &cupti.thread_id_type, 0},
  {"cuptiActivityEnableDriverApi", &cupti.enable_call[0], 0},
  {"cuptiActivityEnableRuntimeApi", &cupti.enable_call[1], 0},
};

/* The first two are all calls, where single ones cannot be chosen. */
static const int kinds[] = {
  CUPTI_KIND_RUNTIME, CUPTI_KIND_DRIVER,
  CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY_PEER, CUPTI_KIND_MEMSET, CUPTI_KIND_SYNCHRONIZATION, CUPTI_KIND_OVERHEAD,
};
enum { KINDS = sizeof kinds / sizeof *kinds, CALL_KINDS = 2 };

/* Of calls, those that launch, copy, set or wait: all others are no part of a timeline of devices. */
static const char *const call_names[] = {
  "cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch", "cudaMemcpy", "cuMemcpy", "cudaMemset", "cuMemset",
  "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaStreamWaitEvent", "cudaEventRecord",
  "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuStreamWaitEvent", "cuEventRecord",
};

static struct {
  pthread_mutex_t lock; /* of starting and stopping alone */
  char path[4096], why[512];
  void *subscriber;
  pthread_t flusher;
  int has_flusher;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic(struct rt_ring *) the_ring;
static atomic_bool is_recording;
/* What to add to CUPTI's times for the monotonic clock, ns; 0 where CUPTI asks us for times. */
static _Atomic int64_t clock_ahead;
static atomic_int buffers;
/* By domain (0 driver, 1 runtime) and callback: number of the name + 1, 1 for a call that is left out, 0 for one not looked at yet. */
static _Atomic uint32_t call_numbers[2][CALLBACKS_MAX];

static uint64_t monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The reading with the shortest pair counts. */
static void compare_clocks(void) {
  uint64_t narrowest = UINT64_MAX;
  for (int turn = 0; turn < 5; turn++) {
    uint64_t theirs, before = monotonic();
    if (cupti.get_timestamp(&theirs) != CUPTI_OK) return;
    uint64_t after = monotonic();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    atomic_store(&clock_ahead, (int64_t)(before + narrowest / 2 - theirs));
  }
}

static void count(uint64_t *counter, uint64_t more) { __atomic_fetch_add(counter, more, __ATOMIC_RELAXED); }

static uint64_t on_clock(uint64_t time) { return time == 0 ? 0 : time + (uint64_t)atomic_load_explicit(&clock_ahead, memory_order_relaxed); }

static void request_buffer(uint8_t **buffer, size_t *size, size_t *records) {
  *records = 0;
  *size = 0;
  *buffer = NULL;
  if (atomic_fetch_add(&buffers, 1) < BUFFERS_MAX) *buffer = aligned_alloc(8, BUFFER_BYTES);
  if (*buffer == NULL) atomic_fetch_sub(&buffers, 1);
  else *size = BUFFER_BYTES;
}

/* Whether a callback is a call that is recorded; its name, as CUPTI has it. */
static int is_recorded(int is_runtime, uint32_t callback, char name[128]) {
  const char *text = NULL;
  name[0] = '\0';
  if (cupti.callback_name(is_runtime ? 2 : 1, callback, &text) == CUPTI_OK && text != NULL) snprintf(name, 128, "%s", text);
  for (size_t at = 0; at < sizeof call_names / sizeof *call_names; at++) if (strncmp(name, call_names[at], strlen(call_names[at])) == 0) return 1;
  return 0;
}

/* Number of the call's name; 0 for one that is left out. `cudaLaunchKernel_v7000` is shown as `cudaLaunchKernel`. */
static uint32_t name_of_call(struct rt_ring *ring, int is_runtime, uint32_t callback) {
  if (callback >= CALLBACKS_MAX) return 0;
  uint32_t known = atomic_load_explicit(&call_numbers[is_runtime][callback], memory_order_relaxed);
  if (known != 0) return known - 1;
  char name[128];
  uint32_t number = 0;
  if (is_recorded(is_runtime, callback, name)) {
    char *end = strstr(name, "_v");
    if (end != NULL) *end = '\0';
    end = strstr(name, "_pts");
    if (end != NULL) *end = '\0';
    number = rt_ring_name(ring, name);
    if (number == 0) return 0; // No room for it now.
  }
  atomic_store_explicit(&call_numbers[is_runtime][callback], number + 1, memory_order_relaxed);
  return number;
}

/* Records the calls that are shown, or no longer. A call that is not recorded costs nothing: a framework makes several for each launch. */
static int choose_calls(uint8_t enable) {
  char name[128];
  for (int is_runtime = 0; is_runtime < 2; is_runtime++) {
    if (cupti.enable_call[is_runtime] == NULL) return CUPTI_INVALID_KIND;
    for (uint32_t callback = 1; callback < CALLBACKS_MAX; callback++) {
      int result = is_recorded(is_runtime, callback, name) ? cupti.enable_call[is_runtime](callback, enable) : CUPTI_OK;
      if (result != CUPTI_OK) return result;
    }
  }
  return CUPTI_OK;
}

static void disable_all(void) {
  choose_calls(0);
  for (int at = 0; at < KINDS; at++) cupti.disable(kinds[at]);
}

static uint16_t small(uint32_t value) { return value < 0xffff ? (uint16_t)value : 0xffff; }

/* Bytes of a record of this kind that are read; 0: not known. */
static size_t bytes_read(uint32_t kind) {
  switch (kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL: return sizeof(struct cupti_kernel);
    case CUPTI_KIND_MEMCPY: return sizeof(struct cupti_copy);
    case CUPTI_KIND_MEMCPY_PEER: return sizeof(struct cupti_peer_copy);
    case CUPTI_KIND_MEMSET: return sizeof(struct cupti_set);
    case CUPTI_KIND_SYNCHRONIZATION: return sizeof(struct cupti_sync);
    case CUPTI_KIND_RUNTIME:
    case CUPTI_KIND_DRIVER: return sizeof(struct cupti_call);
    case CUPTI_KIND_OVERHEAD: return sizeof(struct cupti_overhead);
    default: return 0;
  }
}

static const char *const overhead_names[] = {"CUPTI overhead", "driver compiler", "CUPTI flushes a buffer", "CUPTI instruments", "CUPTI resources"};

/* Makes the row of a record. 0: there is none. */
static int row_of(struct rt_ring *ring, const uint8_t *record, struct rt_row *row) {
  union {
    uint32_t kind;
    struct cupti_kernel kernel;
    struct cupti_copy copy;
    struct cupti_peer_copy peer;
    struct cupti_set set;
    struct cupti_sync sync;
    struct cupti_call call;
    struct cupti_overhead overhead;
  } of;
  memcpy(&of.kind, record, sizeof of.kind);
  memcpy(&of, record, bytes_read(of.kind));
  memset(row, 0, sizeof *row);
  row->device = 0xffff;
  switch (of.kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
      *row = (struct rt_row){.kind = RT_ROW_KERNEL, .device = small(of.kernel.device), .start = of.kernel.start, .end = of.kernel.end,
        .stream = of.kernel.stream, .correlation = of.kernel.correlation, .context = of.kernel.context, .name = rt_ring_name(ring, of.kernel.name)};
      for (int axis = 0; axis < 3; axis++) {
        row->u.kernel.grid[axis] = of.kernel.grid[axis];
        row->u.kernel.block[axis] = small(of.kernel.block[axis]);
      }
      row->u.kernel.registers = of.kernel.registers;
      row->u.kernel.shared_bytes = of.kernel.static_shared + of.kernel.dynamic_shared;
      break;
    case CUPTI_KIND_MEMCPY:
      *row = (struct rt_row){.kind = RT_ROW_COPY, .detail = of.copy.copy_kind, .device = small(of.copy.device), .start = of.copy.start,
        .end = of.copy.end, .stream = of.copy.stream, .correlation = of.copy.correlation, .context = of.copy.context,
        .u.copy = {.bytes = of.copy.bytes, .peer_device = of.copy.device, .source = of.copy.source, .destination = of.copy.destination, .is_async = of.copy.flags & 1}};
      break;
    case CUPTI_KIND_MEMCPY_PEER:
      *row = (struct rt_row){.kind = RT_ROW_COPY, .detail = of.peer.copy_kind, .device = small(of.peer.source_device), .start = of.peer.start,
        .end = of.peer.end, .stream = of.peer.stream, .correlation = of.peer.correlation, .context = of.peer.context,
        .u.copy = {.bytes = of.peer.bytes, .peer_device = of.peer.destination_device, .source = of.peer.source, .destination = of.peer.destination, .is_async = of.peer.flags & 1}};
      break;
    case CUPTI_KIND_MEMSET:
      *row = (struct rt_row){.kind = RT_ROW_SET, .device = small(of.set.device), .start = of.set.start, .end = of.set.end, .stream = of.set.stream,
        .correlation = of.set.correlation, .context = of.set.context,
        .u.copy = {.bytes = of.set.bytes, .peer_device = of.set.device, .destination = (uint8_t)of.set.memory_kind, .is_async = of.set.flags & 1}};
      break;
    case CUPTI_KIND_SYNCHRONIZATION:
      *row = (struct rt_row){.kind = RT_ROW_SYNC, .detail = (uint8_t)of.sync.type, .device = 0xffff, .start = of.sync.start, .end = of.sync.end,
        .stream = of.sync.stream, .correlation = of.sync.correlation, .context = of.sync.context, .u.sync = {.event = of.sync.event}};
      break;
    case CUPTI_KIND_RUNTIME:
    case CUPTI_KIND_DRIVER: {
      int is_runtime = of.kind == CUPTI_KIND_RUNTIME;
      uint32_t name = name_of_call(ring, is_runtime, of.call.callback);
      if (name == 0) return 0;
      *row = (struct rt_row){.kind = RT_ROW_CALL, .detail = is_runtime ? 1 : 2, .device = 0xffff, .start = of.call.start, .end = of.call.end,
        .stream = of.call.thread, .correlation = of.call.correlation, .name = name};
      break;
    }
    default: {
      // Their kinds are bits from 1 << 16 on, and 0 for one that is not known.
      int place = of.overhead.overhead_kind >= 1u << 16 ? 1 + __builtin_ctz(of.overhead.overhead_kind >> 16) : of.overhead.overhead_kind == 1 ? 1 : 0;
      const char *name = overhead_names[place < 5 ? place : 0];
      *row = (struct rt_row){.kind = RT_ROW_OVERHEAD, .device = 0xffff, .start = of.overhead.start, .end = of.overhead.end, .name = rt_ring_name(ring, name)};
    }
  }
  row->start = on_clock(row->start);
  row->end = on_clock(row->end);
  return 1;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  struct rt_ring *ring = atomic_load(&the_ring);
  if (buffer == NULL) return;
  if (ring != NULL && valid <= size) {
    struct rt_header *header = rt_ring_header(ring);
    uint8_t *record = NULL;
    while (cupti.next_record(buffer, valid, &record) == CUPTI_OK && record != NULL) {
      uint32_t kind = 0;
      // Not every record tells its length: what is read of it must lie in the buffer.
      size_t left = (size_t)(buffer + valid - record);
      if (record < buffer || record >= buffer + valid || left < sizeof kind) break;
      memcpy(&kind, record, sizeof kind);
      size_t needed = bytes_read(kind);
      struct rt_row row;
      if (needed == 0 || left < needed) count(&header->unknown_records, 1);
      else if (row_of(ring, record, &row)) rt_ring_write(ring, row);
    }
    size_t dropped = 0;
    if (cupti.dropped_records(context, stream, &dropped) == CUPTI_OK) count(&header->dropped_records, dropped);
  }
  free(buffer);
  atomic_fetch_sub(&buffers, 1);
}

void rt_cupti_flush(void) {
  if (!atomic_load(&is_recording)) return;
  if (cupti.register_timestamp == NULL) compare_clocks();
  cupti.flush_all(0);
}

static void *flush_now_and_then(void *unused) {
  (void)unused;
  while (atomic_load(&is_recording)) {
    struct timespec pause = {.tv_nsec = FLUSH_MS * 1000000};
    nanosleep(&pause, NULL);
    rt_cupti_flush();
  }
  return NULL;
}

static void forget_in_child(void) {
  // CUPTI does not work in the child of a fork, and its thread is not there.
  atomic_store(&is_recording, 0);
  atomic_store(&the_ring, NULL);
  state.has_flusher = 0;
  state.path[0] = '\0';
  pthread_mutex_init(&state.lock, NULL);
}

static const char *refuse(const char *why, int result) {
  const char *text = NULL;
  if (result != CUPTI_OK && cupti.result_string != NULL) cupti.result_string(result, &text);
  if (result == CUPTI_OK) snprintf(state.why, sizeof state.why, "%s", why);
  else snprintf(state.why, sizeof state.why, "%s (%s, %d)", why, text == NULL ? "CUPTI" : text, result);
  struct rt_ring *ring = atomic_load(&the_ring);
  if (ring != NULL) rt_ring_state(ring, RT_STATE_REFUSED, state.why);
  return state.why;
}

static const char *why_of(int result) {
  switch (result) {
    case CUPTI_NOT_INITIALIZED:
    case CUPTI_UNKNOWN: return "CUDA's driver is not there, or finds no GPU";
    case CUPTI_NO_PERMISSION: return "this user may not profile: the driver wants administrators (NVreg_RestrictProfilingToAdminUsers)";
    case CUPTI_OTHER_SUBSCRIBER:
    case CUPTI_NO_MORE_RECORDS: return "another profiler of this process uses CUPTI";
    case CUPTI_OTHER_PROFILER: return "the program uses CUDA's old profiler";
    default: return "CUPTI refuses to record";
  }
}

/* Opens libcupti. Where the program has loaded it, that one counts; else RANKTRACE_CUPTI_LIBRARY, CUDA's folders, the loader's own. */
static const char *open_library(void) {
  static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
  static char name[4096];
  const char *chosen = getenv("RANKTRACE_CUPTI_LIBRARY");
  void *library = NULL;
  if (chosen != NULL && chosen[0] != '\0') {
    library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return refuse("RANKTRACE_CUPTI_LIBRARY cannot be opened", CUPTI_OK);
  }
  for (int mode = 0; mode < 2 && library == NULL; mode++) {
    for (size_t at = 0; at < sizeof sonames / sizeof *sonames && library == NULL; at++)
      library = dlopen(sonames[at], RTLD_NOW | RTLD_LOCAL | (mode == 0 ? RTLD_NOLOAD : 0));
  }
  const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
  static const char *const folders[] = {"extras/CUPTI/lib64", "lib64", "lib"};
  for (size_t home = 0; home < 3 && library == NULL; home++) {
    for (size_t folder = 0; folder < 3 && library == NULL && homes[home] != NULL; folder++) {
      snprintf(name, sizeof name, "%s/%s/libcupti.so", homes[home], folders[folder]);
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library == NULL) return refuse("no libcupti is found: it is part of CUDA's toolkit (RANKTRACE_CUPTI_LIBRARY names one)", CUPTI_OK);
  for (size_t at = 0; at < sizeof symbols / sizeof *symbols; at++) {
    void *function = dlsym(library, symbols[at].name);
    if (function == NULL && symbols[at].is_needed) {
      char old[128];
      snprintf(old, sizeof old, "this libcupti is too old: it has no %s", symbols[at].name);
      return refuse(old, CUPTI_OK);
    }
    memcpy(symbols[at].function, &function, sizeof function);
  }
  return NULL;
}

static void nothing(void *data, int domain, uint32_t callback, const void *about) { (void)data, (void)domain, (void)callback, (void)about; }

static const char *begin_recording(void) {
  const char *switched = getenv("RANKTRACE_GPU");
  if (switched != NULL && strcmp(switched, "0") == 0) return refuse("RANKTRACE_GPU=0", CUPTI_OK);
  void *torch = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (torch != NULL) {
    dlclose(torch);
    if (switched == NULL || strcmp(switched, "force") != 0)
      return refuse("PyTorch is loaded: its own profiler would get nothing any more (RANKTRACE_GPU=force)", CUPTI_OK);
  }
  const char *why = open_library();
  if (why != NULL) return why;
  uint32_t version = 0;
  cupti.get_version(&version);
  rt_ring_header(atomic_load(&the_ring))->library = version;
  // Only one may subscribe: whoever is here already is left alone, and whoever comes later learns it.
  int result = cupti.subscribe(&state.subscriber, nothing, NULL);
  if (result != CUPTI_OK) return refuse(why_of(result), result);
  if (cupti.register_timestamp != NULL && cupti.register_timestamp(monotonic) != CUPTI_OK) cupti.register_timestamp = NULL;
  if (cupti.register_timestamp == NULL) compare_clocks();
  // gettid's numbers, as the rest of a trace has them.
  if (cupti.thread_id_type != NULL) cupti.thread_id_type(1);
  result = cupti.register_callbacks(request_buffer, completed);
  for (int at = result == CUPTI_OK && choose_calls(1) == CUPTI_OK ? CALL_KINDS : 0; at < KINDS && result == CUPTI_OK; at++) {
    int refused = cupti.enable(kinds[at]);
    // What one version does not know is left out; without kernels there is nothing to record.
    if (refused != CUPTI_OK && (kinds[at] == CUPTI_KIND_CONCURRENT_KERNEL || refused != CUPTI_INVALID_KIND)) result = refused;
  }
  if (result != CUPTI_OK) {
    disable_all();
    cupti.unsubscribe(state.subscriber);
    return refuse(why_of(result), result);
  }
  return NULL;
}

const char *rt_cupti_start(const char *path, uint32_t capacity) {
  const char *why = NULL;
  pthread_mutex_lock(&state.lock);
  if (!atomic_load(&is_recording)) {
    struct rt_ring *ring = rt_ring_create(path, capacity, RT_SOURCE_CUPTI, 0);
    if (ring == NULL) {
      snprintf(state.why, sizeof state.why, "the ring \"%.200s\" cannot be made: %s", path, strerror(errno));
      why = state.why;
    } else {
      static int is_set_up;
      if (!is_set_up) {
        pthread_atfork(NULL, NULL, forget_in_child);
        atexit(rt_cupti_stop);
        is_set_up = 1;
      }
      snprintf(state.path, sizeof state.path, "%s", path);
      // Names have numbers of their ring.
      memset(call_numbers, 0, sizeof call_numbers);
      atomic_store(&the_ring, ring);
      why = begin_recording();
      if (why == NULL) {
        rt_ring_state(ring, RT_STATE_RECORDING, NULL);
        atomic_store(&is_recording, 1);
        state.has_flusher = pthread_create(&state.flusher, NULL, flush_now_and_then, NULL) == 0;
      }
    }
  }
  pthread_mutex_unlock(&state.lock);
  return why;
}

const char *rt_cupti_path(void) { return state.path; }

void rt_cupti_stop(void) {
  pthread_mutex_lock(&state.lock);
  if (atomic_load(&is_recording)) {
    // 1: also of work that goes on.
    cupti.flush_all(1);
    atomic_store(&is_recording, 0);
    disable_all();
    cupti.unsubscribe(state.subscriber);
    rt_ring_state(atomic_load(&the_ring), RT_STATE_ENDED, NULL);
    if (state.has_flusher) pthread_join(state.flusher, NULL);
    state.has_flusher = 0;
  }
  pthread_mutex_unlock(&state.lock);
}

// A libcupti that plays back a script instead of a GPU: for tests of the recorder in real processes.
//
//   FAKE_CUPTI_SCRIPT   a file of lines, each one record or one act; times are ns after the moment at which recording began
//
//     kernel START END DEVICE STREAM CORRELATION NAME      copy START END DEVICE STREAM CORRELATION BYTES KIND
//     peer START END FROM TO STREAM CORRELATION BYTES      set START END DEVICE STREAM CORRELATION BYTES
//     sync START END STREAM CORRELATION TYPE               call runtime|driver START END THREAD CORRELATION CALLBACK
//     overhead START END KIND
//     unknown            a record of a kind that nobody knows
//     short              the first bytes of a kernel at the end of its buffer
//     dropped COUNT      as many records were dropped
//     buffer             ends this buffer: the recorder gets it, from a thread of its own
//     flush              waits for cuptiActivityFlushAll
//     repeat COUNT       the next record, so many times, each 10 ns later
//
//   FAKE_CUPTI_REFUSE   subscribe:CODE, enable:CODE: that call returns the code
//   FAKE_CUPTI_NO_CALLS calls that were made live are not handed over
//   FAKE_CUPTI_DROP     the number of the launch whose records are dropped
//   FAKE_CUPTI_OLD      built without what old ones lack: cuptiActivityRegisterTimestampCallback, so that its clock is 1 s ahead of the monotonic one, and the choice
//                       of single calls
//
// As a Node addon it also plays a GPU live: launch(name, delay, length, device, stream) is a call of the calling thread, now, and a kernel `delay` ns later;
// isRecording() says whether somebody subscribed.
//
// Built with the layouts of ../cupti-records.h, which the real headers are held against where they are found.

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../cupti-records.h"
#include "../node-addon.h"

typedef void (*request_function)(uint8_t **, size_t *, size_t *);
typedef void (*completed_function)(void *, uint32_t, uint8_t *, size_t, size_t);

static request_function request;
static completed_function completed;
static uint64_t (*timestamp)(void);
static int is_subscribed, is_enabled;
/* Of the driver and the runtime: whether all calls are recorded, and which; calls of the script that nobody asked for. */
static uint8_t has_all_calls[2], is_chosen[2][1024];
static int unasked;
static size_t dropped;
static pthread_t player;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flushed = PTHREAD_COND_INITIALIZER;
static int flushes;

static uint64_t monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t now(void) { return timestamp != NULL ? timestamp() : monotonic() + 1000000000u; }

static int refusal(const char *of) {
  const char *text = getenv("FAKE_CUPTI_REFUSE");
  size_t length = strlen(of);
  return text != NULL && strncmp(text, of, length) == 0 && text[length] == ':' ? atoi(text + length + 1) : CUPTI_OK;
}

static uint8_t *buffer;
static size_t size, used;

static void *hand_over(void *stream) {
  completed(NULL, (uint32_t)(uintptr_t)stream, buffer, size, used);
  return NULL;
}

/* Each buffer comes from another thread, as CUPTI is free to do. */
static void end_buffer(void) {
  if (buffer == NULL) return;
  pthread_t thread;
  if (pthread_create(&thread, NULL, hand_over, (void *)(uintptr_t)7) == 0) pthread_join(thread, NULL);
  buffer = NULL;
}

static void put(const void *record, size_t bytes) {
  // Records lie at multiples of 8.
  size_t place = (bytes + 7) & ~(size_t)7;
  if (buffer != NULL && used + place > size) end_buffer();
  if (buffer == NULL) {
    size_t records;
    used = 0;
    request(&buffer, &size, &records);
    if (buffer == NULL || size < place) {
      dropped++;
      buffer = NULL;
      return;
    }
  }
  memcpy(buffer + used, record, bytes);
  used += place;
}

static size_t bytes_of(uint32_t kind) {
  switch (kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL: return 160;
    case CUPTI_KIND_MEMCPY: return 64;
    case CUPTI_KIND_MEMCPY_PEER: return 72;
    case CUPTI_KIND_MEMSET: return 64;
    case CUPTI_KIND_SYNCHRONIZATION: return 56;
    default: return 40;
  }
}

/* Puts the record of a line; `shift`: ns later. 0: the line is none. */
static int put_line(const char *line, uint64_t began, uint64_t shift) {
  uint8_t record[216] = {0};
  unsigned long long start, end, bytes;
  unsigned device, stream, correlation, other, kind;
  char name[4096], which[16];
  if (sscanf(line, "kernel %llu %llu %u %u %u %4095[^\n]", &start, &end, &device, &stream, &correlation, name) == 6) {
    struct cupti_kernel of = {.kind = CUPTI_KIND_CONCURRENT_KERNEL, .registers = 32, .start = start + began + shift, .end = end + began + shift, .device = device,
      .context = 1, .stream = stream, .grid = {4, 2, 1}, .block = {128, 1, 1}, .static_shared = 16, .dynamic_shared = 48, .correlation = correlation};
    // CUPTI keeps names for as long as their module is loaded.
    of.name = strdup(name);
    memcpy(record, &of, sizeof of);
  } else if (sscanf(line, "copy %llu %llu %u %u %u %llu %u", &start, &end, &device, &stream, &correlation, &bytes, &kind) == 7) {
    struct cupti_copy of = {.kind = CUPTI_KIND_MEMCPY, .copy_kind = (uint8_t)kind, .source = 1, .destination = 3, .flags = 1, .bytes = bytes,
      .start = start + began + shift, .end = end + began + shift, .device = device, .context = 1, .stream = stream, .correlation = correlation};
    memcpy(record, &of, sizeof of);
  } else if (sscanf(line, "peer %llu %llu %u %u %u %u %llu", &start, &end, &device, &other, &stream, &correlation, &bytes) == 7) {
    struct cupti_peer_copy of = {.kind = CUPTI_KIND_MEMCPY_PEER, .copy_kind = 10, .source = 3, .destination = 3, .bytes = bytes, .start = start + began + shift,
      .end = end + began + shift, .device = device, .context = 1, .stream = stream, .source_device = device, .destination_device = other, .correlation = correlation};
    memcpy(record, &of, sizeof of);
  } else if (sscanf(line, "set %llu %llu %u %u %u %llu", &start, &end, &device, &stream, &correlation, &bytes) == 6) {
    struct cupti_set of = {.kind = CUPTI_KIND_MEMSET, .bytes = bytes, .start = start + began + shift, .end = end + began + shift, .device = device, .context = 1,
      .stream = stream, .correlation = correlation, .memory_kind = 3};
    memcpy(record, &of, sizeof of);
  } else if (sscanf(line, "sync %llu %llu %u %u %u", &start, &end, &stream, &correlation, &kind) == 5) {
    struct cupti_sync of = {.kind = CUPTI_KIND_SYNCHRONIZATION, .type = kind, .start = start + began + shift, .end = end + began + shift, .correlation = correlation,
      .context = 1, .stream = stream};
    memcpy(record, &of, sizeof of);
  } else if (sscanf(line, "call %15s %llu %llu %u %u %u", which, &start, &end, &other, &correlation, &kind) == 6) {
    int is_runtime = which[0] != 'd';
    if (!has_all_calls[is_runtime] && (kind >= sizeof is_chosen[0] || !is_chosen[is_runtime][kind])) return unasked++, 1;
    struct cupti_call of = {.kind = is_runtime ? CUPTI_KIND_RUNTIME : CUPTI_KIND_DRIVER, .callback = kind, .start = start + began + shift,
      .end = end + began + shift, .thread = other, .correlation = correlation};
    memcpy(record, &of, sizeof of);
  } else if (sscanf(line, "overhead %llu %llu %u", &start, &end, &kind) == 3) {
    struct cupti_overhead of = {.kind = CUPTI_KIND_OVERHEAD, .overhead_kind = kind, .start = start + began + shift, .end = end + began + shift};
    memcpy(record, &of, sizeof of);
  } else if (strncmp(line, "unknown", 7) == 0) {
    uint32_t of = 4242;
    memcpy(record, &of, sizeof of);
  } else return 0;
  uint32_t read;
  memcpy(&read, record, sizeof read);
  put(record, bytes_of(read));
  return 1;
}

/* The whole file, with a NUL behind it. It is not open while it is played: a forked child that exits would move the place that its parent reads from. */
static char *content_of(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return NULL;
  size_t bytes = (size_t)ftell(file);
  char *content = calloc(1, bytes + 1);
  rewind(file);
  if (content != NULL && fread(content, 1, bytes, file) != bytes) content[0] = '\0';
  fclose(file);
  return content;
}

static void *play(void *path) {
  char *script = content_of(path), *next = script;
  uint64_t began = now();
  unsigned long times = 1;
  for (char *line; script != NULL && (line = strsep(&next, "\n")) != NULL;) {
    if (strncmp(line, "buffer", 6) == 0) end_buffer();
    else if (strncmp(line, "flush", 5) == 0) {
      pthread_mutex_lock(&lock);
      for (int before = flushes; flushes == before;) pthread_cond_wait(&flushed, &lock);
      pthread_mutex_unlock(&lock);
    } else if (strncmp(line, "short", 5) == 0) {
      uint32_t kind = CUPTI_KIND_CONCURRENT_KERNEL;
      put(&kind, sizeof kind);
      end_buffer();
    } else if (sscanf(line, "dropped %zu", &dropped) != 1 && sscanf(line, "repeat %lu", &times) != 1) {
      for (unsigned long turn = 0; turn < times; turn++) put_line(line, began, 10 * turn);
      times = 1;
    }
  }
  end_buffer();
  free(script);
  fprintf(stderr, "fake libcupti: played; %d calls left out that nobody asked for\n", unasked);
  return NULL;
}

/* Calls that were made live, each with the record of its work, which wait for their flush. */
static struct { struct cupti_call call; uint8_t work[160]; uint64_t end; int is_told, has_worked; } launched[16384];
static size_t launches;
static uint32_t correlations;

/* A call of this thread at `time`, and what it made a device do: a kernel, a copy or a set, whose `correlation` lies at `place` of its record. */
static void add_launched(uint64_t time, uint64_t end, const void *work, size_t bytes, size_t place) {
  static int made;
  const char *lost = getenv("FAKE_CUPTI_DROP");
  pthread_mutex_lock(&lock);
  if (launches < sizeof launched / sizeof *launched && is_subscribed && (lost == NULL || ++made != atoi(lost))) {
    uint32_t correlation = ++correlations;
    launched[launches].call = (struct cupti_call){.kind = CUPTI_KIND_DRIVER, .callback = 307, .start = time, .end = time + 2000, .thread = (uint32_t)gettid(), .correlation = correlation};
    launched[launches].end = end;
    launched[launches].is_told = launched[launches].has_worked = 0;
    memset(launched[launches].work, 0, sizeof launched[launches].work);
    memcpy(launched[launches].work, work, bytes);
    memcpy(launched[launches++].work + place, &correlation, sizeof correlation);
  } else dropped++;
  pthread_mutex_unlock(&lock);
}

/* For fake-cuda.c: a kernel that ran. */
void fake_cupti_kernel(const char *name, uint64_t called, uint64_t start, uint64_t end, uint32_t device, uint32_t stream) {
  struct cupti_kernel of = {.kind = CUPTI_KIND_CONCURRENT_KERNEL, .registers = 32, .start = start, .end = end, .device = device,
    .context = 1, .stream = stream, .grid = {4, 1, 1}, .block = {128, 1, 1}, .name = strdup(name)};
  add_launched(called, end, &of, sizeof of, offsetof(struct cupti_kernel, correlation));
}

/* The same of a copy (`kind`: CUPTI's), or of a set (0). */
void fake_cupti_transfer(uint32_t kind, uint64_t bytes, uint64_t called, uint64_t start, uint64_t end) {
  struct cupti_copy copy = {.kind = CUPTI_KIND_MEMCPY, .copy_kind = (uint8_t)kind, .source = kind == 1 ? 1 : 3, .destination = kind == 2 ? 1 : 3, .bytes = bytes,
    .start = start, .end = end, .context = 1, .stream = 7};
  struct cupti_set set = {.kind = CUPTI_KIND_MEMSET, .bytes = bytes, .start = start, .end = end, .context = 1, .stream = 7, .memory_kind = 3};
  if (kind == 0) add_launched(called, end, &set, sizeof set, offsetof(struct cupti_set, correlation));
  else add_launched(called, end, &copy, sizeof copy, offsetof(struct cupti_copy, correlation));
}

/*
 * Hands over the work that is over, or all of it, and then the calls, as CUPTI 11 to 13 did on an H200: each flush had buffers of work before those of calls.
 * Every eighth call comes a flush after its work, as those of graphs did there.
 */
static void put_launched(int is_all) {
  uint64_t time = now();
  size_t left = 0;
  uint32_t kind;
  for (size_t at = 0; at < launches; at++) {
    if (launched[at].call.correlation % 8 == 0 && launched[at].has_worked) launched[at].has_worked = 2;
    if (launched[at].has_worked || (!is_all && launched[at].end > time)) continue;
    memcpy(&kind, launched[at].work, sizeof kind);
    put(launched[at].work, bytes_of(kind));
    launched[at].has_worked = 1;
  }
  if (getenv("FAKE_CUPTI_SCRIPT") == NULL) end_buffer();
  for (size_t at = 0; at < launches; at++) {
    static uint8_t record[216];
    memcpy(record, &launched[at].call, sizeof launched[at].call);
    int is_due = is_all || launched[at].call.correlation % 8 != 0 || launched[at].has_worked == 2;
    if (!launched[at].is_told && is_due && getenv("FAKE_CUPTI_NO_CALLS") == NULL) put(record, bytes_of(CUPTI_KIND_DRIVER));
    launched[at].is_told |= is_due;
    if (!launched[at].is_told || !launched[at].has_worked) launched[left++] = launched[at];
  }
  launches = left;
  if (getenv("FAKE_CUPTI_SCRIPT") == NULL) end_buffer();
}

static napi_value is_recording(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value value = NULL;
  napi_get_boolean(env, is_subscribed, &value);
  return value;
}

static napi_value launch_from_node(napi_env env, napi_callback_info info) {
  size_t count = 5, length;
  napi_value arguments[5];
  uint32_t numbers[5] = {0};
  char name[512] = "";
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  napi_get_value_string_utf8(env, arguments[0], name, sizeof name, &length);
  for (size_t at = 1; at < count && at < 5; at++) napi_get_value_uint32(env, arguments[at], &numbers[at]);
  uint64_t time = now();
  fake_cupti_kernel(name, time, time + numbers[1], time + numbers[1] + numbers[2], numbers[3], numbers[4]);
  return NULL;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value value;
  if (napi_create_function(env, "launch", (size_t)-1, launch_from_node, NULL, &value) == 0) napi_set_named_property(env, exports, "launch", value);
  if (napi_create_function(env, "isRecording", (size_t)-1, is_recording, NULL, &value) == 0) napi_set_named_property(env, exports, "isRecording", value);
  return exports;
}

int cuptiGetVersion(uint32_t *version) { return *version = 130001, CUPTI_OK; }
int cuptiSubscribe(void **subscriber, void *callback, void *data) {
  (void)callback, (void)data;
  int result = refusal("subscribe");
  if (result != CUPTI_OK || is_subscribed) return result != CUPTI_OK ? result : CUPTI_OTHER_SUBSCRIBER;
  is_subscribed = 1;
  *subscriber = &is_subscribed;
  return CUPTI_OK;
}
int cuptiUnsubscribe(void *subscriber) { return (void)subscriber, is_subscribed = 0, CUPTI_OK; }
int cuptiActivityRegisterCallbacks(request_function requested, completed_function done) { return request = requested, completed = done, CUPTI_OK; }
int cuptiActivityEnable(int kind) {
  int result = refusal("enable");
  const char *path = getenv("FAKE_CUPTI_SCRIPT");
  if (result == CUPTI_OK && kind == CUPTI_KIND_RUNTIME) has_all_calls[1] = 1;
  if (result == CUPTI_OK && kind == CUPTI_KIND_DRIVER) has_all_calls[0] = 1;
  // The last of the kinds that the recorder wants.
  if (result == CUPTI_OK && kind == CUPTI_KIND_OVERHEAD && path != NULL && !is_enabled) {
    is_enabled = 1;
    pthread_create(&player, NULL, play, (void *)path);
  }
  return result;
}
int cuptiActivityDisable(int kind) {
  if (kind == CUPTI_KIND_RUNTIME) has_all_calls[1] = 0;
  if (kind == CUPTI_KIND_DRIVER) has_all_calls[0] = 0;
  return CUPTI_OK;
}
int cuptiActivityFlushAll(uint32_t flag) {
  pthread_mutex_lock(&lock);
  flushes++;
  put_launched(flag == 1);
  pthread_cond_broadcast(&flushed);
  pthread_mutex_unlock(&lock);
  // All of the work is over when it was played.
  if (flag == 1 && is_enabled) pthread_join(player, NULL), is_enabled = 0;
  return CUPTI_OK;
}
int cuptiActivityGetNextRecord(uint8_t *of, size_t valid, uint8_t **record) {
  uint32_t kind = 0;
  size_t at = 0;
  if (*record != NULL) {
    memcpy(&kind, *record, sizeof kind);
    at = (size_t)(*record - of) + ((bytes_of(kind) + 7) & ~(size_t)7);
  }
  if (at >= valid) return CUPTI_NO_MORE_RECORDS;
  *record = of + at;
  return CUPTI_OK;
}
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  (void)context, (void)stream;
  *count = dropped;
  dropped = 0;
  return CUPTI_OK;
}
int cuptiGetTimestamp(uint64_t *time) { return *time = now(), CUPTI_OK; }
int cuptiGetCallbackName(int domain, uint32_t callback, const char **name) {
  static const struct { int domain; uint32_t callback; const char *name; } names[] = {
    {2, 211, "cudaLaunchKernel_v7000"}, {2, 41, "cudaMemcpyAsync_v3020"}, {2, 165, "cudaDeviceSynchronize_v3020"}, {2, 20, "cudaMalloc_v3020"},
    {2, 214, "cudaLaunchKernel_ptsz_v7000"}, {1, 307, "cuLaunchKernel"}, {1, 652, "cuLaunchKernelEx"},
  };
  for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
    if (names[at].domain == domain && names[at].callback == callback) return *name = names[at].name, CUPTI_OK;
  }
  return 1;
}
int cuptiGetResultString(int result, const char **text) { return *text = result == CUPTI_OTHER_SUBSCRIBER ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR", CUPTI_OK; }
int cuptiSetThreadIdType(int type) { return (void)type, CUPTI_OK; }
#ifndef FAKE_CUPTI_OLD
static int choose(int is_runtime, uint32_t callback, uint8_t enable) {
  if (callback >= sizeof is_chosen[0]) return 1;
  is_chosen[is_runtime][callback] = enable;
  return CUPTI_OK;
}
int cuptiActivityEnableDriverApi(uint32_t callback, uint8_t enable) { return choose(0, callback, enable); }
int cuptiActivityEnableRuntimeApi(uint32_t callback, uint8_t enable) { return choose(1, callback, enable); }
int cuptiActivityRegisterTimestampCallback(uint64_t (*callback)(void)) { return timestamp = callback, CUPTI_OK; }
#endif

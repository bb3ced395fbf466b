// Work on a GPU through CUDA's driver, from Node and without anything of CUDA at build time: for `npm run check:gpu`.
//
//   open(ptx)          → "NVIDIA H100 80GB HBM3, driver 13.0"; throws an Error with the reason
//   launch(count, ns)  → launches `count` kernels that run for `ns` each; ns that all the calls took
//   wait()             → waits for the device
//   timed(count, ns)   → ms of each of `count` such kernels, by CUDA's own events
//   transfer(bytes)    → copies so much to the device, on it and back, and sets it, each once
//   told(count)        → [seen, told, …]: for each of `count` kernels, when the host saw that it ran, and when it told it to end; ns of the monotonic clock
//
// RANKTRACE_CUDA_LIBRARY names the driver's library; fake-cuda.c plays one.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../node-addon.h"

static struct {
  int (*init)(unsigned);
  int (*error_string)(int, const char **);
  int (*driver_version)(int *);
  int (*device_get)(int *, int);
  int (*device_name)(char *, int, int);
  int (*context_retain)(void **, int);
  int (*context_set)(void *);
  int (*wait)(void);
  int (*module_load)(void **, const void *);
  int (*module_function)(void **, void *, const char *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
  int (*stream_create)(void **, unsigned);
  int (*event_create)(void **, unsigned);
  int (*event_record)(void *, void *);
  int (*event_wait)(void *);
  int (*event_elapsed)(float *, void *, void *);
  int (*allocate)(uint64_t *, size_t);
  int (*to_device)(uint64_t, const void *, size_t);
  int (*on_device)(uint64_t, uint64_t, size_t);
  int (*from_device)(void *, uint64_t, size_t);
  int (*set)(uint64_t, unsigned char, size_t);
  int (*host_allocate)(void **, size_t, unsigned);
  int (*host_pointer)(uint64_t *, void *, unsigned);
} cuda;

static const struct { const char *name; void *function; } symbols[] = {
  {"cuInit", &cuda.init}, {"cuGetErrorString", &cuda.error_string}, {"cuDriverGetVersion", &cuda.driver_version},
  {"cuDeviceGet", &cuda.device_get}, {"cuDeviceGetName", &cuda.device_name}, {"cuDevicePrimaryCtxRetain", &cuda.context_retain},
  {"cuCtxSetCurrent", &cuda.context_set}, {"cuCtxSynchronize", &cuda.wait}, {"cuModuleLoadData", &cuda.module_load},
  {"cuModuleGetFunction", &cuda.module_function}, {"cuLaunchKernel", &cuda.launch}, {"cuStreamCreate", &cuda.stream_create},
  {"cuEventCreate", &cuda.event_create}, {"cuEventRecord", &cuda.event_record}, {"cuEventSynchronize", &cuda.event_wait},
  {"cuEventElapsedTime", &cuda.event_elapsed}, {"cuMemAlloc_v2", &cuda.allocate}, {"cuMemcpyHtoD_v2", &cuda.to_device},
  {"cuMemcpyDtoD_v2", &cuda.on_device}, {"cuMemcpyDtoH_v2", &cuda.from_device}, {"cuMemsetD8_v2", &cuda.set},
  {"cuMemHostAlloc", &cuda.host_allocate}, {"cuMemHostGetDevicePointer_v2", &cuda.host_pointer},
};

enum { HOST_MAPPED = 2 /* CU_MEMHOSTALLOC_DEVICEMAP */ };

static void *spin, *until_told, *stream;
static volatile uint32_t *words;
static uint64_t words_on_device;

static double monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Throws what a call of the driver returned. 1: it failed. */
static int failed(napi_env env, const char *what, int result) {
  if (result == 0) return 0;
  const char *text = NULL;
  char why[256];
  if (cuda.error_string != NULL) cuda.error_string(result, &text);
  snprintf(why, sizeof why, "%s: %s (%d)", what, text == NULL ? "CUDA's driver refuses" : text, result);
  napi_throw_error(env, NULL, why);
  return 1;
}

#define CALL(what) if (failed(env, #what, cuda.what)) return NULL

/* The arguments as numbers. */
static void numbers(napi_env env, napi_callback_info info, double *to, size_t wanted) {
  napi_value given[4];
  size_t count = 4;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  for (size_t at = 0; at < wanted && at < count; at++) napi_get_value_double(env, given[at], &to[at]);
}

static napi_value number(napi_env env, double value) {
  napi_value result = NULL;
  napi_create_double(env, value, &result);
  return result;
}

static napi_value open_driver(napi_env env, napi_callback_info info) {
  static char ptx[16384];
  napi_value given[1], text = NULL;
  size_t count = 1, length;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  napi_get_value_string_utf8(env, given[0], ptx, sizeof ptx, &length);
  const char *chosen = getenv("RANKTRACE_CUDA_LIBRARY");
  void *library = dlopen(chosen != NULL && chosen[0] != '\0' ? chosen : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return napi_throw_error(env, NULL, "CUDA's driver (libcuda.so.1) is not on this machine"), NULL;
  for (size_t at = 0; at < sizeof symbols / sizeof *symbols; at++) {
    void *function = dlsym(library, symbols[at].name);
    if (function == NULL) return napi_throw_error(env, NULL, symbols[at].name), NULL;
    memcpy(symbols[at].function, &function, sizeof function);
  }
  int version = 0, device = 0;
  void *context, *module, *host;
  char name[128] = "", about[192];
  CALL(init(0));
  CALL(driver_version(&version));
  CALL(device_get(&device, 0));
  CALL(device_name(name, sizeof name, device));
  CALL(context_retain(&context, device));
  CALL(context_set(context));
  CALL(module_load(&module, ptx));
  CALL(module_function(&spin, module, "spin"));
  CALL(module_function(&until_told, module, "until_told"));
  CALL(stream_create(&stream, 1));
  CALL(host_allocate(&host, 64, HOST_MAPPED));
  CALL(host_pointer(&words_on_device, host, 0));
  words = host;
  snprintf(about, sizeof about, "%s, driver %d.%d", name, version / 1000, version % 1000 / 10);
  napi_create_string_utf8(env, about, (size_t)-1, &text);
  return text;
}

static int launch_one(void *kernel, uint64_t argument) {
  void *arguments[] = {&argument};
  return cuda.launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static napi_value launch(napi_env env, napi_callback_info info) {
  double of[2] = {0};
  numbers(env, info, of, 2);
  double began = monotonic();
  for (double at = 0; at < of[0]; at++) if (failed(env, "cuLaunchKernel", launch_one(spin, (uint64_t)of[1]))) return NULL;
  return number(env, monotonic() - began);
}

static napi_value wait_for_device(napi_env env, napi_callback_info info) {
  (void)info;
  CALL(wait());
  return NULL;
}

static napi_value timed(napi_env env, napi_callback_info info) {
  double of[2] = {0};
  numbers(env, info, of, 2);
  napi_value result = NULL;
  napi_create_array(env, &result);
  void *before, *after;
  CALL(event_create(&before, 0));
  CALL(event_create(&after, 0));
  for (uint32_t at = 0; at < (uint32_t)of[0]; at++) {
    float ms = 0;
    CALL(event_record(before, stream));
    if (failed(env, "cuLaunchKernel", launch_one(spin, (uint64_t)of[1]))) return NULL;
    CALL(event_record(after, stream));
    CALL(event_wait(after));
    CALL(event_elapsed(&ms, before, after));
    napi_set_element(env, result, at, number(env, ms));
  }
  return result;
}

static napi_value transfer(napi_env env, napi_callback_info info) {
  double of[1] = {0};
  numbers(env, info, of, 1);
  size_t bytes = (size_t)of[0];
  uint64_t here, there;
  void *host = calloc(1, bytes);
  CALL(allocate(&here, bytes));
  CALL(allocate(&there, bytes));
  CALL(to_device(here, host, bytes));
  CALL(on_device(there, here, bytes));
  CALL(from_device(host, there, bytes));
  CALL(set(here, 0, bytes));
  CALL(wait());
  free(host);
  return NULL;
}

static napi_value told(napi_env env, napi_callback_info info) {
  double of[1] = {0};
  numbers(env, info, of, 1);
  napi_value result = NULL;
  napi_create_array(env, &result);
  for (uint32_t at = 0; at < (uint32_t)of[0]; at++) {
    words[0] = words[1] = 0;
    __sync_synchronize();
    if (failed(env, "cuLaunchKernel", launch_one(until_told, words_on_device))) return NULL;
    double give_up = monotonic() + 5e9;
    while (words[0] == 0 && monotonic() < give_up);
    double seen = monotonic();
    // It runs for a while, so that its begin and its end are two measurements.
    for (double until = seen + 2e5; monotonic() < until;);
    double when = monotonic();
    words[1] = 1;
    __sync_synchronize();
    CALL(wait());
    napi_set_element(env, result, 2 * at, number(env, seen));
    napi_set_element(env, result, 2 * at + 1, number(env, when));
  }
  return result;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  static const struct { const char *name; napi_callback function; } functions[] = {
    {"open", open_driver}, {"launch", launch}, {"wait", wait_for_device}, {"timed", timed}, {"transfer", transfer}, {"told", told},
  };
  for (size_t at = 0; at < sizeof functions / sizeof *functions; at++) {
    napi_value function;
    if (napi_create_function(env, functions[at].name, (size_t)-1, functions[at].function, NULL, &function) == 0)
      napi_set_named_property(env, exports, functions[at].name, function);
  }
  return exports;
}

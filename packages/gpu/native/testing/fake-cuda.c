// A CUDA driver without a GPU, for tests of `npm run check:gpu` itself: one stream whose kernels take the time that they are asked for, reported to fake-cupti.c.
//
//   FAKE_CUDA_FAULT   lost: every tenth kernel is not reported; long: kernels are reported 5 % longer; late: 50 µs later
//
// A launch takes 3 µs of its caller.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN = 1, UNTIL_TOLD };

static void (*kernel_ran)(const char *, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t);
static void (*transfer_ran)(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t);
static uint64_t busy_until;
static unsigned kernels;
static pthread_t teller;
static int has_teller;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void spend(uint64_t ns) { for (uint64_t until = now() + ns; now() < until;); }

static int has_fault(const char *name) {
  const char *fault = getenv("FAKE_CUDA_FAULT");
  return fault != NULL && strcmp(fault, name) == 0;
}

static void report(const char *name, uint64_t called, uint64_t start, uint64_t end) {
  if (kernel_ran == NULL) {
    void *cupti = dlopen(getenv("RANKTRACE_CUPTI_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    if (cupti == NULL) return;
    *(void **)&kernel_ran = dlsym(cupti, "fake_cupti_kernel");
    *(void **)&transfer_ran = dlsym(cupti, "fake_cupti_transfer");
  }
  if (name == NULL || (has_fault("lost") && ++kernels % 10 == 0)) return;
  uint64_t late = has_fault("late") ? 50000 : 0, longer = has_fault("long") ? (end - start) / 20 : 0;
  kernel_ran(name, called, start + late, end + late + longer, 0, 7);
}

struct told { volatile uint32_t *words; uint64_t called; };

static void *run_until_told(void *of) {
  struct told told = *(struct told *)of;
  free(of);
  uint64_t start = now();
  told.words[0] = 1;
  while (told.words[1] == 0);
  report("until_told", told.called, start, now());
  return NULL;
}

int cuInit(unsigned flags) { return (void)flags, 0; }
int cuGetErrorString(int result, const char **text) { return (void)result, *text = "unknown", 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int length, int device) { return (void)device, snprintf(name, (size_t)length, "no GPU (a driver that plays one)"), 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = &busy_until, 0; }
int cuCtxSetCurrent(void *context) { return (void)context, 0; }
int cuModuleLoadData(void **module, const void *text) { return *module = &busy_until, strstr(text, ".entry spin") == NULL ? 218 : 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  *function = (void *)(uintptr_t)(strcmp(name, "spin") == 0 ? SPIN : UNTIL_TOLD);
  return 0;
}
int cuStreamCreate(void **stream, unsigned flags) { return (void)flags, *stream = &busy_until, 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
  uint64_t called = now(), argument;
  spend(3000);
  memcpy(&argument, arguments[0], sizeof argument);
  if ((uintptr_t)function == UNTIL_TOLD) {
    struct told *told = malloc(sizeof *told);
    *told = (struct told){.words = (uint32_t *)(uintptr_t)argument, .called = called};
    has_teller = pthread_create(&teller, NULL, run_until_told, told) == 0;
    return 0;
  }
  uint64_t start = now() > busy_until ? now() : busy_until;
  busy_until = start + argument;
  report("spin", called, start, busy_until);
  return 0;
}
int cuCtxSynchronize(void) {
  if (has_teller) pthread_join(teller, NULL);
  has_teller = 0;
  while (now() < busy_until);
  return 0;
}
int cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = calloc(1, sizeof(uint64_t)), 0; }
int cuEventRecord(void *event, void *stream) { return (void)stream, *(uint64_t *)event = now() > busy_until ? now() : busy_until, 0; }
int cuEventSynchronize(void *event) {
  while (now() < *(uint64_t *)event);
  return 0;
}
int cuEventElapsedTime(float *ms, void *from, void *to) { return *ms = (float)(*(uint64_t *)to - *(uint64_t *)from) / 1e6f, 0; }

static int transfer(uint32_t kind, size_t bytes) {
  uint64_t called = now();
  spend(20000);
  report(NULL, 0, 0, 0);
  if (transfer_ran != NULL) transfer_ran(kind, bytes, called, called + 5000, called + 15000);
  return 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) { return (void)bytes, *address = 4096, 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { return (void)to, (void)from, transfer(1, bytes); }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { return (void)to, (void)from, transfer(2, bytes); }
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) { return (void)to, (void)from, transfer(8, bytes); }
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) { return (void)to, (void)value, transfer(0, bytes); }
int cuMemHostAlloc(void **host, size_t bytes, unsigned flags) { return (void)flags, *host = calloc(1, bytes), 0; }
int cuMemHostGetDevicePointer_v2(uint64_t *pointer, void *host, unsigned flags) { return (void)flags, *pointer = (uint64_t)(uintptr_t)host, 0; }

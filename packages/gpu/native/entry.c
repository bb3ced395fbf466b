// The two ways into a process: CUDA's driver loads the library by itself where CUDA_INJECTION64_PATH names it, or Node loads it as an addon.

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cupti-recorder.h"
#include "node-addon.h"
#include "ring.h"

/* Rows of a ring that nobody else chose: 16 MiB, half a second of 500,000 launches. */
#define CAPACITY (1u << 18)

/* Why the folder takes no rings; NULL: it does. Anybody else who may write there could put a file in the ring's place, unless it is sticky. */
static const char *why_not(const char *folder) {
  struct stat about;
  if (folder[0] != '/') return "it must be an absolute path";
  if (lstat(folder, &about) != 0) return strerror(errno);
  if (!S_ISDIR(about.st_mode)) return "it must be a folder, and no link to one";
  if (about.st_uid != geteuid() && (about.st_mode & S_ISVTX) == 0) return "it must be this user's own, or sticky (mode 1777)";
  return NULL;
}

/* Called by CUDA's driver, in cuInit. Returns 1, as it wants, whatever happens. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
  const char *folder = getenv("RANKTRACE_GPU_DIR");
  if (folder == NULL || folder[0] == '\0') return 1;
  const char *why = why_not(folder);
  char path[4096];
  if (why != NULL) fprintf(stderr, "ranktrace records no kernels: RANKTRACE_GPU_DIR=%.1000s: %s\n", folder, why);
  else if (!rt_ring_path(path, sizeof path, folder, "gpu")) fprintf(stderr, "ranktrace records no kernels: RANKTRACE_GPU_DIR is too long\n");
  else {
    why = rt_cupti_start(path, CAPACITY);
    // Once it has a ring, that holds the reason, and its reader says it.
    if (why != NULL && rt_cupti_path()[0] == '\0') fprintf(stderr, "ranktrace records no kernels: %s\n", why);
  }
  return 1;
}

static napi_value text(napi_env env, const char *of) {
  napi_value value = NULL;
  napi_create_string_utf8(env, of, (size_t)-1, &value);
  return value;
}

static napi_value undefined(napi_env env) {
  napi_value value = NULL;
  napi_get_undefined(env, &value);
  return value;
}

/* start(path, capacity): '' where it records, else why not. */
static napi_value start(napi_env env, napi_callback_info info) {
  size_t count = 2, length = 0;
  napi_value arguments[2];
  char path[4096];
  uint32_t capacity = 0;
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != 0 || count < 2) return text(env, "it wants a path and a capacity");
  if (napi_get_value_string_utf8(env, arguments[0], path, sizeof path, &length) != 0) return text(env, "it wants a path");
  if (napi_get_value_uint32(env, arguments[1], &capacity) != 0) return text(env, "it wants a capacity");
  const char *why = rt_cupti_start(path, capacity);
  return text(env, why == NULL ? "" : why);
}

/* path(): of the ring in use, which may have been made before Node loaded this. */
static napi_value path_in_use(napi_env env, napi_callback_info info) {
  (void)info;
  return text(env, rt_cupti_path());
}

static napi_value flush(napi_env env, napi_callback_info info) {
  (void)info;
  rt_cupti_flush();
  return undefined(env);
}

static napi_value stop(napi_env env, napi_callback_info info) {
  (void)info;
  rt_cupti_stop();
  return undefined(env);
}

/* Called by Node for each thread that loads it. */
__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  static const struct { const char *name; napi_callback function; } functions[] = {
    {"start", start}, {"path", path_in_use}, {"flush", flush}, {"stop", stop},
  };
  for (size_t at = 0; at < sizeof functions / sizeof *functions; at++) {
    napi_value value = NULL;
    if (napi_create_function(env, functions[at].name, (size_t)-1, functions[at].function, NULL, &value) == 0)
      napi_set_named_property(env, exports, functions[at].name, value);
  }
  return exports;
}

// A program into which CUDA's driver would load the library: opens it, or has it linked in (LINKED), and calls it as cuInit would.
//
//   injected LIBRARY exit         ends by itself once its script was played
//   injected LIBRARY fork         a child that calls into the library too, and ends in its own way
//   injected LIBRARY stay         goes on until it is killed
//   injected LIBRARY threads N    N threads write rows of their own into a ring, with names (LINKED alone): the file is $RANKTRACE_GPU_DIR/threads.ring

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LINKED
#include "../ring.h"
int InitializeInjection(void);

static struct rt_ring *ring;

static void *write_rows(void *thread) {
  char name[96];
  for (uint32_t at = 0; at < 20000; at++) {
    snprintf(name, sizeof name, "kernel %u of all threads, with a name that is longer than a row", at % 500);
    struct rt_row row = {.kind = RT_ROW_KERNEL, .stream = (uint32_t)(uintptr_t)thread, .correlation = at, .start = at + 1, .end = at + 2, .name = rt_ring_name(ring, name)};
    rt_ring_write(ring, row);
  }
  return NULL;
}

static int write_from_threads(int count) {
  char path[4096];
  pthread_t threads[64];
  snprintf(path, sizeof path, "%s/threads.ring", getenv("RANKTRACE_GPU_DIR"));
  ring = rt_ring_create(path, 1u << 18, RT_SOURCE_CUPTI, 0);
  if (ring == NULL || count > 64) return 1;
  for (int at = 0; at < count; at++) pthread_create(&threads[at], NULL, write_rows, (void *)(uintptr_t)at);
  for (int at = 0; at < count; at++) pthread_join(threads[at], NULL);
  rt_ring_state(ring, RT_STATE_ENDED, NULL);
  return 0;
}
#endif

int main(int count, char **arguments) {
  if (count < 3) return 2;
#ifdef LINKED
  if (strcmp(arguments[2], "threads") == 0) return write_from_threads(atoi(arguments[3]));
  int (*inject)(void) = InitializeInjection;
#else
  void *library = dlopen(arguments[1], RTLD_NOW);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*inject)(void) = NULL;
  *(void **)&inject = dlsym(library, "InitializeInjection");
#endif
  if (inject == NULL || inject() != 1) return 1;
  if (strcmp(arguments[2], "fork") == 0) {
    pid_t child = fork();
    if (child == 0) {
      // It has no ring, and makes none in the place of its parent's.
      inject();
      exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  fprintf(stderr, "training\n");
  while (strcmp(arguments[2], "stay") == 0) sleep(1);
  return 0;
}

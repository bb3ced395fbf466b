// ring_writer PATH ROWS: makes a ring with room for ROWS rows and their names, fills it with rows of kernels from one thread, then copies as many rows into
// plain memory. It prints both as JSON, ns a row.

#include "../../packages/gpu/native/ring.c"

#include <time.h>

#define NAMES 50

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static struct rt_row row_at(uint32_t i) {
  return (struct rt_row){.kind = RT_ROW_KERNEL, .start = 1000u * i, .end = 1000u * i + 900, .stream = 7, .correlation = i, .context = 1};
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  uint32_t rows = (uint32_t)atoi(arguments[2]), capacity = 1024;
  while (capacity < rows + 4 * NAMES) capacity *= 2;
  struct rt_ring *ring = rt_ring_create(arguments[1], capacity, RT_SOURCE_CUPTI, 130001);
  struct rt_row *copies = calloc(rows, sizeof *copies);
  if (ring == NULL || copies == NULL) return 3;
  memset(copies, 1, rows * sizeof *copies);
  static char names[NAMES][128];
  for (int i = 0; i < NAMES; i++) snprintf(names[i], sizeof names[i], "void at::native::vectorized_elementwise_kernel<4, at::native::functor_%d<float>>(int)", i);

  double before = now();
  for (uint32_t i = 0; i < rows; i++) {
    struct rt_row row = row_at(i);
    row.name = rt_ring_name(ring, names[i % NAMES]);
    if (!rt_ring_write(ring, row)) return 4;
  }
  double written = now();
  for (uint32_t i = 0; i < rows; i++) {
    struct rt_row row = row_at(i);
    memcpy((struct rt_row *volatile)&copies[i], &row, sizeof row);
  }
  double copied = now();
  printf("{\"written\":%f,\"copied\":%f}\n", (written - before) / rows, (copied - written) / rows);
  return 0;
}

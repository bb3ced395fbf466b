// See ring.h.

#define _GNU_SOURCE
#include "ring.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Distinct names; further ones are 0, and counted. */
#define NAMES_MAX 16384
#define NAME_SLOTS (2 * NAMES_MAX)
#define NAMES_BYTES (4u << 20)

struct rt_ring {
  struct rt_header *header;
  struct rt_row *rows;
  /* As it was made: what is in the file may be anything by now. */
  uint32_t capacity;
  atomic_bool is_forgotten;
  pthread_mutex_t names_lock;
  /* Number of a name + its place in `names`, by hash; 0 for none. */
  struct { uint32_t number, at; } slots[NAME_SLOTS];
  uint32_t names_count, names_used;
  char names[NAMES_BYTES];
};

/* Rings of this process, for the child of a fork. A process has one of each source. */
static _Atomic(struct rt_ring *) rings[4];

static void forget_all(void) {
  for (int at = 0; at < 4; at++) {
    struct rt_ring *ring = atomic_load(&rings[at]);
    if (ring != NULL) rt_ring_forget(ring);
  }
}

/* Field 22 of /proc/self/stat; 0 where it cannot be read. */
static uint64_t start_of_process(void) {
  char text[1024];
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = '\0';
  char *at = strrchr(text, ')');
  for (int field = 3; at != NULL && field <= 22; field++) at = strchr(at + 1, ' ');
  return at == NULL ? 0 : strtoull(at, NULL, 10);
}

int rt_ring_path(char *path, size_t bytes, const char *folder, const char *kind) {
  unsigned long long start = start_of_process();
  int length = start == 0 ? snprintf(path, bytes, "%s/%s-%d.ring", folder, kind, (int)getpid())
                          : snprintf(path, bytes, "%s/%s-%d-%llu.ring", folder, kind, (int)getpid(), start);
  if (length >= 0 && (size_t)length < bytes) return 1;
  errno = ENAMETOOLONG;
  return 0;
}

struct rt_ring *rt_ring_create(const char *path, uint32_t capacity, enum rt_source source, uint32_t library) {
  if (capacity == 0 || (capacity & (capacity - 1)) != 0) {
    errno = EINVAL;
    return NULL;
  }
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return NULL;
  size_t bytes = RT_HEADER_BYTES + (size_t)capacity * RT_ROW_BYTES;
  // A hole that finds no room on the disk later would be a bus error in the midst of training.
  int failed = posix_fallocate(file, 0, (off_t)bytes);
  void *memory = failed == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (memory == MAP_FAILED && failed == 0) failed = errno;
  close(file);
  struct rt_ring *ring = failed == 0 ? calloc(1, sizeof *ring) : NULL;
  if (ring == NULL) {
    if (memory != MAP_FAILED) munmap(memory, bytes);
    unlink(path);
    errno = failed == 0 ? ENOMEM : failed;
    return NULL;
  }
  ring->header = memory;
  ring->rows = (struct rt_row *)((char *)memory + RT_HEADER_BYTES);
  ring->capacity = capacity;
  pthread_mutex_init(&ring->names_lock, NULL);
  struct rt_header *header = ring->header;
  header->version = RT_RING_VERSION;
  header->capacity = capacity;
  header->pid = (uint32_t)getpid();
  header->pid_start = start_of_process();
  header->source = source;
  header->library = library;
  // Last: a file with it is a ring.
  __atomic_store_n(&header->magic, RT_RING_MAGIC, __ATOMIC_RELEASE);
  static atomic_flag is_known = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&is_known)) pthread_atfork(NULL, NULL, forget_all);
  for (int at = 0; at < 4; at++) {
    struct rt_ring *none = NULL;
    if (atomic_compare_exchange_strong(&rings[at], &none, ring)) break;
  }
  return ring;
}

struct rt_header *rt_ring_header(struct rt_ring *ring) { return ring->header; }

/* Writes `count` rows in a row, or none. */
static int write_rows(struct rt_ring *ring, const struct rt_row *rows, uint32_t count) {
  struct rt_header *header = ring->header;
  uint64_t at = __atomic_load_n(&header->reserve, __ATOMIC_RELAXED);
  do {
    // A `read` beyond `reserve` is nonsense, and is taken for a full ring.
    uint64_t used = at - __atomic_load_n(&header->read, __ATOMIC_ACQUIRE);
    if (used > ring->capacity || ring->capacity - used < count) {
      __atomic_fetch_add(&header->dropped, 1, __ATOMIC_RELAXED);
      return 0;
    }
  } while (!__atomic_compare_exchange_n(&header->reserve, &at, at + count, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  for (uint32_t index = 0; index < count; index++) {
    uint64_t place = at + index;
    struct rt_row *row = &ring->rows[place & (ring->capacity - 1)];
    memcpy((char *)row + sizeof row->turn, (const char *)&rows[index] + sizeof row->turn, sizeof *row - sizeof row->turn);
    __atomic_store_n(&row->turn, (uint32_t)(place / ring->capacity + 1), __ATOMIC_RELEASE);
  }
  return 1;
}

int rt_ring_write(struct rt_ring *ring, struct rt_row row) {
  if (atomic_load_explicit(&ring->is_forgotten, memory_order_relaxed)) return 0;
  return write_rows(ring, &row, 1);
}

/* FNV-1a. */
static uint32_t hash_of(const char *text, uint32_t length) {
  uint32_t hash = 2166136261u;
  for (uint32_t at = 0; at < length; at++) hash = (hash ^ (uint8_t)text[at]) * 16777619u;
  return hash;
}

static int write_name(struct rt_ring *ring, uint32_t number, const char *name, uint32_t length) {
  struct rt_row rows[1 + (RT_NAME_BYTES_MAX + RT_NAME_BYTES_PER_ROW - 1) / RT_NAME_BYTES_PER_ROW] = {{.kind = RT_ROW_NAME}};
  rows[0].u.name.number = number;
  rows[0].u.name.length = length;
  uint32_t count = 1;
  for (uint32_t done = 0; done < length; done += RT_NAME_BYTES_PER_ROW) {
    uint32_t part = length - done < RT_NAME_BYTES_PER_ROW ? length - done : RT_NAME_BYTES_PER_ROW;
    memcpy((char *)&rows[count++] + sizeof rows->turn, name + done, part);
  }
  return write_rows(ring, rows, count);
}

/* The name that a C++ compiler made a symbol of, to be freed; NULL for any other name, and where no libstdc++ is. */
static char *demangled(const char *name) {
  typedef char *(*demangler)(const char *name, char *to, size_t *length, int *status);
  if (strncmp(name, "_Z", 2) != 0) return NULL;
  void *library = dlopen("libstdc++.so.6", RTLD_NOW);
  demangler demangle = NULL;
  if (library != NULL) *(void **)&demangle = dlsym(library, "__cxa_demangle");
  char *source = demangle == NULL ? NULL : demangle(name, NULL, NULL, NULL);
  // Its text is no part of the library.
  if (library != NULL) dlclose(library);
  return source;
}

uint32_t rt_ring_name(struct rt_ring *ring, const char *name) {
  if (name == NULL || atomic_load_explicit(&ring->is_forgotten, memory_order_relaxed)) return 0;
  uint32_t length = (uint32_t)strnlen(name, RT_NAME_BYTES_MAX);
  uint32_t number = 0;
  pthread_mutex_lock(&ring->names_lock);
  uint32_t slot = hash_of(name, length) % NAME_SLOTS;
  while (ring->slots[slot].number != 0) {
    const char *known = ring->names + ring->slots[slot].at;
    if (strncmp(known, name, length) == 0 && known[length] == '\0') break;
    slot = (slot + 1) % NAME_SLOTS;
  }
  if (ring->slots[slot].number != 0) number = ring->slots[slot].number;
  else if (ring->names_count >= NAMES_MAX || NAMES_BYTES - ring->names_used <= length) {
    __atomic_fetch_add(&ring->header->dropped_names, 1, __ATOMIC_RELAXED);
  } else {
    char *source = demangled(name);
    const char *shown = source == NULL ? name : source;
    if (write_name(ring, ring->names_count + 1, shown, (uint32_t)strnlen(shown, RT_NAME_BYTES_MAX))) {
      // Only what the reader gets is known: a name that found no room comes again.
      number = ++ring->names_count;
      ring->slots[slot].number = number;
      ring->slots[slot].at = ring->names_used;
      memcpy(ring->names + ring->names_used, name, length);
      ring->names_used += length + 1;
    }
    free(source);
  }
  pthread_mutex_unlock(&ring->names_lock);
  return number;
}

void rt_ring_state(struct rt_ring *ring, enum rt_state state, const char *message) {
  if (atomic_load(&ring->is_forgotten)) return;
  struct rt_header *header = ring->header;
  if (message != NULL) snprintf(header->message, sizeof header->message, "%s", message);
  __atomic_store_n(&header->state, state, __ATOMIC_RELEASE);
}

void rt_ring_forget(struct rt_ring *ring) { atomic_store(&ring->is_forgotten, 1); }

// The writers' side of the ring that ring.h describes.
//
// Names are kept in memory of this process, so that each is written once. A lookup tries the address first, because CUPTI and NCCL hand out the same
// address for the same name, and compares the text, because an address may be used again once a module is unloaded.
//
// Invariant: the rows of a name are reserved before its number is returned, so every reader meets the name before the first row that bears it.
// Invariant: after rt_ring_create() nothing here allocates.

#define _GNU_SOURCE
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names of one ring; a training job has some hundreds of kernels. */
#define NAMES_MAX 16384
/* Slots of the tables of names, a power of two: never more than half full. */
#define NAME_SLOTS (2 * NAMES_MAX)
/* Text of all names of one ring, bytes. Untouched pages take no memory. */
#define NAME_TEXT_BYTES_MAX (8u << 20)
/* Rings of one process: CUPTI's, NCCL's, and those of tests. */
#define RINGS_MAX 16
/* Rows of a ring at most, 1 GiB of memory. */
#define CAPACITY_MAX (1u << 24)

struct name_entry {
  uint32_t text; /* where its text begins in `texts` */
  uint32_t length;
  uint32_t hash;
};

struct rt_ring {
  struct rt_header *header;
  struct rt_row *rows;
  uint64_t mask;
  unsigned shift;   /* position >> shift is the turn before this one */
  int is_forgotten; /* set in a child of fork() */
  uint64_t read;    /* the reader's position as last seen: never more than it is */

  pthread_mutex_t names_lock;
  uint32_t names;                   /* entries in use; entry i has number i + 1 */
  uint32_t text_bytes;
  struct name_entry *entries;       /* NAMES_MAX */
  uint32_t *by_text;                /* NAME_SLOTS numbers, open addressing */
  uint32_t *by_address;             /* NAME_SLOTS numbers, the latest of each address; a hint */
  char *texts;                      /* NAME_TEXT_BYTES_MAX */
};

static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_ring *rings[RINGS_MAX];
static int is_watching_forks;

/* Only the thread that called fork() lives here: it takes no lock, for another thread may have held it. */
static void forget_all_in_child(void) {
  for (int i = 0; i < RINGS_MAX; i++) {
    struct rt_ring *ring = __atomic_load_n(&rings[i], __ATOMIC_RELAXED);
    if (ring != NULL) rt_ring_forget(ring);
  }
}

static int remember(struct rt_ring *ring) {
  int is_kept = 0;
  pthread_mutex_lock(&rings_lock);
  if (!is_watching_forks) is_watching_forks = pthread_atfork(NULL, NULL, forget_all_in_child) == 0;
  for (int i = 0; i < RINGS_MAX && is_watching_forks && !is_kept; i++) {
    if (rings[i] != NULL) continue;
    __atomic_store_n(&rings[i], ring, __ATOMIC_RELAXED);
    is_kept = 1;
  }
  pthread_mutex_unlock(&rings_lock);
  if (!is_kept) errno = EMFILE;
  return is_kept;
}

/* Field 22 of /proc/self/stat, 0 where it cannot be read. The second field, the program's name, may hold spaces and brackets: count behind the last one. */
static uint64_t pid_start(void) {
  char line[1024];
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, line, sizeof line - 1);
  close(file);
  if (length <= 0) return 0;
  line[length] = '\0';
  const char *at = strrchr(line, ')');
  for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
  return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

static void *pages(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void release(struct rt_ring *ring, size_t bytes) {
  if (ring->header != NULL) munmap(ring->header, bytes);
  if (ring->entries != NULL) munmap(ring->entries, NAMES_MAX * sizeof *ring->entries);
  if (ring->by_text != NULL) munmap(ring->by_text, NAME_SLOTS * sizeof *ring->by_text);
  if (ring->by_address != NULL) munmap(ring->by_address, NAME_SLOTS * sizeof *ring->by_address);
  if (ring->texts != NULL) munmap(ring->texts, NAME_TEXT_BYTES_MAX);
  free(ring);
}

/* A new file with all its blocks: a mapping of a sparse file would end the process with SIGBUS once the disk is full. 0, or an errno. */
static int map_new_file(const char *path, size_t bytes, void **mapped) {
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  int error = posix_fallocate(file, 0, (off_t)bytes);
  if (error == 0) {
    *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (*mapped == MAP_FAILED) error = errno;
  }
  close(file);
  if (error != 0) unlink(path);
  return error;
}

static int allocate(struct rt_ring *ring) {
  ring->entries = pages(NAMES_MAX * sizeof *ring->entries);
  ring->by_text = pages(NAME_SLOTS * sizeof *ring->by_text);
  ring->by_address = pages(NAME_SLOTS * sizeof *ring->by_address);
  ring->texts = pages(NAME_TEXT_BYTES_MAX);
  return ring->entries != NULL && ring->by_text != NULL && ring->by_address != NULL && ring->texts != NULL &&
         pthread_mutex_init(&ring->names_lock, NULL) == 0;
}

struct rt_ring *rt_ring_create(const char *path, uint32_t capacity, enum rt_source source, uint32_t library) {
  if (path == NULL || capacity < 64 || capacity > CAPACITY_MAX || (capacity & (capacity - 1)) != 0) {
    errno = EINVAL;
    return NULL;
  }
  struct rt_ring *ring = calloc(1, sizeof *ring);
  if (ring == NULL) return NULL;
  size_t bytes = RT_HEADER_BYTES + (size_t)capacity * RT_ROW_BYTES;
  void *mapped = NULL;
  int error = allocate(ring) ? map_new_file(path, bytes, &mapped) : ENOMEM;
  if (error != 0) {
    release(ring, bytes);
    errno = error;
    return NULL;
  }
  ring->header = mapped;
  ring->rows = (struct rt_row *)(void *)((char *)mapped + RT_HEADER_BYTES);
  ring->mask = capacity - 1;
  ring->shift = (unsigned)__builtin_ctz(capacity);
  struct rt_header *header = ring->header;
  header->version = RT_RING_VERSION;
  header->capacity = capacity;
  header->pid = (uint32_t)getpid();
  header->source = source;
  header->library = library;
  header->pid_start = pid_start();
  if (!remember(ring)) {
    release(ring, bytes);
    unlink(path);
    errno = EMFILE;
    return NULL;
  }
  // The magic comes last: a reader that sees it sees the fields above.
  __atomic_store_n(&header->magic, RT_RING_MAGIC, __ATOMIC_RELEASE);
  return ring;
}

struct rt_header *rt_ring_header(struct rt_ring *ring) { return ring->header; }

/* The reader moves `read` with pwrite(), which need not store eight bytes at once: two equal loads are a whole value. */
static uint64_t reader_position(struct rt_ring *ring) {
  uint64_t before = __atomic_load_n(&ring->header->read, __ATOMIC_ACQUIRE);
  for (int tries = 0; tries < 8; tries++) {
    uint64_t again = __atomic_load_n(&ring->header->read, __ATOMIC_ACQUIRE);
    if (again == before) return again;
    before = again;
  }
  return 0;
}

/* Whether positions up to `end` are free. Only a writer that finds its copy of `read` too old touches the cache line that the reader writes. */
static int has_room(struct rt_ring *ring, uint64_t end) {
  uint64_t capacity = ring->mask + 1;
  uint64_t read = __atomic_load_n(&ring->read, __ATOMIC_ACQUIRE);
  if (end - read <= capacity) return 1;
  uint64_t now = reader_position(ring);
  if (now < read || now > end) return 0;
  // A writer that was slow here stores an older position than another one did: that is safe, and mended by the next who finds no room.
  __atomic_store_n(&ring->read, now, __ATOMIC_RELEASE);
  return end - now <= capacity;
}

/* The first of `count` rows that are this caller's alone; UINT64_MAX where there is no room. */
static uint64_t reserve(struct rt_ring *ring, uint64_t count) {
  uint64_t *reserved = &ring->header->reserve;
  uint64_t at = __atomic_load_n(reserved, __ATOMIC_ACQUIRE);
  for (;;) {
    if (!has_room(ring, at + count)) {
      // Others may have moved on since `at` was read, and the reader behind them: only the latest position says that the ring is full.
      uint64_t now = __atomic_load_n(reserved, __ATOMIC_ACQUIRE);
      if (now == at) return UINT64_MAX;
      at = now;
      continue;
    }
    if (__atomic_compare_exchange_n(reserved, &at, at + count, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return at;
  }
}

static uint32_t turn_of(const struct rt_ring *ring, uint64_t position) { return (uint32_t)((position >> ring->shift) + 1); }

/* Everything but the turn, then the turn. */
static void publish(struct rt_ring *ring, uint64_t position, const void *row) {
  struct rt_row *slot = &ring->rows[position & ring->mask];
  memcpy((char *)slot + sizeof slot->turn, (const char *)row + sizeof slot->turn, RT_ROW_BYTES - sizeof slot->turn);
  __atomic_store_n(&slot->turn, turn_of(ring, position), __ATOMIC_RELEASE);
}

static int is_usable(const struct rt_ring *ring) { return ring != NULL && !ring->is_forgotten; }

int rt_ring_write(struct rt_ring *ring, struct rt_row row) {
  if (!is_usable(ring)) return 0;
  uint64_t at = reserve(ring, 1);
  if (at == UINT64_MAX) {
    __atomic_fetch_add(&ring->header->dropped, 1, __ATOMIC_RELAXED);
    return 0;
  }
  publish(ring, at, &row);
  return 1;
}

static uint32_t hash_text(const char *text, uint32_t length) {
  uint32_t hash = 2166136261u;
  for (uint32_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  return hash;
}

static uint32_t address_slot(const char *address) {
  return (uint32_t)(((uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15ull) >> 40) & (NAME_SLOTS - 1);
}

/* Bytes of a name that are kept: a cut does not split a character. */
static uint32_t kept_length(const char *name) {
  size_t length = strnlen(name, RT_NAME_BYTES_MAX + 1);
  if (length <= RT_NAME_BYTES_MAX) return (uint32_t)length;
  length = RT_NAME_BYTES_MAX;
  while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80) length--;
  return (uint32_t)length;
}

/* The first row is published first: where it is missing, so are those behind it, and no reader takes text for a row. */
static int write_name(struct rt_ring *ring, uint32_t number, const char *name, uint32_t length) {
  uint32_t rows = (length + RT_NAME_BYTES_PER_ROW - 1) / RT_NAME_BYTES_PER_ROW;
  uint64_t at = reserve(ring, rows + 1);
  if (at == UINT64_MAX) return 0;
  struct rt_row head = {.kind = RT_ROW_NAME, .device = 0xffff, .u.name = {.number = number, .length = length}};
  publish(ring, at, &head);
  for (uint32_t i = 0; i < rows; i++) {
    char row[RT_ROW_BYTES] = {0};
    uint32_t from = i * RT_NAME_BYTES_PER_ROW;
    uint32_t bytes = length - from < RT_NAME_BYTES_PER_ROW ? length - from : RT_NAME_BYTES_PER_ROW;
    memcpy(row + sizeof head.turn, name + from, bytes);
    publish(ring, at + 1 + i, row);
  }
  return 1;
}

static int is_entry(const struct rt_ring *ring, uint32_t number, const char *name, uint32_t length) {
  const struct name_entry *entry = &ring->entries[number - 1];
  return entry->length == length && memcmp(ring->texts + entry->text, name, length) == 0;
}

static uint32_t add_name(struct rt_ring *ring, uint32_t slot, const char *name, uint32_t length, uint32_t hash) {
  if (ring->names == NAMES_MAX || NAME_TEXT_BYTES_MAX - ring->text_bytes < length) {
    __atomic_fetch_add(&ring->header->dropped_names, 1, __ATOMIC_RELAXED);
    return 0;
  }
  uint32_t number = ring->names + 1;
  if (!write_name(ring, number, name, length)) {
    __atomic_fetch_add(&ring->header->dropped, 1, __ATOMIC_RELAXED);
    return 0;
  }
  ring->entries[ring->names++] = (struct name_entry){.text = ring->text_bytes, .length = length, .hash = hash};
  memcpy(ring->texts + ring->text_bytes, name, length);
  ring->text_bytes += length;
  ring->by_text[slot] = number;
  return number;
}

static uint32_t find_or_add(struct rt_ring *ring, const char *name) {
  uint32_t length = kept_length(name);
  uint32_t *hint = &ring->by_address[address_slot(name)];
  if (*hint != 0 && is_entry(ring, *hint, name, length)) return *hint;
  uint32_t hash = hash_text(name, length);
  uint32_t slot = hash & (NAME_SLOTS - 1);
  for (; ring->by_text[slot] != 0; slot = (slot + 1) & (NAME_SLOTS - 1)) {
    uint32_t number = ring->by_text[slot];
    if (ring->entries[number - 1].hash == hash && is_entry(ring, number, name, length)) return *hint = number;
  }
  uint32_t number = add_name(ring, slot, name, length, hash);
  if (number != 0) *hint = number;
  return number;
}

uint32_t rt_ring_name(struct rt_ring *ring, const char *name) {
  if (!is_usable(ring) || name == NULL || name[0] == '\0') return 0;
  pthread_mutex_lock(&ring->names_lock);
  uint32_t number = find_or_add(ring, name);
  pthread_mutex_unlock(&ring->names_lock);
  return number;
}

void rt_ring_state(struct rt_ring *ring, enum rt_state state, const char *message) {
  if (!is_usable(ring)) return;
  if (message != NULL) snprintf(ring->header->message, sizeof ring->header->message, "%s", message);
  __atomic_store_n(&ring->header->state, (uint32_t)state, __ATOMIC_RELEASE);
}

void rt_ring_forget(struct rt_ring *ring) { ring->is_forgotten = 1; }

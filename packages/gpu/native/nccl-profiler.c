// A profiler plugin for NCCL: it writes each collective, send and receive of a process into the ring $RANKTRACE_GPU_DIR/nccl-<pid>-<start>.ring.
//
//   init ─► group row        start(coll) ─► slot ─► stop(coll) ─► row ENQUEUED
//                                             │
//                                             └─ start(kernel channel, proxy operation) … stop ─► row RAN, once all of them have ended
//
// NCCL stops a collective when it is enqueued, so its end on the GPU comes from its children: channels of its kernel (from version 3 on) or operations of
// the proxy thread. Both cost NCCL time, so neither is asked for unless RANKTRACE_NCCL_MASK names it. A child that begins after a RAN row was written
// makes another RAN row of the same collective, over the whole time: the last one counts.
//
// NCCL's sequence numbers count each function of a communicator apart: a collective is identified by communicator, name and sequence.
//
// Invariant: a handle is an index and a generation, never an address. NCCL may pass any handle, of any age and twice: a slot acts on its own generation alone.
// Invariant: slots and contexts are static. Nothing is allocated after a communicator's init, and memory that a handle points into never goes away: the
//   library is linked with -z nodelete, so it outlives NCCL's dlclose.
// Invariant: a lock of a slot or a context is held for a few stores, and no two at a time. NCCL is called (its log) without one.
// Invariant: every call returns success. NCCL counts a failed init's reference twice and turns the plugin off for all communicators.

#include "nccl-profiler-abi.h"
#include "ring.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* Rows of the ring: 1 MiB, some seconds of collectives at 5,000 a second. */
#define RING_ROWS 16384
/* Events that NCCL may hold at a time; each kernel channel of each collective in flight is one. */
#define SLOTS 16384
/* Slots examined for a free one before the event is dropped. */
#define SLOT_TRIES 64
/* Communicators that a process may hold at a time. */
#define CONTEXTS 1024
/* The difference of GPU time and host time is the least seen within so many ns, once or twice: both clocks drift. */
#define CLOCK_WINDOW_NS 500000000ull

#define NO_PEER 0xffff
#define NO_DEVICE 0xffff

enum slot_use { SLOT_FREE = 0, SLOT_TASK, SLOT_CHANNEL, SLOT_PROXY };

/* What one start of an event says, whichever version of the interface it came by. */
struct event {
  uint64_t type;
  uint64_t communicator; /* versions 1 to 3 */
  const char *communicator_name; /* versions 1 to 3 */
  const char *function;
  uint64_t sequence;
  uint64_t bytes;
  uint64_t gpu_time; /* 0: none */
  void *parent;
  pid_t pid;
  int rank;
  int peer;
  uint32_t channels; /* 0: not known */
};

/* A collective, a send or a receive. */
struct task {
  uint64_t start;
  uint64_t sequence;
  uint64_t bytes;
  uint64_t ran_start;
  uint64_t ran_end;
  uint32_t group;
  uint32_t name;
  uint32_t channels; /* of its kernel, that will end; 0: not known */
  uint32_t ended;    /* channels that have */
  uint32_t open;     /* children begun and not ended */
  uint16_t peer;
  uint8_t detail;    /* RT_COLLECTIVE_P2P or 0 */
  bool stopped;
  bool has_children; /* they are asked for, so it stays after its stop */
  bool ran_unwritten;
};

/* A channel of a kernel, or an operation of the proxy thread. */
struct child {
  void *parent;
  uint64_t start; /* of the host's clock */
  uint64_t end;
  uint64_t gpu_start;
  uint64_t gpu_end;
};

struct slot {
  _Atomic uint32_t lock;
  uint32_t generation; /* changes whenever it is taken */
  enum slot_use use;
  void *context;
  union { struct task task; struct child child; } is;
};

struct context {
  _Atomic uint32_t lock;
  _Atomic uint32_t generation; /* changes when it is taken and when it is given back: odd while it is taken */
  int version;
  int mask;
  bool is_written; /* its group row is in the ring */
  struct rt_row group;
  void *latest; /* the task that a child began last of */
  uint64_t clock_since;
  int64_t clock_now; /* least of host time − GPU time since `clock_since` */
  int64_t clock_before; /* and in the window before; both INT64_MAX: none */
};

static _Atomic(struct rt_ring *) the_ring;
static pid_t own_pid;
static struct slot slots[SLOTS];
static struct context contexts[CONTEXTS];
static _Atomic uint32_t next_slot;

/* Guards what follows; taken by init and by a fork. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static bool was_tried;
static bool is_crowded; /* and the log says so */
static bool is_fork_handled;
static uint32_t communicators; /* ever; the number of the latest group row */

// --- Locks, clocks, handles ---

static void lock(_Atomic uint32_t *held) {
  for (unsigned tries = 0; atomic_exchange_explicit(held, 1, memory_order_acquire) != 0; tries++)
    if (tries > 64) sched_yield();
}
static bool try_lock(_Atomic uint32_t *held) { return atomic_exchange_explicit(held, 1, memory_order_acquire) == 0; }
static void unlock(_Atomic uint32_t *held) { atomic_store_explicit(held, 0, memory_order_release); }

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Handles: 16 bits of a mark, 32 of a generation, 16 of an index. */
#define MARK_SLOT 0x5253ull
#define MARK_CONTEXT 0x5243ull
static void *handle_of(uint64_t mark, uint32_t generation, uint32_t index) { return (void *)(uintptr_t)(mark << 48 | (uint64_t)generation << 16 | index); }
static bool has_mark(const void *handle, uint64_t mark) { return (uint64_t)(uintptr_t)handle >> 48 == mark; }
static uint32_t generation_of(const void *handle) { return (uint32_t)((uint64_t)(uintptr_t)handle >> 16); }
static uint32_t index_of(const void *handle) { return (uint32_t)((uintptr_t)handle & 0xffff); }

static void count(uint64_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
static void count_unknown(struct rt_ring *ring) { count(&rt_ring_header(ring)->unknown_records); }
static void count_dropped(struct rt_ring *ring) { count(&rt_ring_header(ring)->dropped_records); }

/* The slot of a handle, locked; NULL: the handle is none of ours, or of an event that has gone. */
static struct slot *hold_slot(const void *handle) {
  if (!has_mark(handle, MARK_SLOT) || index_of(handle) >= SLOTS) return NULL;
  struct slot *slot = &slots[index_of(handle)];
  lock(&slot->lock);
  if (slot->use != SLOT_FREE && slot->generation == generation_of(handle)) return slot;
  unlock(&slot->lock);
  return NULL;
}

static bool is_alive(const void *handle) {
  return has_mark(handle, MARK_CONTEXT) && index_of(handle) < CONTEXTS && (generation_of(handle) & 1) == 1 &&
         atomic_load_explicit(&contexts[index_of(handle)].generation, memory_order_acquire) == generation_of(handle);
}

/* The context of a handle, locked; NULL: it has been finalized, or is another process's. */
static struct context *hold_context(const void *handle) {
  if (!is_alive(handle)) return NULL;
  struct context *context = &contexts[index_of(handle)];
  lock(&context->lock);
  if (is_alive(handle)) return context;
  unlock(&context->lock);
  return NULL;
}

// --- Rows ---

static void write_collective(struct rt_ring *ring, const struct task *task, enum rt_collective_detail what, uint64_t start, uint64_t end) {
  struct rt_row row = {.kind = RT_ROW_COLLECTIVE, .detail = (uint8_t)(what | task->detail), .device = NO_DEVICE, .start = start, .end = end, .name = task->name};
  row.u.collective.sequence = task->sequence;
  row.u.collective.bytes = task->bytes;
  row.u.collective.group = task->group;
  row.u.collective.peer = task->peer;
  rt_ring_write(ring, row);
}

/* Takes a task's unwritten work out of its locked slot, to be written once that is unlocked. */
static bool take_work(struct slot *slot, struct task *work) {
  if (!slot->is.task.ran_unwritten) return false;
  slot->is.task.ran_unwritten = false;
  *work = slot->is.task;
  return true;
}

static bool is_complete(const struct task *task) { return task->stopped && task->open == 0 && task->channels > 0 && task->ended >= task->channels; }

/* Whether a task that ends here was never stopped, or none of its kernel's channels ever ended. Some may not come: NCCL announces more than it launches for some messages. */
static bool lacks_rows(const struct task *task) { return !task->stopped || (task->channels > 0 && task->ran_end == 0); }

/* The number of a context's group row, written before its first collective; 0: the ring has no room. */
static uint32_t group_of(struct rt_ring *ring, struct context *context, const struct event *event) {
  if (context->is_written) return context->group.u.group.number;
  if (context->version < 4) {
    context->group.u.group.communicator = event->communicator;
    context->group.u.group.rank = (uint32_t)event->rank;
    if (event->communicator_name != NULL && event->communicator_name[0] != '\0') context->group.name = rt_ring_name(ring, event->communicator_name);
  }
  context->is_written = rt_ring_write(ring, context->group) != 0;
  return context->is_written ? context->group.u.group.number : 0;
}

// --- Slots ---

/* Whether a slot that was not freed can be: no event of NCCL's goes on in it, or its communicator is gone. */
static bool can_be_taken(const struct slot *slot) {
  if (slot->use == SLOT_TASK && slot->is.task.stopped && slot->is.task.open == 0) return true;
  return !is_alive(slot->context);
}

/* A slot, locked; NULL: none is free. Frees ones that wait for children that may not come when there is no other. */
static struct slot *take_slot(struct rt_ring *ring, enum slot_use use, void *context, void **handle) {
  uint32_t first = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed);
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < SLOT_TRIES; i++) {
      struct slot *slot = &slots[(first + i) % SLOTS];
      if (!try_lock(&slot->lock)) continue;
      if (slot->use == SLOT_FREE || (round == 1 && can_be_taken(slot))) {
        struct task work;
        bool has_work = slot->use == SLOT_TASK && take_work(slot, &work);
        bool is_lost = slot->use == SLOT_TASK && lacks_rows(&slot->is.task);
        if (has_work) write_collective(ring, &work, RT_COLLECTIVE_RAN, work.ran_start, work.ran_end);
        if (is_lost) count_dropped(ring);
        slot->generation++;
        slot->use = use;
        slot->context = context;
        memset(&slot->is, 0, sizeof slot->is);
        *handle = handle_of(MARK_SLOT, slot->generation, (uint32_t)(slot - slots));
        return slot;
      }
      unlock(&slot->lock);
    }
  }
  count_dropped(ring);
  return NULL;
}

// --- Events of every version ---

static void start_task(struct rt_ring *ring, void *context_handle, void **handle, const struct event *event) {
  if (event->function == NULL) return count_unknown(ring);
  struct context *context = hold_context(context_handle);
  if (context == NULL) return count_unknown(ring);
  uint32_t group = group_of(ring, context, event);
  int mask = context->mask;
  unlock(&context->lock);
  if (group == 0) return; // The ring is full, and has counted it.

  // Those of the copy engine have a sequence of their own, so a name of their own, too.
  char of_copy_engine[64];
  bool is_copied = event->type == NCCL_EVENT_CE_COLL;
  if (is_copied) snprintf(of_copy_engine, sizeof of_copy_engine, "%s by copy engine", event->function);
  uint32_t name = rt_ring_name(ring, is_copied ? of_copy_engine : event->function);
  bool is_p2p = event->type == NCCL_EVENT_P2P;
  void *taken;
  struct slot *slot = take_slot(ring, SLOT_TASK, context_handle, &taken);
  if (slot == NULL) return;
  struct task *task = &slot->is.task;
  task->start = now_ns();
  task->sequence = event->sequence;
  task->bytes = event->bytes;
  task->group = group;
  task->name = name;
  task->peer = is_p2p && event->peer >= 0 && event->peer < NO_PEER ? (uint16_t)event->peer : NO_PEER;
  task->detail = is_p2p ? RT_COLLECTIVE_P2P : 0;
  task->has_children = !is_copied && (mask & (NCCL_EVENT_KERNEL_CHANNEL | NCCL_EVENT_PROXY_OP)) != 0;
  task->channels = (mask & NCCL_EVENT_KERNEL_CHANNEL) != 0 ? event->channels : 0;
  unlock(&slot->lock);
  *handle = taken;
}

/* The least difference of host time and GPU time of late: the host sees a time of the GPU's late, never early. */
static int64_t learn_clock(struct context *context, uint64_t host, uint64_t gpu) {
  uint64_t age = host - context->clock_since;
  if (age > CLOCK_WINDOW_NS) {
    context->clock_before = age > 2 * CLOCK_WINDOW_NS ? INT64_MAX : context->clock_now;
    context->clock_now = INT64_MAX;
    context->clock_since = host;
  }
  int64_t difference = (int64_t)(host - gpu);
  if (difference < context->clock_now) context->clock_now = difference;
  return context->clock_now < context->clock_before ? context->clock_now : context->clock_before;
}

/* Writes the work of a task that no child goes on of: children of a later one have begun. */
static void flush_work(struct rt_ring *ring, void *handle) {
  struct slot *slot = hold_slot(handle);
  if (slot == NULL) return;
  struct task work;
  bool has_work = slot->use == SLOT_TASK && slot->is.task.open == 0 && take_work(slot, &work);
  unlock(&slot->lock);
  if (has_work) write_collective(ring, &work, RT_COLLECTIVE_RAN, work.ran_start, work.ran_end);
}

static void start_child(struct rt_ring *ring, void **handle, const struct event *event) {
  if (event->type == NCCL_EVENT_PROXY_OP && event->pid != own_pid) return count_unknown(ring); // Its parent lives in another process.
  struct slot *parent = hold_slot(event->parent);
  if (parent == NULL) return count_unknown(ring);
  bool is_task = parent->use == SLOT_TASK;
  void *context_handle = parent->context;
  if (is_task) parent->is.task.open++;
  unlock(&parent->lock);
  if (!is_task) return count_unknown(ring);

  uint64_t now = now_ns();
  void *earlier = NULL;
  struct context *context = hold_context(context_handle);
  if (context != NULL) {
    if (context->latest != event->parent) earlier = context->latest;
    context->latest = event->parent;
    if (event->gpu_time != 0) learn_clock(context, now, event->gpu_time);
    unlock(&context->lock);
  }
  if (earlier != NULL) flush_work(ring, earlier);

  void *taken;
  struct slot *slot = take_slot(ring, event->type == NCCL_EVENT_PROXY_OP ? SLOT_PROXY : SLOT_CHANNEL, context_handle, &taken);
  if (slot == NULL) {
    parent = hold_slot(event->parent);
    if (parent == NULL) return;
    parent->is.task.open--;
    unlock(&parent->lock);
    return;
  }
  slot->is.child.parent = event->parent;
  slot->is.child.start = now;
  slot->is.child.gpu_start = event->gpu_time;
  unlock(&slot->lock);
  *handle = taken;
}

static void start_event(void *context, void **handle, const struct event *event) {
  struct rt_ring *ring = atomic_load_explicit(&the_ring, memory_order_acquire);
  if (ring == NULL) return;
  switch (event->type) {
    case NCCL_EVENT_COLL:
    case NCCL_EVENT_P2P:
    case NCCL_EVENT_CE_COLL:
      return start_task(ring, context, handle, event);
    case NCCL_EVENT_PROXY_OP:
    case NCCL_EVENT_KERNEL_CHANNEL:
      return start_child(ring, handle, event);
    case NCCL_EVENT_GROUP: // NCCL starts these whenever it starts their children.
    case NCCL_EVENT_GROUP_API:
    case NCCL_EVENT_COLL_API:
    case NCCL_EVENT_P2P_API:
      return;
    default:
      return count_unknown(ring);
  }
}

static void stop_task(struct rt_ring *ring, struct slot *slot) {
  struct task *task = &slot->is.task;
  if (task->stopped) {
    unlock(&slot->lock);
    return count_unknown(ring);
  }
  uint64_t end = now_ns();
  task->stopped = true;
  struct task enqueued = *task;
  struct task work;
  bool is_over = !task->has_children || is_complete(task);
  bool has_work = is_over && take_work(slot, &work);
  if (is_over) slot->use = SLOT_FREE;
  unlock(&slot->lock);
  write_collective(ring, &enqueued, RT_COLLECTIVE_ENQUEUED, enqueued.start, end);
  if (has_work) write_collective(ring, &work, RT_COLLECTIVE_RAN, work.ran_start, work.ran_end);
}

static void stop_child(struct rt_ring *ring, struct slot *slot) {
  struct child child = slot->is.child;
  bool is_channel = slot->use == SLOT_CHANNEL;
  void *context_handle = slot->context;
  slot->use = SLOT_FREE;
  unlock(&slot->lock);

  if (child.end == 0) child.end = now_ns();
  if (child.gpu_start != 0 && child.gpu_end != 0) {
    struct context *context = hold_context(context_handle);
    if (context != NULL) {
      int64_t difference = learn_clock(context, child.end, child.gpu_end);
      unlock(&context->lock);
      child.start = child.gpu_start + (uint64_t)difference;
      child.end = child.gpu_end + (uint64_t)difference;
    }
  }

  struct slot *parent = hold_slot(child.parent);
  if (parent == NULL) return count_dropped(ring);
  struct task *task = &parent->is.task;
  bool is_first = task->ran_end == 0;
  if (is_first || child.start < task->ran_start) task->ran_start = child.start;
  if (is_first || child.end > task->ran_end) task->ran_end = child.end;
  task->ran_unwritten = true;
  task->open--;
  if (is_channel) task->ended++;
  // A proxy operation says nothing of how many there are: NCCL's proxy thread begins those of one collective together.
  struct task work;
  bool is_over = is_complete(task);
  bool has_work = task->open == 0 && task->stopped && (is_over || task->channels == 0) && take_work(parent, &work);
  if (is_over) parent->use = SLOT_FREE;
  unlock(&parent->lock);
  if (has_work) write_collective(ring, &work, RT_COLLECTIVE_RAN, work.ran_start, work.ran_end);
}

static nccl_result stop_event(void *handle) {
  struct rt_ring *ring = atomic_load_explicit(&the_ring, memory_order_acquire);
  if (ring == NULL || handle == NULL) return 0; // NULL is the handle of all events that are not recorded.
  struct slot *slot = hold_slot(handle);
  if (slot == NULL) count_unknown(ring);
  else if (slot->use == SLOT_TASK) stop_task(ring, slot);
  else stop_child(ring, slot);
  return 0;
}

/* gpu_time: of a kernel's channel that stops, from version 4 on; 0: none. */
static void record_state(void *handle, int state, uint64_t gpu_time) {
  struct rt_ring *ring = atomic_load_explicit(&the_ring, memory_order_acquire);
  if (ring == NULL || handle == NULL) return;
  struct slot *slot = hold_slot(handle);
  if (slot == NULL) return count_unknown(ring);
  bool is_known = true;
  if (slot->use == SLOT_CHANNEL && state == NCCL_STATE_KERNEL_CHANNEL_STOP) {
    slot->is.child.end = now_ns();
    slot->is.child.gpu_end = gpu_time;
  } else if (slot->use == SLOT_PROXY && state == NCCL_STATE_PROXY_OP_IN_PROGRESS) {
    slot->is.child.start = now_ns();
  } else {
    is_known = slot->use == SLOT_PROXY && state >= 0 && state <= NCCL_STATE_PROXY_OP_LAST;
  }
  unlock(&slot->lock);
  if (!is_known) count_unknown(ring);
}

static nccl_result finalize(void *handle) {
  struct rt_ring *ring = atomic_load_explicit(&the_ring, memory_order_acquire);
  if (ring == NULL || handle == NULL) return 0;
  struct context *context = hold_context(handle);
  if (context == NULL) {
    count_unknown(ring);
    return 0;
  }
  atomic_fetch_add_explicit(&context->generation, 1, memory_order_release);
  unlock(&context->lock);
  for (uint32_t i = 0; i < SLOTS; i++) {
    struct slot *slot = &slots[i];
    lock(&slot->lock);
    if (slot->use == SLOT_FREE || slot->context != handle) {
      unlock(&slot->lock);
      continue;
    }
    struct task work;
    bool is_task = slot->use == SLOT_TASK;
    bool has_work = is_task && take_work(slot, &work);
    bool is_lost = is_task && lacks_rows(&slot->is.task);
    slot->use = SLOT_FREE;
    unlock(&slot->lock);
    if (has_work) write_collective(ring, &work, RT_COLLECTIVE_RAN, work.ran_start, work.ran_end);
    if (is_lost) count_dropped(ring);
  }
  return 0;
}

// --- Opening the ring; forks; the end ---

struct mask_word { const char *word; int bits; int version; };
static const struct mask_word mask_words[] = {
  {"coll", NCCL_EVENT_COLL, 1},
  {"p2p", NCCL_EVENT_P2P, 1},
  {"proxy", NCCL_EVENT_PROXY_OP, 1},
  {"kernel", NCCL_EVENT_KERNEL_CHANNEL, 3},
  {"ce", NCCL_EVENT_CE_COLL, 6},
};

/* The events asked of NCCL: RANKTRACE_NCCL_MASK holds words with commas between, or the number of NCCL's own mask. `problem`: why it is not followed. */
static int mask_of(int version, const char **problem) {
  const char *text = getenv("RANKTRACE_NCCL_MASK");
  int known = 0;
  for (size_t i = 0; i < sizeof mask_words / sizeof *mask_words; i++)
    if (version >= mask_words[i].version) known |= mask_words[i].bits;
  const int usual = NCCL_EVENT_COLL | NCCL_EVENT_P2P;
  if (text == NULL || text[0] == '\0') return usual;
  char *end;
  long number = strtol(text, &end, 0);
  if (*end == '\0') return (int)number & known;
  int mask = 0;
  for (const char *word = text;;) {
    size_t length = strcspn(word, ",");
    int bits = 0;
    for (size_t i = 0; i < sizeof mask_words / sizeof *mask_words; i++)
      if (length == strlen(mask_words[i].word) && strncasecmp(word, mask_words[i].word, length) == 0) bits = mask_words[i].bits;
    if (bits == 0) {
      *problem = "RANKTRACE_NCCL_MASK holds a word that is none of coll, p2p, proxy, kernel and ce: collectives, sends and receives are recorded";
      return usual;
    }
    mask |= bits;
    if (word[length] == '\0') return mask & known;
    word += length + 1;
  }
}

static void before_fork(void) { pthread_mutex_lock(&opening); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&opening); }
/* A child has no threads that hold a lock of a slot, and none of the communicators: its ring is made when it opens one. */
static void after_fork_in_child(void) {
  struct rt_ring *ring = atomic_exchange(&the_ring, NULL);
  if (ring != NULL) rt_ring_forget(ring);
  was_tried = is_crowded = false;
  pthread_mutex_unlock(&opening);
}

/* The ring of this process, made when its first communicator begins; NULL: not recording. Guarded by `opening`. */
static struct rt_ring *open_ring(int version, char *complaint, size_t complaint_bytes) {
  struct rt_ring *ring = atomic_load_explicit(&the_ring, memory_order_acquire);
  if (ring != NULL || was_tried) return ring;
  was_tried = true;
  const char *is_on = getenv("RANKTRACE_GPU");
  if (is_on != NULL && strcmp(is_on, "0") == 0) return NULL;
  const char *directory = getenv("RANKTRACE_GPU_DIR");
  if (directory == NULL || directory[0] == '\0') {
    snprintf(complaint, complaint_bytes, "ranktrace records no collectives: RANKTRACE_GPU_DIR is not set");
    return NULL;
  }
  if (!is_fork_handled && pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
    snprintf(complaint, complaint_bytes, "ranktrace records no collectives: pthread_atfork failed");
    return NULL;
  }
  is_fork_handled = true;
  char path[4096];
  own_pid = getpid();
  if (rt_ring_path(path, sizeof path, directory, "nccl")) ring = rt_ring_create(path, RING_ROWS, RT_SOURCE_NCCL, (uint32_t)version);
  if (ring == NULL) {
    snprintf(complaint, complaint_bytes, "ranktrace records no collectives: cannot make %s: %s", path, strerror(errno));
    return NULL;
  }
  // After a fork these are the parent's: handles of its events are of no use here, and a lock may be held by a thread that is not.
  for (uint32_t i = 0; i < SLOTS; i++) {
    atomic_store_explicit(&slots[i].lock, 0, memory_order_relaxed);
    slots[i].use = SLOT_FREE;
  }
  for (uint32_t i = 0; i < CONTEXTS; i++) {
    uint32_t generation = atomic_load_explicit(&contexts[i].generation, memory_order_relaxed);
    atomic_store_explicit(&contexts[i].lock, 0, memory_order_relaxed);
    atomic_store_explicit(&contexts[i].generation, generation + (generation & 1), memory_order_relaxed);
  }
  communicators = 0;
  atomic_store_explicit(&the_ring, ring, memory_order_release);
  return ring;
}

static nccl_result init(int version, void **handle, int *mask, uint64_t communicator, const char *name, int nodes, int ranks, int rank, nccl_log log) {
  if (handle == NULL || mask == NULL) return 0;
  *handle = NULL;
  char complaint[4224] = "";
  pthread_mutex_lock(&opening);
  struct rt_ring *ring = open_ring(version, complaint, sizeof complaint);
  uint32_t index = CONTEXTS;
  if (ring != NULL) {
    for (index = 0; index < CONTEXTS; index++)
      if ((atomic_load_explicit(&contexts[index].generation, memory_order_acquire) & 1) == 0) break;
  }
  if (ring == NULL) {
    *mask = 0;
  } else if (index == CONTEXTS) {
    // NCCL has one mask for all communicators: it stays as it is, and this one's events have no context.
    if (!is_crowded) {
      is_crowded = true;
      snprintf(complaint, sizeof complaint, "collectives of more than %d communicators at a time are not recorded", CONTEXTS);
      rt_ring_state(ring, RT_STATE_RECORDING, complaint);
    }
  } else {
    const char *problem = NULL;
    struct context *context = &contexts[index];
    lock(&context->lock);
    context->version = version;
    context->mask = mask_of(version, &problem);
    context->is_written = false;
    context->latest = NULL;
    context->clock_since = 0;
    context->clock_now = context->clock_before = INT64_MAX;
    context->group = (struct rt_row){.kind = RT_ROW_GROUP, .device = NO_DEVICE};
    context->group.start = context->group.end = now_ns();
    context->group.u.group.number = ++communicators;
    if (version >= 4) {
      context->group.u.group.communicator = communicator;
      context->group.u.group.ranks = ranks < 0 ? 0 : (uint32_t)ranks;
      context->group.u.group.rank = (uint32_t)rank;
      context->group.u.group.nodes = nodes < 0 ? 0 : (uint32_t)nodes;
      if (name != NULL && name[0] != '\0') context->group.name = rt_ring_name(ring, name);
    }
    if (communicators == 1) {
      bool has_ends = (context->mask & (NCCL_EVENT_KERNEL_CHANNEL | NCCL_EVENT_PROXY_OP)) != 0;
      const char *blind = has_ends ? "" : "collectives have no end on the GPU: NCCL gives it with RANKTRACE_NCCL_MASK=coll,p2p,kernel (version 3 on) or coll,p2p,proxy";
      rt_ring_state(ring, RT_STATE_RECORDING, problem != NULL ? problem : blind);
    }
    if (problem != NULL) snprintf(complaint, sizeof complaint, "%s", problem);
    *mask = context->mask;
    *handle = handle_of(MARK_CONTEXT, atomic_fetch_add_explicit(&context->generation, 1, memory_order_release) + 1, index);
    unlock(&context->lock);
  }
  pthread_mutex_unlock(&opening);
  if (complaint[0] != '\0' && log != NULL) log(2, 1, "nccl-profiler.c", 0, "%s", complaint);
  return 0;
}

/* The ring ends with its process, not with its last communicator: another may begin. */
__attribute__((destructor)) static void end(void) {
  struct rt_ring *ring = atomic_load_explicit(&the_ring, memory_order_acquire);
  if (ring != NULL) rt_ring_state(ring, RT_STATE_ENDED, NULL);
}

// --- The versions ---

static const char *const functions_v1[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
static const char *function_v1(uint8_t number) { return number < sizeof functions_v1 / sizeof *functions_v1 ? functions_v1[number] : NULL; }

/* By NCCL's number of it. Before 2.30 NCCL had no name for ncclUint8 and called it "Unknown". */
static const struct { const char *name; uint8_t bytes; } data_types[] = {
  {"ncclInt8", 1}, {"ncclUint8", 1}, {"ncclInt32", 4}, {"ncclUint32", 4}, {"ncclInt64", 8}, {"ncclUint64", 8}, {"ncclFloat16", 2},
  {"ncclFloat32", 4}, {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}, {"Unknown", 1},
};
#define DATA_TYPES (sizeof data_types / sizeof *data_types)

/* 0: the type is not known, or the product does not fit. */
static uint64_t bytes_of(uint64_t elements, size_t type) {
  uint64_t bytes;
  return type < DATA_TYPES && !__builtin_mul_overflow(elements, (uint64_t)data_types[type].bytes, &bytes) ? bytes : 0;
}
static uint64_t bytes_of_name(uint64_t elements, const char *name) {
  size_t type = 0;
  while (type < DATA_TYPES && (name == NULL || strcmp(name, data_types[type].name) != 0)) type++;
  return bytes_of(elements, type);
}

static nccl_result start_v1(void *context, void **handle, void *given) {
  if (handle == NULL) return 0;
  *handle = NULL;
  if (given == NULL) return 0;
  const struct nccl_event_v1 *from = given;
  struct event event = {.type = from->type, .parent = from->parent, .rank = from->rank, .peer = -1};
  if (from->type == NCCL_EVENT_COLL) {
    event.communicator = from->of.coll.communicator;
    event.communicator_name = from->of.coll.name;
    event.function = function_v1(from->of.coll.function);
    event.sequence = from->of.coll.sequence;
    event.bytes = bytes_of(from->of.coll.count, from->of.coll.data_type);
  } else if (from->type == NCCL_EVENT_P2P) {
    event.communicator = from->of.p2p.communicator;
    event.communicator_name = from->of.p2p.name;
    event.function = function_v1(from->of.p2p.function);
    event.bytes = bytes_of(from->of.p2p.count, from->of.p2p.data_type);
    event.peer = from->of.p2p.peer;
  } else if (from->type == NCCL_EVENT_PROXY_OP) {
    event.pid = from->of.proxy_op.pid;
  }
  start_event(context, handle, &event);
  return 0;
}

static nccl_result start_v3(void *context, void **handle, void *given) {
  if (handle == NULL) return 0;
  *handle = NULL;
  if (given == NULL) return 0;
  const struct nccl_event_v3 *from = given;
  struct event event = {.type = from->type, .parent = from->parent, .rank = from->rank, .peer = -1};
  if (from->type == NCCL_EVENT_COLL) {
    event.communicator = from->of.coll.communicator;
    event.communicator_name = from->of.coll.name;
    event.function = from->of.coll.function;
    event.sequence = from->of.coll.sequence;
    event.bytes = bytes_of_name(from->of.coll.count, from->of.coll.data_type);
    event.channels = from->of.coll.channels_max; // Of version 2 it is a byte of another member; it has no kernel channels, so it is not used.
  } else if (from->type == NCCL_EVENT_P2P) {
    event.communicator = from->of.p2p.communicator;
    event.communicator_name = from->of.p2p.name;
    event.function = from->of.p2p.function;
    event.bytes = bytes_of_name(from->of.p2p.count, from->of.p2p.data_type);
    event.peer = from->of.p2p.peer;
  } else if (from->type == NCCL_EVENT_PROXY_OP) {
    event.pid = from->of.proxy_op.pid;
  }
  start_event(context, handle, &event);
  return 0;
}

static void start_body(void *context, void **handle, uint64_t type, void *parent, int rank, const union nccl_event_body_v4 *of) {
  struct event event = {.type = type, .parent = parent, .rank = rank, .peer = -1};
  if (type == NCCL_EVENT_COLL || type == NCCL_EVENT_CE_COLL) {
    event.function = of->coll.function;
    event.sequence = of->coll.sequence;
    event.bytes = bytes_of_name(of->coll.count, of->coll.data_type);
    if (type == NCCL_EVENT_COLL) event.channels = of->coll.channels;
  } else if (type == NCCL_EVENT_P2P) {
    event.function = of->p2p.function;
    event.bytes = bytes_of_name(of->p2p.count, of->p2p.data_type);
    event.peer = of->p2p.peer;
    event.channels = of->p2p.channels;
  } else if (type == NCCL_EVENT_PROXY_OP) {
    event.pid = of->proxy_op.pid;
  } else if (type == NCCL_EVENT_KERNEL_CHANNEL) {
    event.gpu_time = of->kernel_channel.gpu_time;
  }
  start_event(context, handle, &event);
}

static nccl_result start_v4(void *context, void **handle, void *given) {
  if (handle == NULL) return 0;
  *handle = NULL;
  const struct nccl_event_v4 *from = given;
  if (from != NULL) start_body(context, handle, from->type, from->parent, from->rank, &from->of);
  return 0;
}

static nccl_result start_v5(void *context, void **handle, void *given) {
  if (handle == NULL) return 0;
  *handle = NULL;
  const struct nccl_event_v5 *from = given;
  if (from != NULL) start_body(context, handle, from->type, from->parent, from->rank, &from->of);
  return 0;
}

static nccl_result record_v1(void *handle, int state, void *arguments) {
  (void)arguments;
  record_state(handle, state, 0);
  return 0;
}
static nccl_result record_v4(void *handle, int state, void *arguments) {
  bool is_timed = state == NCCL_STATE_KERNEL_CHANNEL_STOP && arguments != NULL;
  record_state(handle, state, is_timed ? ((struct nccl_state_arguments_v4 *)arguments)->gpu_time : 0);
  return 0;
}

static nccl_result init_v1(void **context, int *mask) { return init(1, context, mask, 0, NULL, 0, 0, 0, NULL); }
static nccl_result init_v2(void **context, int *mask) { return init(2, context, mask, 0, NULL, 0, 0, 0, NULL); }
static nccl_result init_v3(void **context, int *mask) { return init(3, context, mask, 0, NULL, 0, 0, 0, NULL); }
static nccl_result init_v4(void **context, int *mask, const char *name, uint64_t communicator, int nodes, int ranks, int rank, nccl_log log) {
  return init(4, context, mask, communicator, name, nodes, ranks, rank, log);
}
static nccl_result init_v5(void **context, uint64_t communicator, int *mask, const char *name, int nodes, int ranks, int rank, nccl_log log) {
  return init(5, context, mask, communicator, name, nodes, ranks, rank, log);
}
static nccl_result init_v6(void **context, uint64_t communicator, int *mask, const char *name, int nodes, int ranks, int rank, nccl_log log) {
  return init(6, context, mask, communicator, name, nodes, ranks, rank, log);
}

#define PUBLIC __attribute__((visibility("default")))
PUBLIC const struct nccl_profiler_v1 ncclProfiler_v1 = {"ranktrace", init_v1, start_v1, stop_event, record_v1, finalize};
PUBLIC const struct nccl_profiler_v1 ncclProfiler_v2 = {"ranktrace", init_v2, start_v3, stop_event, record_v1, finalize};
PUBLIC const struct nccl_profiler_v1 ncclProfiler_v3 = {"ranktrace", init_v3, start_v3, stop_event, record_v1, finalize};
PUBLIC const struct nccl_profiler_v4 ncclProfiler_v4 = {"ranktrace", init_v4, start_v4, stop_event, record_v4, finalize};
PUBLIC const struct nccl_profiler_v5 ncclProfiler_v5 = {"ranktrace", init_v5, start_v5, stop_event, record_v4, finalize};
PUBLIC const struct nccl_profiler_v5 ncclProfiler_v6 = {"ranktrace", init_v6, start_v5, stop_event, record_v4, finalize};

// Plays NCCL for the profiler plugin: loads it as NCCL does and calls it through each version of the interface.
//
//   nccl-harness LIBRARY VERSION legal THREADS COLLECTIVES   each thread has two communicators; prints a line of JSON for each collective that it played
//   nccl-harness LIBRARY VERSION hostile THREADS CALLS SEED  each thread calls anything with any handle, in any order
//   nccl-harness LIBRARY VERSION misuse                      one wrong call after the other; prints how many of them the plugin must have counted
//   nccl-harness LIBRARY VERSION fewer                       three collectives of which one channel each never comes, and one of which none does
//   nccl-harness LIBRARY VERSION fork                        a child that NCCL did not ask for, with its parent's handles; then a communicator of its own
//   nccl-harness LIBRARY VERSION crowd                       more communicators and events than the plugin holds
//   nccl-harness LIBRARY VERSION reload                      the last communicator ends, the plugin is closed and loaded again
//
// It ends with 0 when the plugin has answered as NCCL expects: success, whatever the call, and NULL or a handle.

#include "../nccl-profiler-abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHANNELS 3
/* The GPU's global timer: another epoch than the host's clock. */
#define GPU_EPOCH 1700000000000000000ull

static int version;
static void *library;
static const void *symbol;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
  fprintf(stderr, "nccl-harness: %s\n", what);
  exit(3);
}
static void expect(nccl_result result) {
  if (result != 0) fail("a call did not return success");
}
__attribute__((format(printf, 5, 6))) static void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)flags, (void)file, (void)line;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "nccl log %d: ", level);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
}
static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
static void load(const char *path) {
  char name[32];
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail(dlerror());
  snprintf(name, sizeof name, "ncclProfiler_v%d", version);
  symbol = dlsym(library, name);
  if (symbol == NULL) fail(dlerror());
}

// --- One interface for all versions: their structs begin alike ---

static const struct nccl_profiler_v1 *v1(void) { return symbol; }

static void *init(uint64_t communicator, const char *name, int nodes, int ranks, int rank, int *mask) {
  void *context = (void *)0x1;
  if (version <= 3) expect(v1()->init(&context, mask));
  else if (version == 4) expect(((const struct nccl_profiler_v4 *)symbol)->init(&context, mask, name, communicator, nodes, ranks, rank, log_line));
  else expect(((const struct nccl_profiler_v5 *)symbol)->init(&context, communicator, mask, name, nodes, ranks, rank, log_line));
  return context;
}
static void stop(void *handle) { expect(v1()->stop(handle)); }
static void record(void *handle, int state, void *arguments) { expect(v1()->record(handle, state, arguments)); }
static void finalize(void *context) { expect(v1()->finalize(context)); }

/* The collective or message that is played. */
struct played {
  uint64_t type;
  uint64_t communicator;
  const char *communicator_name;
  int rank;
  int function; /* index of `functions` */
  uint64_t sequence;
  uint64_t count;
  int data_type; /* index of `data_types` */
  int peer;
};
static const char *const functions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
static const char *const data_types[] = {"ncclInt8", "Unknown", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
static const int data_type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static void *start_event(void *context, void *event) {
  void *handle = (void *)0x1;
  expect(v1()->start(context, &handle, event));
  return handle;
}
static void *start_played(void *context, const struct played *of, void *parent) {
  bool is_p2p = of->type == NCCL_EVENT_P2P;
  if (version == 1) {
    struct nccl_event_v1 event = {.type = (uint8_t)of->type, .parent = parent, .rank = of->rank};
    if (is_p2p) {
      event.of.p2p.name = of->communicator_name, event.of.p2p.communicator = of->communicator, event.of.p2p.function = (uint8_t)of->function;
      event.of.p2p.count = of->count, event.of.p2p.data_type = (uint8_t)of->data_type, event.of.p2p.peer = of->peer;
    } else {
      event.of.coll.name = of->communicator_name, event.of.coll.communicator = of->communicator, event.of.coll.function = (uint8_t)of->function;
      event.of.coll.sequence = of->sequence, event.of.coll.count = of->count, event.of.coll.data_type = (uint8_t)of->data_type;
    }
    return start_event(context, &event);
  }
  if (version <= 3) {
    struct nccl_event_v3 event = {.type = (uint8_t)of->type, .parent = parent, .rank = of->rank};
    if (is_p2p) {
      event.of.p2p.name = of->communicator_name, event.of.p2p.communicator = of->communicator, event.of.p2p.function = functions[of->function];
      event.of.p2p.count = of->count, event.of.p2p.data_type = data_types[of->data_type], event.of.p2p.peer = of->peer;
    } else {
      event.of.coll.name = of->communicator_name, event.of.coll.communicator = of->communicator, event.of.coll.function = functions[of->function];
      event.of.coll.sequence = of->sequence, event.of.coll.count = of->count, event.of.coll.data_type = data_types[of->data_type], event.of.coll.channels_max = CHANNELS;
    }
    return start_event(context, &event);
  }
  union nccl_event_body_v4 body = {0};
  if (is_p2p) body.p2p.function = functions[of->function], body.p2p.count = of->count, body.p2p.data_type = data_types[of->data_type], body.p2p.peer = of->peer, body.p2p.channels = CHANNELS;
  else body.coll.sequence = of->sequence, body.coll.function = functions[of->function], body.coll.count = of->count, body.coll.data_type = data_types[of->data_type], body.coll.channels = CHANNELS;
  if (version == 4) {
    struct nccl_event_v4 event = {.type = (uint8_t)of->type, .parent = parent, .rank = of->rank, .of = body};
    return start_event(context, &event);
  }
  struct nccl_event_v5 event = {.type = of->type, .parent = parent, .rank = of->rank, .of = body};
  return start_event(context, &event);
}

/* A child, or an event without a body. */
static void *start_child(void *context, uint64_t type, void *parent, pid_t pid, uint64_t gpu_time) {
  if (version <= 3) {
    struct nccl_event_v3 event = {.type = (uint8_t)type, .parent = parent};
    if (type == NCCL_EVENT_PROXY_OP) event.of.proxy_op.pid = pid;
    return start_event(context, &event);
  }
  union nccl_event_body_v4 body = {0};
  if (type == NCCL_EVENT_PROXY_OP) body.proxy_op.pid = pid;
  else if (type == NCCL_EVENT_KERNEL_CHANNEL) body.kernel_channel.gpu_time = gpu_time;
  if (version == 4) {
    struct nccl_event_v4 event = {.type = (uint8_t)type, .parent = parent, .of = body};
    return start_event(context, &event);
  }
  struct nccl_event_v5 event = {.type = type, .parent = parent, .of = body};
  return start_event(context, &event);
}

// --- Legal ---

struct player { int number; int collectives; };

static void nap(long ns) {
  struct timespec pause = {.tv_sec = 0, .tv_nsec = ns};
  nanosleep(&pause, NULL);
}

/* Plays one collective with the children that `mask` asks for, and prints it. */
static void play(void *context, int mask, const struct played *of) {
  void *group = start_child(context, NCCL_EVENT_GROUP, NULL, 0, 0);
  uint64_t before = now_ns();
  void *handle = start_played(context, of, group);
  stop(handle);
  uint64_t after = now_ns();
  stop(group);
  uint64_t ran_start = 0, ran_end = 0;
  void *children[CHANNELS * 2];
  int begun = 0;
  if ((mask & NCCL_EVENT_KERNEL_CHANNEL) != 0) {
    ran_start = now_ns();
    for (int i = 0; i < CHANNELS; i++) children[begun++] = start_child(context, NCCL_EVENT_KERNEL_CHANNEL, handle, 0, GPU_EPOCH + ran_start);
  }
  if ((mask & NCCL_EVENT_PROXY_OP) != 0) {
    if (ran_start == 0) ran_start = now_ns();
    for (int i = 0; i < CHANNELS; i++) {
      children[begun] = start_child(context, NCCL_EVENT_PROXY_OP, handle, getpid(), 0);
      record(children[begun++], version >= 4 ? NCCL_STATE_PROXY_OP_IN_PROGRESS : 0, NULL);
    }
  }
  nap(20000);
  for (int i = begun - 1; i >= 0; i--) {
    if ((mask & NCCL_EVENT_KERNEL_CHANNEL) != 0 && i < CHANNELS) {
      ran_end = now_ns();
      struct nccl_state_arguments_v4 arguments = {.gpu_time = GPU_EPOCH + ran_end};
      record(children[i], NCCL_STATE_KERNEL_CHANNEL_STOP, version >= 4 ? &arguments : NULL);
    }
    stop(children[i]);
    if (children[i] != NULL) ran_end = now_ns();
  }
  pthread_mutex_lock(&printing);
  printf(
    "{\"communicator\":\"%llx\",\"group\":\"%s\",\"rank\":%d,\"name\":\"%s%s\",\"p2p\":%s,\"sequence\":%llu,\"bytes\":%llu,\"peer\":%d,"
    "\"before\":%llu,\"after\":%llu,\"ranStart\":%llu,\"ranEnd\":%llu}\n",
    (unsigned long long)of->communicator, of->communicator_name, of->rank, functions[of->function], of->type == NCCL_EVENT_CE_COLL ? " by copy engine" : "", of->type == NCCL_EVENT_P2P ? "true" : "false",
    (unsigned long long)of->sequence, (unsigned long long)(of->count * (uint64_t)data_type_bytes[of->data_type]), of->peer, (unsigned long long)before,
    (unsigned long long)after, (unsigned long long)ran_start, (unsigned long long)ran_end
  );
  pthread_mutex_unlock(&printing);
}

static void *play_legal(void *argument) {
  const struct player *player = argument;
  void *contexts[2];
  char names[2][32];
  uint64_t communicators[2];
  int mask = 0;
  for (int i = 0; i < 2; i++) {
    snprintf(names[i], sizeof names[i], "pool %d.%d", player->number, i);
    communicators[i] = 0xc000000000000000ul + (uint64_t)(player->number * 2 + i);
    contexts[i] = init(communicators[i], names[i], 2, 8, player->number, &mask);
    if (contexts[i] == NULL) fail("init gave no context");
  }
  for (int i = 0; i < player->collectives; i++) {
    int of = i % 2;
    bool is_p2p = i % 5 == 4, is_copied = (mask & NCCL_EVENT_CE_COLL) != 0 && i % 7 == 3;
    struct played played = {
      .type = is_p2p ? NCCL_EVENT_P2P : is_copied ? NCCL_EVENT_CE_COLL : NCCL_EVENT_COLL,
      .communicator = communicators[of],
      .communicator_name = names[of],
      .rank = player->number,
      .function = is_p2p ? 6 + i % 2 : i % 5,
      .sequence = is_p2p ? 0 : (uint64_t)i,
      .count = 1000 + (uint64_t)i,
      .data_type = i % 10,
      .peer = is_p2p ? i % 8 : -1,
    };
    play(contexts[of], mask, &played);
  }
  finalize(contexts[0]);
  finalize(contexts[1]);
  return NULL;
}

// --- Hostile ---

#define SHARED 512
/* Handles of all threads, good and bad ones. */
static void *_Atomic shared[SHARED];
struct villain { uint64_t seed; long calls; };

static uint64_t random_of(uint64_t *state) { // xorshift64*
  *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1dull;
}
static void *any_handle(uint64_t *seed) {
  switch (random_of(seed) % 16) {
    case 0: return NULL;
    case 1: return (void *)(uintptr_t)random_of(seed);
    case 2: return (void *)((uintptr_t)shared[random_of(seed) % SHARED] ^ (random_of(seed) & 0xffffff));
    default: return shared[random_of(seed) % SHARED];
  }
}
static void keep(uint64_t *seed, void *handle) {
  if (handle != NULL) shared[random_of(seed) % SHARED] = handle;
}
static void *play_hostile(void *argument) {
  struct villain *villain = argument;
  uint64_t seed = villain->seed;
  for (long i = 0; i < villain->calls; i++) {
    void *context = any_handle(&seed), *handle = any_handle(&seed);
    uint64_t type = random_of(&seed) % 8 == 0 ? random_of(&seed) : 1ull << (random_of(&seed) % 16);
    struct played played = {
      .type = random_of(&seed) % 2 ? NCCL_EVENT_COLL : NCCL_EVENT_P2P,
      .communicator = random_of(&seed),
      .communicator_name = random_of(&seed) % 2 ? "hostile" : NULL,
      .rank = (int)random_of(&seed),
      .function = (int)(random_of(&seed) % 8),
      .sequence = random_of(&seed),
      .count = random_of(&seed),
      .data_type = (int)(random_of(&seed) % 10),
      .peer = (int)random_of(&seed),
    };
    struct nccl_state_arguments_v4 arguments = {.gpu_time = random_of(&seed)};
    switch (random_of(&seed) % 64) {
      case 0: {
        int mask = 0;
        keep(&seed, init(random_of(&seed), random_of(&seed) % 2 ? "one" : NULL, (int)random_of(&seed), (int)random_of(&seed), (int)random_of(&seed), &mask));
        break;
      }
      case 1: finalize(handle); break;
      case 2: expect(v1()->start(context, NULL, NULL)); break;
      case 3: {
        void *out;
        expect(v1()->start(context, &out, NULL));
        if (out != NULL) fail("an event without a description has a handle");
        break;
      }
      case 4: case 5: case 6: case 7: keep(&seed, start_child(context, type, handle, random_of(&seed) % 8 ? getpid() : 1, random_of(&seed))); break;
      default:
        switch (random_of(&seed) % 4) {
          case 0: keep(&seed, start_played(context, &played, handle)); break;
          case 1: keep(&seed, start_child(context, random_of(&seed) % 2 ? NCCL_EVENT_PROXY_OP : NCCL_EVENT_KERNEL_CHANNEL, handle, getpid(), random_of(&seed))); break;
          case 2: record(handle, (int)(random_of(&seed) % 32), random_of(&seed) % 4 ? &arguments : NULL); break;
          default: stop(handle);
        }
    }
  }
  return NULL;
}

// --- Other ---

static const struct played one = {.type = NCCL_EVENT_COLL, .communicator = 0xf0, .communicator_name = "f", .function = 4, .count = 1, .data_type = 7, .peer = -1};

static void play_fork(void) {
  int mask = 0;
  void *context = init(0xf0, "f", 1, 1, 0, &mask);
  void *open = start_played(context, &one, NULL);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    stop(open);
    record(open, NCCL_STATE_KERNEL_CHANNEL_STOP, NULL);
    if (start_played(context, &one, NULL) != NULL) fail("a child of a fork has a handle");
    finalize(context);
    void *own = init(0xf1, "child", 1, 1, 0, &mask);
    if (own == NULL) fail("the child's communicator has no context");
    stop(open);
    struct played played = one;
    played.communicator = 0xf1;
    stop(start_played(own, &played, NULL));
    finalize(own);
    printf("{\"child\":%d}\n", (int)getpid());
    exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the child did not end well");
  stop(open);
  stop(start_played(context, &one, NULL));
  finalize(context);
}

/* A call that must give no handle. */
static void refused(void *handle) {
  if (handle != NULL) fail("an event that cannot be placed has a handle");
}
static void play_misuse(void) {
  int mask = 0, unknown = 0, dropped = 0;
  void *context = init(0xf0, "f", 1, 1, 0, &mask);
  void *collective = start_played(context, &one, NULL);
  stop(collective);
  stop(collective), unknown++;
  record(collective, NCCL_STATE_KERNEL_CHANNEL_STOP, NULL), unknown++;
  refused(start_child(context, NCCL_EVENT_PROXY_OP, NULL, getpid(), 0)), unknown++;
  refused(start_child(context, NCCL_EVENT_PROXY_STEP, collective, 0, 0)), unknown++;
  refused(start_played(NULL, &one, NULL)), unknown++;
  stop(NULL), record(NULL, 0, NULL), finalize(NULL);
  if ((mask & NCCL_EVENT_PROXY_OP) != 0) {
    refused(start_child(context, NCCL_EVENT_PROXY_OP, collective, getpid() + 1, 0)), unknown++;
    void *operation = start_child(context, NCCL_EVENT_PROXY_OP, collective, getpid(), 0);
    refused(start_child(context, NCCL_EVENT_PROXY_OP, operation, getpid(), 0)), unknown++;
    record(operation, NCCL_STATE_KERNEL_CHANNEL_STOP, NULL), unknown++;
    stop(operation);
    stop(operation), unknown++;
    record(operation, 0, NULL), unknown++;
  } else {
    // Its slot is that of another collective, which stays open.
    for (int i = 1; i < 16384; i++) stop(start_played(context, &one, NULL));
    if (start_played(context, &one, NULL) == NULL) fail("no slot is free");
    stop(collective), unknown++;
    dropped++;
  }
  finalize(context);
  finalize(context), unknown++;
  refused(start_played(context, &one, NULL)), unknown++;
  printf("{\"unknown\":%d,\"dropped\":%d}\n", unknown, dropped);
}

static void play_fewer(void) {
  int mask = 0;
  void *context = init(0xf0, "f", 1, 1, 0, &mask);
  for (int i = 0; i < 4; i++) {
    struct played played = one;
    played.sequence = (uint64_t)i;
    void *collective = start_played(context, &played, NULL);
    stop(collective);
    for (int channel = 0; channel < CHANNELS - 1 && i < 3; channel++) stop(start_child(context, NCCL_EVENT_KERNEL_CHANNEL, collective, 0, 0));
  }
  finalize(context);
}

static void play_crowd(void) {
  static void *contexts[1100];
  static void *handles[20000];
  int mask = 0, held = 0, masks_kept = 1;
  for (int i = 0; i < 1100; i++) {
    contexts[i] = init((uint64_t)i, "crowd", 1, 1, 0, &mask);
    if (contexts[i] != NULL) held++;
    else if (mask == 0) masks_kept = 0;
  }
  int started = 0;
  for (int i = 0; i < 20000; i++) {
    handles[i] = start_played(contexts[0], &one, NULL);
    if (handles[i] != NULL) started++;
  }
  for (int i = 0; i < 20000; i++) stop(handles[i]);
  for (int i = 0; i < 1100; i++) finalize(contexts[i]);
  void *again = init(1, "again", 1, 1, 0, &mask);
  printf("{\"held\":%d,\"started\":%d,\"masksKept\":%s,\"again\":%s}\n", held, started, masks_kept ? "true" : "false", again != NULL ? "true" : "false");
}

static void play_reload(const char *path) {
  int mask = 0;
  void *context = init(0xf0, "f", 1, 1, 0, &mask);
  void *open = start_played(context, &one, NULL);
  finalize(context);
  dlclose(library);
  load(path);
  stop(open);
  context = init(0xf0, "f", 1, 1, 0, &mask);
  stop(start_played(context, &one, NULL));
  finalize(context);
}

static void in_threads(int threads, void *(*run)(void *), void *arguments, size_t bytes) {
  pthread_t ids[64];
  if (threads > 64) fail("at most 64 threads");
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, run, (char *)arguments + (size_t)i * bytes) != 0) fail("no thread");
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

int main(int count, char **given) {
  if (count < 4) fail("usage: nccl-harness LIBRARY VERSION legal|hostile|misuse|fewer|fork|crowd|reload …");
  version = atoi(given[2]);
  load(given[1]);
  const char *scene = given[3];
  int threads = count > 4 ? atoi(given[4]) : 1;
  if (strcmp(scene, "legal") == 0) {
    struct player players[64];
    for (int i = 0; i < threads; i++) players[i] = (struct player){.number = i, .collectives = count > 5 ? atoi(given[5]) : 10};
    in_threads(threads, play_legal, players, sizeof *players);
  } else if (strcmp(scene, "hostile") == 0) {
    struct villain villains[64];
    int mask = 0;
    for (int i = 0; i < SHARED; i += 8) shared[i] = init((uint64_t)i, "shared", 1, 2, 0, &mask);
    for (int i = 0; i < threads; i++) villains[i] = (struct villain){.seed = strtoul(count > 6 ? given[6] : "1", NULL, 10) * 1000 + (uint64_t)i + 1, .calls = count > 5 ? atol(given[5]) : 1000};
    in_threads(threads, play_hostile, villains, sizeof *villains);
  } else if (strcmp(scene, "fork") == 0) {
    play_fork();
  } else if (strcmp(scene, "misuse") == 0) {
    play_misuse();
  } else if (strcmp(scene, "fewer") == 0) {
    play_fewer();
  } else if (strcmp(scene, "crowd") == 0) {
    play_crowd();
  } else if (strcmp(scene, "reload") == 0) {
    play_reload(given[1]);
  } else {
    fail("an unknown scene");
  }
  return 0;
}

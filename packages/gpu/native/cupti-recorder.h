// Recording of this process's own CUDA work through CUPTI's activity interface: activity records become rows of a ring.
//
// Nothing of CUDA is needed to build or to load this: libcupti is opened when recording starts. Where it cannot record, it says why, and nothing else
// happens.

#ifndef RANKTRACE_CUPTI_RECORDER_H
#define RANKTRACE_CUPTI_RECORDER_H

#include <stdint.h>

/*
 * Starts recording into a new ring at `path`. Where it records already, it goes on with the ring that it has. Returns NULL, or why it does not record:
 * then the ring, if it could be made, says the same in its header. Never throws, never ends the process.
 */
const char *rt_cupti_start(const char *path, uint32_t capacity);

/* Path of the ring in use; empty where there is none. */
const char *rt_cupti_path(void);

/* Writes what CUPTI has finished by now. */
void rt_cupti_flush(void);

/* Writes everything, and records no more. */
void rt_cupti_stop(void);

#endif

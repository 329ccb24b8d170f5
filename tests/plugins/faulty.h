/* What the plugin FAULTY does wrong, and how a test tells it: get_extension("x.faulty.control", 1). */
#ifndef TOLK_TESTS_FAULTY_H
#define TOLK_TESTS_FAULTY_H

#include <tolk/plugin/tolk_plugin.h>

typedef struct faulty_control {
  char fault[64];     /* what is wrong with the next calls; empty: nothing. See faulty.cpp */
  tolk_status answer; /* of the next call of `place` when the fault is "answer" */
  char place[64];     /* "launch", "synchronize", ... */
  uint32_t pending;   /* 1: events are not done, and waits with a limit expire */
  uint32_t block;     /* 1: launches wait until it is 0 again */
  uint32_t inside;    /* launches that wait */
  uint32_t peer;      /* what `peer` answers */
  uint64_t destroyed; /* buffers that the plugin was asked to destroy */
} faulty_control;

#endif

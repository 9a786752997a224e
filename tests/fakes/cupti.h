/* fake_cupti: a libcupti of our own making, for tests without a GPU. It records nothing by itself: a test says which
 * records there are, in the layouts of CUDA 12.0 or of 13.0, and what fails. */
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct FakeCupti {
  uint32_t version;      /* of cuptiGetVersion: 18 (CUDA 12.0) unless told, 130000 */
  int subscribe_result;  /* of cuptiSubscribe */
  uint32_t failing_kind; /* cuptiActivityEnable of it fails with 27 */
  size_t dropped;        /* records, told once */
  /* what was asked: */
  uint64_t kinds; /* enabled, a bit each */
  int subscribers, flushes, forced_flushes;
  uint8_t driver[1024], runtime[1024], callbacks[1024]; /* functions enabled by number */
  uint32_t thread_ids;
  uint64_t (*clock)(void);
} FakeCupti;

FakeCupti *fake_cupti(void);
void fake_cupti_reset(void);
/* A record with the fields of `record` (bytes of it) in the layout of this version: zeros fill the rest, 0xee what lies
 * behind it. */
void fake_cupti_record(const void *record, size_t bytes);
void fake_cupti_deliver(void);                                 /* the buffer that is being filled, to the client */
void fake_cupti_launch(uint32_t number, uint32_t correlation); /* calls back as on entry to the driver's function */

#endif

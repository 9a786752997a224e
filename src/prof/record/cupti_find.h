/* cupti_find: where libcupti is, and a subscription to it. */
#ifndef NEREID_PROF_CUPTI_FIND_H
#define NEREID_PROF_CUPTI_FIND_H

#include <stdbool.h>

#include "prof/record/cupti_api.h"

/* Fills api and *subscriber from the first libcupti that works with this machine's driver. false: why says what was
 * tried and what to do. */
bool cupti_open(CuptiApi *api, CuptiSubscriber *subscriber, CuptiCallback on_call, char why[500]);
/* Until what this process gave to its GPUs is done (each device whose primary context is in use). */
void cupti_wait_for_devices(void);

#endif

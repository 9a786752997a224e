/* lane_bits: which bits of a value are surely zero. Private to src/gpu. */
#ifndef NEREID_LANE_BITS_H
#define NEREID_LANE_BITS_H

#include "gpu/lane/lane.h"

/* Bits that are zero in every thread, within the value's type; 0 says nothing is known. Looks a few operations deep. */
uint64_t lane_zero_bits(const LaneValue *v);

#endif

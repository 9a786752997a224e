/* lane_scope: what a builder remembers of the operations it made. Private to lane/build.c and lane/control.c. */
#ifndef NEREID_LANE_SCOPE_H
#define NEREID_LANE_SCOPE_H

#include "gpu/lane/lane.h"

typedef struct LaneEntry {
  LaneOp *op;
  uint64_t hash;
  struct LaneEntry *next; /* in its bucket */
} LaneEntry;

/* A body was entered: entries from `first` on are of its inside. */
typedef struct LaneMark {
  const LaneOp *op;
  int first;
} LaneMark;

typedef struct LaneScope {
  LaneEntry **buckets;
  uint64_t mask;
  VEC(LaneEntry *) entries; /* in the order they came */
  VEC(LaneMark) marks;
} LaneScope;

void lane_scope_push(LaneBuilder *b, const LaneOp *op);
void lane_scope_pop(LaneBuilder *b, const LaneOp *op);
LaneValue *lane_value_create(LaneFunc *f, LaneType type, int index);

#endif

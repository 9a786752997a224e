/* tracks: where a timeline draws what: groups (a process; a GPU as one process used it) of tracks (a thread; a stream),
 * each with lanes when intervals of it overlap without being nested. */
#ifndef NEREID_PROF_TRACKS_H
#define NEREID_PROF_TRACKS_H

#include "prof/view/views.h"

typedef struct TrackGroup {
  bool gpu;
  uint32_t process, device;
  uint32_t pid;   /* in a file of Chrome's: the process's own, or one made up for a GPU */
  int sort;       /* processes before their GPUs */
  bool announced; /* the view's */
  int64_t in_use, pinned_in_use;
} TrackGroup;

typedef struct Track {
  TrackGroup *group;
  uint32_t thread, tid; /* tid: the thread's own where it is a thread's first lane, else made up */
  uint64_t stream;
  int lane, sort, index; /* index: counts all tracks */
  bool announced, of_samples;
  int64_t *ends; /* of the intervals that are open, the outermost first */
  int depth, cap;
  struct Track *next; /* lane */
} Track;

typedef struct Tracks {
  Arena *arena;
  Map *groups, *tracks;
  int group_count, track_count;
  uint64_t flows;
} Tracks;

TrackGroup *tracks_process(Tracks *t, uint32_t process);
TrackGroup *tracks_device(Tracks *t, uint32_t process, uint32_t device);
/* The track for an interval, which must not start before the last one that was placed. *end: where to end it so that
 * all is nested; the track's depth is how many are open, this one included. */
Track *tracks_place(Tracks *t, const JoinedEvent *i, int64_t *end);
/* The track beside a thread's own that shows its samples. */
Track *tracks_samples(Tracks *t, uint32_t process, uint32_t thread);
const char *track_group_name(const EventJoin *t, const TrackGroup *g, char *text, size_t size);
const char *track_name(const EventJoin *t, const Track *k, char *text, size_t size);

#endif

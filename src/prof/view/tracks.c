/* tracks: gives each interval of a timeline its place. Intervals of one thread nest, those of one stream follow each
 * other; what does neither gets a lane of its own beside:
 *
 *     stream 7       [kernel a      ]   [kernel c   ]
 *     stream 7 (2)              [kernel b (launched early)  ]
 */
#include "prof/view/tracks.h"

enum {
  MADE_UP = 5000000,  /* above the largest process number of Linux (4194304) */
  CLOCK_SLACK = 2000, /* ns that clocks of a GPU's profiler and of the CPU may differ: an inner interval that is longer
                         by less is cut */
  MOST_LANES = 32
};

static TrackGroup *group_of(Tracks *t, bool gpu, uint32_t process, uint32_t device) {
  uint32_t key[3] = {gpu, process, device};
  if (!t->groups) t->groups = map_create(t->arena, true), t->tracks = map_create(t->arena, true);
  TrackGroup *g = map_get_n(t->groups, (char *)key, sizeof key);
  if (g) return g;
  g = NEW(t->arena, TrackGroup);
  *g = (TrackGroup){
      .gpu = gpu, .process = process, .device = device, .pid = gpu ? MADE_UP + (uint32_t)t->group_count : process};
  g->sort = t->group_count++ + (gpu ? 1000 : 0);
  map_put_n(t->groups, arena_copy(t->arena, key, sizeof key), sizeof key, g);
  return g;
}
TrackGroup *tracks_process(Tracks *t, uint32_t process) { return group_of(t, false, process, 0); }
TrackGroup *tracks_device(Tracks *t, uint32_t process, uint32_t device) { return group_of(t, true, process, device); }

static Track *new_lane(Tracks *t, TrackGroup *g, const JoinedEvent *i, int lane) {
  Track *k = NEW(t->arena, Track);
  *k = (Track){.group = g,
               .thread = g->gpu ? 0 : i->thread,
               .stream = g->gpu ? i->stream : 0,
               .lane = lane,
               .index = t->track_count++};
  bool own = !g->gpu && !lane && i->thread;
  k->tid = own ? i->thread : MADE_UP + (uint32_t)k->index;
  k->sort = (g->gpu ? (int)(i->stream % 10000) : i->thread == i->process ? 0 : 1 + k->index) * MOST_LANES + lane;
  return k;
}

static Track *first_lane(Tracks *t, const JoinedEvent *i) {
  bool gpu = event_is_activity(i);
  uint64_t key[3] = {(uint64_t)i->process << 1 | gpu, gpu ? i->device : i->thread, gpu ? i->stream : 0};
  TrackGroup *g = gpu ? tracks_device(t, i->process, i->device) : tracks_process(t, i->process);
  Track *k = map_get_n(t->tracks, (char *)key, sizeof key);
  if (k) return k;
  k = new_lane(t, g, i, 0);
  map_put_n(t->tracks, arena_copy(t->arena, key, sizeof key), sizeof key, k);
  return k;
}

Track *tracks_samples(Tracks *t, uint32_t process, uint32_t thread) {
  uint64_t own[3] = {(uint64_t)process << 1, thread, 0}, key[3] = {own[0], thread, UINT64_MAX};
  TrackGroup *g = tracks_process(t, process);
  Track *k = map_get_n(t->tracks, (char *)key, sizeof key), *beside = map_get_n(t->tracks, (char *)own, sizeof own);
  if (k) return k;
  k = new_lane(t, g, &(JoinedEvent){.process = process, .thread = thread}, MOST_LANES - 1);
  k->lane = 0, k->of_samples = true;
  if (beside) k->sort = beside->sort + MOST_LANES - 1;
  map_put_n(t->tracks, arena_copy(t->arena, key, sizeof key), sizeof key, k);
  return k;
}

static void push(Tracks *t, Track *k, int64_t end) {
  if (k->depth == k->cap) {
    int cap = k->cap ? 2 * k->cap : 16;
    int64_t *more = NEW_N(t->arena, int64_t, cap);
    if (k->depth) memcpy(more, k->ends, (size_t)k->depth * sizeof *more);
    k->ends = more, k->cap = cap;
  }
  k->ends[k->depth++] = end;
}

Track *tracks_place(Tracks *t, const JoinedEvent *i, int64_t *end) {
  *end = i->end;
  for (Track *k = first_lane(t, i);; k = k->next) {
    while (k->depth && k->ends[k->depth - 1] <= i->start) k->depth--;
    int64_t room = k->depth ? k->ends[k->depth - 1] : *end;
    bool last = k->lane == MOST_LANES - 1, nested = !k->group->gpu && *end - room <= CLOCK_SLACK;
    if (!k->depth || nested || last) {
      if (*end > room) *end = room;
      return push(t, k, *end), k;
    }
    if (!k->next) k->next = new_lane(t, k->group, i, k->lane + 1);
  }
}

const char *track_group_name(const EventJoin *t, const TrackGroup *g, char *text, size_t size) {
  const ProcessInfo *p = events_process(t, g->process);
  const char *command = p ? trace_text(t->reader, p->name) : "";
  if (!g->gpu) { /* "python3 train.py ...": without folders of the program, and not all of its arguments */
    const char *space = strchr(command, ' '), *name = command;
    for (const char *p = command; *p && p != space; p++)
      if (*p == '/' && p[1] && p + 1 != space) name = p + 1;
    snprintf(text, size, strlen(name) > 90 ? "%.88s ..." : "%s", *name ? name : "process");
  } else {
    const DeviceInfo *d = events_device(t, g->process, g->device);
    int n = snprintf(text, size, "GPU %u%s%s", g->device, d ? " " : "", d ? trace_text(t->reader, d->name) : "");
    if (t->processes.n > 1 && n > 0 && (size_t)n < size)
      snprintf(text + n, size - (size_t)n, ", process %u", g->process);
  }
  return text;
}

const char *track_name(const EventJoin *t, const Track *k, char *text, size_t size) {
  const char *name = k->group->gpu ? "" : events_thread_name(t, k->group->process, k->thread);
  int n = k->group->gpu ? snprintf(text, size, "stream %llu", (unsigned long long)k->stream)
          : *name       ? snprintf(text, size, "%s", name)
          : k->thread   ? snprintf(text, size, k->thread == k->group->process ? "main thread" : "thread %u", k->thread)
                        : snprintf(text, size, "cpu device");
  if (k->of_samples && n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, ": CPU samples");
  if (k->lane && n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, " (%d)", k->lane + 1);
  return text;
}

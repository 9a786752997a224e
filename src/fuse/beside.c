/* Kernels beside each other: what does not wait for each other, and is over soon, becomes one launch. An optimizer's
 * step over many parameters is such, whatever their sizes are. Of the programs each kernel gets a range:
 *
 *     @triton.jit
 *     def add_7_kernel(w_ptr, t3_ptr, t9_ptr, b_ptr, t4_ptr, t10_ptr):
 *         program = tl.program_id(0)
 *         if program < 64:
 *             add_4_part(program, w_ptr, t3_ptr, t9_ptr, 1024)
 *         else:
 *             add_7_part(program - 64, b_ptr, t4_ptr, t10_ptr, 1024)
 *
 * A launch costs some microseconds, and a kernel of few programs leaves processors idle meanwhile. What it costs to be
 * one: a comparison or a few for each program, registers as the most demanding part needs them, and results of the
 * first that are waited for until the last has run. So parts move few bytes: a kernel of many gains nothing.
 *
 * A launch stands where its last part stood. It takes no more parts from where somebody reads what it has computed. */
#include "fuse/fuse.h"

enum {
  MOST_PARTS = 48,
  CPU_PARTS = 16,    /* there a C compiler takes a tenth of a second for each, one after the other */
  MOST_ARRAYS = 400, /* CUDA takes 4 KB of arguments everywhere */
  MOST_OPEN = 16,
  MOST_BYTES = 32 << 20, /* ten microseconds of an H200's memory */
  CPU_BYTES = 4 << 20,
  MOST_REDUCED = 1 << 20
};

typedef struct Launch {
  FuseGroup *first, *last;
  int parts, arrays;
  bool closed;
} Launch;

/* Bytes read and written; -1: not known. */
static int64_t bytes_of(Graph *g, const FuseGroup *group) {
  int64_t all = 0, n;
  for (int i = 0; i < group->reads.n + group->n; i++) {
    const Tensor *t = i < group->n ? group->roots[i] : g->at.at[group->reads.at[i - group->n]];
    if (!size_is_int(graph_numel(g, t), &n) || __builtin_mul_overflow(n, dtype_bytes(t->dtype), &n) ||
        __builtin_add_overflow(all, n, &all))
      return -1;
  }
  return all;
}

static bool may_join(const FusePlan *p, const FuseGroup *group) {
  int64_t most = p->target.kind == TARGET_CPU ? CPU_BYTES : MOST_BYTES, bytes = bytes_of(p->g, group), n;
  if (bytes < 0 || bytes > most) return false;
  if (group->kind == FUSE_REDUCE) return size_is_int(graph_numel(p->g, group->space->in[0]), &n) && n <= MOST_REDUCED;
  return group->kind == FUSE_POINT;
}

FuseGroup **fuse_beside(FusePlan *p, FuseGroup **groups) {
  Arena *a = p->g->cx->arena;
  int most = p->target.kind == TARGET_CPU ? CPU_PARTS : MOST_PARTS;
  int count = 0,
      *launch_of = NEW_N(a, int, p->g->at.n + 1); /* by tensor's id: the launch that computes it, from 1 on */
  while (groups[count]) count++;
  VEC(Launch) launches = {0};
  VEC(int) of_group = {0};
  for (int i = 0; i < count; i++) {
    FuseGroup *group = groups[i];
    int arrays = group->reads.n + group->n, to = launches.n;
    for (int k = 0; k < group->reads.n; k++) {
      int reads = launch_of[group->reads.at[k]];
      if (reads) launches.at[reads - 1].closed = true;
    }
    for (int k = launches.n - 1; may_join(p, group) && k >= 0 && k >= launches.n - MOST_OPEN; k--) {
      const Launch *l = &launches.at[k];
      if (!l->closed && l->parts < most && l->arrays + arrays <= MOST_ARRAYS) to = k;
    }
    if (to == launches.n) vec_push(a, &launches, (Launch){.first = group, .closed = !may_join(p, group)});
    else launches.at[to].last->beside = group;
    Launch *l = &launches.at[to];
    l->last = group;
    l->parts++;
    l->arrays += arrays;
    vec_push(a, &of_group, to);
    for (int k = 0; k < group->n; k++) launch_of[group->roots[k]->id] = to + 1;
  }
  FuseGroup **out = NEW_N(a, FuseGroup *, count + 1);
  int n = 0;
  for (int i = 0; i < count; i++)
    if (launches.at[of_group.at[i]].last == groups[i]) out[n++] = launches.at[of_group.at[i]].first;
  return out;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static int64_t programs_of(const FuseKernel *k) {
  int64_t all = 1, n;
  for (int d = 0; d < 3; d++)
    if (k->grid[d] && size_is_int(k->grid[d], &n)) all *= cdiv(n, k->block[d]);
  return all;
}

/* Where a part reads and writes: other places than another part's. */
static void note_places(Writer *w, const FuseKernel *part, int number) {
  for (int b = 0; b < part->buffer_count; b++) {
    Tensor *t = part->buffers[b];
    Map *maps[] = {w->loaded_at, w->stored_at};
    const char *texts[] = {part->loaded_at[b], part->stored_at[b]};
    for (int m = 0; m < 2; m++) {
      if (m && !part->writes[b]) continue;
      bool known = texts[m] && !map_get(maps[m], t);
      map_put(maps[m], t, known ? arena_printf(w->cx->arena, "part %d: %s", number, texts[m]) : "");
    }
  }
}

static void write_call(Writer *w, const FuseKernel *part, int64_t first) {
  Buf call = {.arena = w->cx->arena};
  buf_printf(&call, "%s(program", part->name);
  if (first) buf_printf(&call, " - %lld", (long long)first);
  for (int b = 0; b < part->buffer_count; b++) buf_printf(&call, ", %s", writer_buffer(w, part->buffers[b]));
  if (part->seed) buf_puts(&call, ", seed");
  for (int c = 0; c < part->constant_count; c++) buf_printf(&call, ", %lld", (long long)part->constants[c]);
  writer_line(w, "    %s)", call.at);
}

FuseKernel *kernel_beside(FusePlan *p, const FuseGroup *groups, FuseKernel *(*write)(FusePlan *, const FuseGroup *)) {
  VEC(FuseKernel *) parts = {0};
  Arena *a = p->g->cx->arena;
  const FuseGroup *last = groups;
  while (last->beside) last = last->beside;
  const char *name = fuse_kernel_name(p, last);
  p->parts = true;
  for (const FuseGroup *group = groups; group; group = group->beside) vec_push(a, &parts, write(p, group));
  p->parts = false;
  Writer *w = writer_create(p, groups, name);
  Buf text = {.arena = a};
  int64_t first = 0;
  writer_line(w, "program = tl.program_id(0)");
  for (int i = 0; i < parts.n; i++) {
    const FuseKernel *part = parts.at[i];
    int64_t programs = programs_of(part);
    if (i + 1 == parts.n) writer_line(w, "else:");
    else writer_line(w, "%s program < %lld:", i ? "elif" : "if", (long long)(first + programs));
    write_call(w, part, first);
    note_places(w, part, i);
    first += programs;
    w->kernel->seed |= part->seed;
    w->kernel->checks |= part->checks;
    if (part->num_warps > w->kernel->num_warps) w->kernel->num_warps = part->num_warps;
    if (part->notes) buf_puts(&w->notes, part->notes);
    for (int m = 0; m < part->member_count; m++) vec_push(a, &w->members, part->members[m]);
    buf_printf(&text, "%s\n\n", part->text);
  }
  w->kernel->grid[0] = size_int(p->g, first);
  w->kernel->block[0] = 1;
  FuseKernel *k = writer_finish(w);
  buf_puts(&text, k->text);
  k->text = text.at;
  return k;
}

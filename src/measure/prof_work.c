/* What launches ask of the machine (nereid_launch_cost), counted once for launches that are alike: of one
 * specialization, grid, values of numbers and sizes of arrays. A profile of a hundred thousand launches counts a
 * handful.
 *
 * The key of an entry is those values, as bytes. Entries go when the last session stops, and when a module is freed,
 * whose specialization's address might come again.
 */
#include <stdlib.h>

#include "prof/prof.h"
#include "measure/prof.h"

enum { MOST_ENTRIES = 1 << 14, BUCKETS = 1 << 10, MOST_SLOTS = 64 };

typedef struct Entry {
  struct Entry *next;
  uint64_t hash;
  size_t key_size;
  ProfWork work;
  unsigned char key[];
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ForkHook fork_hook = {.held = &lock};
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void watch_forks(void) { fork_hook_add(&fork_hook); }
static Entry *buckets[BUCKETS];
static atomic_int entry_count;

typedef struct Key {
  const Specialization *spec;
  int32_t grid[3];
  int32_t slots;
  uint64_t values[MOST_SLOTS]; /* of a pointer: bytes to the end of its array */
} Key;

static size_t make_key(Key *k, nereid_device *d, const Launch *l) {
  const Specialization *s = launch_spec(l);
  *k = (Key){.spec = s, .slots = s->run.slot_count < MOST_SLOTS ? s->run.slot_count : MOST_SLOTS};
  memcpy(k->grid, l->grid, sizeof k->grid);
  for (int i = 0; i < k->slots; i++)
    k->values[i] =
        s->run.slots[i].is_pointer ? (uint64_t)device_bytes_from(d, (const void *)(uintptr_t)l->args[i]) : l->args[i];
  return offsetof(Key, values) + sizeof k->values[0] * (size_t)k->slots;
}

static const Entry *find(const Key *k, size_t size, uint64_t hash) {
  for (const Entry *e = buckets[hash % BUCKETS]; e; e = e->next)
    if (e->hash == hash && e->key_size == size && !memcmp(e->key, k, size)) return e;
  return NULL;
}

/* ---- "f32[1000], f32[1000], 1000, BLOCK=256" --------------------------------------------------------------------- */

static void put_arg(Buf *out, nereid_device *d, const nereid_arg *a) {
  switch (a->kind) {
    case NEREID_ARG_POINTER: {
      int64_t bytes = device_bytes_from(d, a->pointer), each = (int64_t)nereid_dtype_bytes(a->dtype);
      if (bytes < 0) buf_printf(out, "*%s", nereid_dtype_name(a->dtype));
      else buf_printf(out, "%s[%lld]", nereid_dtype_name(a->dtype), (long long)(bytes / (each ? each : 1)));
      break;
    }
    case NEREID_ARG_INT: buf_printf(out, a->is_unsigned ? "%llu" : "%lld", (long long)a->i); break;
    case NEREID_ARG_FLOAT: buf_printf(out, "%g", a->f); break;
    case NEREID_ARG_BOOL: buf_puts(out, a->i ? "True" : "False"); break;
    case NEREID_ARG_NONE: buf_puts(out, "None"); break;
    case NEREID_ARG_CONSTEXPR:
      if (a->name) buf_printf(out, "%s=", a->name);
      if (a->text) buf_puts(out, a->text);
      else buf_printf(out, "%lld", (long long)a->i);
      break;
    case NEREID_ARG_DESCRIPTOR:
      buf_printf(out, "%s[", nereid_dtype_name(a->dtype));
      for (int i = 0; i < a->rank && i < 5; i++) buf_printf(out, "%s%lld", i ? "," : "", (long long)a->shape[i]);
      buf_putc(out, ']');
      break;
    case NEREID_ARG_TUPLE:
      buf_putc(out, '(');
      for (int i = 0; i < a->item_count; i++) {
        if (i) buf_puts(out, ", ");
        put_arg(out, d, &a->items[i]);
      }
      buf_putc(out, ')');
      break;
  }
}

/* In the order of the parameters; arguments are matched by position until the first named one. */
static void put_shapes(ProfWork *w, nereid_device *d, const ProfCall *c, const KernelInfo *k) {
  Buf out = {0};
  for (int i = 0; i < k->info.param_count; i++) {
    int named = 0;
    while (named < c->arg_count && !(c->args[named].name && !strcmp(c->args[named].name, k->names[i]))) named++;
    const nereid_arg *a = named < c->arg_count                   ? &c->args[named]
                          : i < c->arg_count && !c->args[i].name ? &c->args[i]
                                                                 : NULL;
    if (!a) continue; /* its default */
    if (out.n) buf_puts(&out, ", ");
    put_arg(&out, d, a);
  }
  if (out.at) snprintf(w->shapes, sizeof w->shapes, "%s", out.at);
  if (out.n >= sizeof w->shapes) memcpy(w->shapes + sizeof w->shapes - 4, "...", 4);
  buf_destroy(&out);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

bool prof_work_find(const ProfCall *c, nereid_device *d, const Launch *l, ProfWork *out) {
  *out = (ProfWork){0};
  /* too many to tell apart, or not counted */
  if (l->kernel->slot_count > MOST_SLOTS || l->options->programs) return true;
  Key k;
  size_t size = make_key(&k, d, l);
  uint64_t hash = hash_bytes(&k, size, 0);
  pthread_once(&fork_once, watch_forks);
  pthread_mutex_lock(&lock);
  const Entry *known = find(&k, size, hash);
  bool full = atomic_load(&entry_count) >= MOST_ENTRIES;
  if (known) *out = known->work;
  pthread_mutex_unlock(&lock);
  if (known || full || !c->args) return true;

  Entry *e = malloc(sizeof *e + size);
  if (!e) return true;
  *e = (Entry){.hash = hash, .key_size = size, .work.known = true};
  memcpy(e->key, &k, size);
  nereid_cost cost;
  int64_t grid[3] = {l->grid[0], l->grid[1], l->grid[2]};
  nereid_module *m = launch_spec(l)->module;
  if (!nereid_launch_cost(d, m, launch_spec(l)->kernel->info.name, grid, c->args, c->arg_count, l->options, &cost,
                          NULL)) {
    e->work.flops = cost.flops, e->work.bytes = (double)(cost.load_distinct + cost.store_distinct);
    e->work.exact = cost.exact;
  } /* else, CUDA C for one: shapes alone */
  put_shapes(&e->work, d, c, launch_spec(l)->kernel);
  pthread_mutex_lock(&lock);
  known = find(&k, size, hash);
  *out = known ? known->work : e->work;
  if (!known) e->next = buckets[hash % BUCKETS], buckets[hash % BUCKETS] = e, atomic_fetch_add(&entry_count, 1);
  pthread_mutex_unlock(&lock);
  if (known) free(e);
  return false;
}

void prof_work_clear(void) {
  if (!atomic_load(&entry_count)) return;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < BUCKETS; i++) {
    for (Entry *e = buckets[i], *next; e; e = next) {
      next = e->next;
      free(e);
    }
    buckets[i] = NULL;
  }
  atomic_store(&entry_count, 0);
  pthread_mutex_unlock(&lock);
}

/* bench_triton: Triton beside Nereid, for `nereid bench --triton`.
 *
 * python3 runs triton_helper.py, which the command carries as text, in a process of its own; commands and replies are
 * lines of JSON through pipes, arrays go through files in memory (/dev/shm, else the folder of temporary files) which
 * are removed once they are read. So both have the same bytes, the same file, grid, constexprs, warps and stages, and
 * are timed in turn: while one runs the other waits.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <limits.h>
#include <unistd.h>

static const char helper[] =
#include "triton_helper.py.inc"
    ;

struct Triton {
  pid_t pid;
  FILE *to, *from;
  TempFolder folder;
  char version[200];
  int arrays; /* ids given so far */
  struct Known {
    const LaunchArg *owner;
    int id;
  } known[MAX_CASES * MAX_LAUNCHES];
  int known_count;
};

const char *triton_version(const Triton *t) { return t->version; }

/* ---- the process ------------------------------------------------------------------------------------------------- */

static pid_t start_python(const char *python, const char *device, int *to, int *from) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC)) return -1;
  if (pipe2(out, O_CLOEXEC)) return close(in[0]), close(in[1]), -1;
  pid_t pid = fork();
  if (!pid) {
    dup2(in[0], 0), dup2(out[1], 1);
    signal(SIGPIPE, SIG_DFL);
    execlp(python, python, "-u", "-c", helper, device, (char *)NULL);
    _exit(127);
  }
  close(in[0]), close(out[1]);
  if (pid < 0) close(in[1]), close(out[0]);
  *to = in[1], *from = out[0];
  return pid;
}

/* The reply to the last command: NULL when the process is gone or talks nonsense. */
static Json *reply(Triton *t) {
  char *line = NULL;
  size_t size = 0;
  const char *why = NULL;
  Json *j = getline(&line, &size, t->from) > 0 ? json_parse(line, &why) : NULL;
  free(line);
  return j;
}

/* 0: done; -1: it could not, and why says so; 1: the process is gone, said so. *out (may be NULL) is the reply of a 0.
 */
static int answer(Triton *t, char why[300], Json **out) {
  Json *j = fflush(t->to) ? NULL : reply(t);
  const Json *ok = j ? json_get(j, "ok") : NULL;
  if (!ok) {
    json_free(j);
    progress_clear();
    return fprintf(stderr, "nereid bench: --triton: python3 has ended\n"), 1;
  }
  if (!ok->i) {
    snprintf(why, 300, "%s", json_get_text(j, "error", "no reason given"));
    json_free(j);
    return -1;
  }
  if (out) *out = j;
  else json_free(j);
  return 0;
}

int triton_start(Triton **out) {
  const char *python = environment_get("NEREID_PYTHON"), *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL;
  if (!python || !*python) python = "python3";
  Triton *t = calloc(1, sizeof *t);
  if (!t) return report_error(NULL);
  if (!temp_create(&t->folder, memory)) {
    fprintf(stderr, "nereid bench: --triton: no folder can be made for its data: %s\n", strerror(errno));
    return free(t), 1;
  }
  int to = -1, from = -1;
  signal(SIGPIPE, SIG_IGN); /* its end is seen by what it does not reply */
  t->pid = start_python(python, "0", &to, &from);
  t->to = t->pid > 0 ? fdopen(to, "w") : NULL, t->from = t->pid > 0 ? fdopen(from, "r") : NULL;
  Json *j = t->to && t->from ? reply(t) : NULL;
  const Json *ok = j ? json_get(j, "ok") : NULL;
  int status = !ok || !ok->i;
  if (status) {
    progress_clear();
    fprintf(stderr,
            "nereid bench: --triton needs python3 with PyTorch and Triton, and a GPU they see: %s\n  hint: pip install "
            "torch triton, or name another Python in NEREID_PYTHON\n",
            j ? json_get_text(j, "error", "it says nothing") : "it cannot be run");
    triton_stop(t);
  } else {
    snprintf(t->version, sizeof t->version, "%s", json_get_text(j, "text", ""));
    *out = t;
  }
  json_free(j);
  return status;
}

void triton_stop(Triton *t) {
  if (!t) return;
  if (t->to) fclose(t->to);
  if (t->from) fclose(t->from);
  if (t->pid > 0) waitpid(t->pid, NULL, 0);
  temp_remove(&t->folder);
  free(t);
}

/* A command is one object: more may be put into it between the two. */
static JsonWriter begin_command(Triton *t, const char *op) {
  JsonWriter w = {.file = t->to};
  json_begin_object(&w, NULL);
  json_put_text(&w, "op", op);
  return w;
}

static int end_command(Triton *t, JsonWriter *w, char why[300], Json **out) {
  json_end_object(w);
  fputc('\n', t->to);
  return answer(t, why, out);
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static const char *triton_type(nereid_dtype t) {
  return t == NEREID_F8E5 ? "fp8e5" : t == NEREID_F8E4NV ? "fp8e4nv" : nereid_dtype_name(t);
}

static int id_of(Triton *t, const LaunchArg *owner) { /* 0: not sent yet */
  for (int i = 0; i < t->known_count; i++)
    if (t->known[i].owner == owner) return t->known[i].id;
  return 0;
}

static int send_array(Triton *t, const LaunchArg *owner, char why[300]) {
  if (id_of(t, owner)) return 0;
  if (t->known_count == MAX_CASES * MAX_LAUNCHES) return snprintf(why, 300, "too many arrays"), -1;
  int id = ++t->arrays;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/array%d", t->folder.path, id);
  FILE *f = fopen(path, "wb");
  bool bad = !f || fwrite(owner->array.data, 1, (size_t)owner->array.bytes, f) != (size_t)owner->array.bytes;
  if (f && fclose(f)) bad = true;
  int status = bad ? (snprintf(why, 300, "cannot write %.200s: %s", path, strerror(errno)), -1) : 0;
  if (!status) {
    JsonWriter w = begin_command(t, "array");
    json_put_int(&w, "id", id);
    json_put_text(&w, "type", triton_type(owner->array.dtype));
    json_put_int(&w, "bytes", owner->array.bytes);
    json_put_text(&w, "path", path);
    status = end_command(t, &w, why, NULL);
  }
  unlink(path);
  if (!status) t->known[t->known_count++] = (struct Known){owner, id};
  return status;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static void put_argument(Triton *t, JsonWriter *w, const LaunchArg *a) {
  const nereid_arg *v = &a->arg;
  bool is_text = v->kind == NEREID_ARG_CONSTEXPR && v->text, descriptor = v->kind == NEREID_ARG_DESCRIPTOR;
  json_begin_object(w, NULL);
  json_put_text(w, "name", a->name);
  if (a->is_array || descriptor) {
    json_put_text(w, "kind", descriptor ? "descriptor" : "array");
    json_put_int(w, "id", id_of(t, a->shared ? a->shared : a));
    if (descriptor) {
      json_put_ints(w, "shape", v->shape, v->rank);
      json_put_ints(w, "strides", v->strides, v->rank);
      json_begin_array(w, "block");
      for (int i = 0; i < v->rank; i++) json_put_int(w, NULL, v->block_shape[i]);
      json_end_array(w);
    }
  } else if (is_text || v->kind == NEREID_ARG_FLOAT) {
    char number[64];
    snprintf(number, sizeof number, "float('%.17g')", v->f);
    json_put_text(w, "kind", "python");
    json_put_text(w, "text", is_text ? v->text : number);
  } else {
    json_put_text(w, "kind", "number");
    if (v->kind == NEREID_ARG_NONE) json_put_null(w, "value");
    else if (v->kind == NEREID_ARG_BOOL) json_put_bool(w, "value", v->i != 0);
    else if (v->is_unsigned) json_put_unsigned(w, "value", (uint64_t)v->i);
    else json_put_int(w, "value", v->i);
  }
  json_end_object(w);
}

static bool is_parameter(const nereid_kernel_info *k, const char *name) {
  for (int i = 0; i < k->param_count; i++)
    if (!strcmp(k->params[i].name, name)) return true;
  return false;
}

static void put_launch(Triton *t, JsonWriter *w, const Case *c, int i) {
  const Launch *l = &c->launches[i];
  char *path = realpath(l->path, NULL);
  json_begin_object(w, NULL);
  json_put_text(w, "file", path ? path : l->path);
  json_put_text(w, "kernel", l->kernel->name);
  json_put_ints(w, "grid", c->bench[i].grid, 3);
  json_begin_object(w, "options");
  json_put_int(w, "num_warps", l->options.num_warps);
  json_put_int(w, "num_stages", l->options.num_stages);
  json_end_object(w);
  json_begin_array(w, "args");
  for (int k = 0; k < l->arg_count; k++)
    if (is_parameter(l->kernel, l->args[k].name)) put_argument(t, w, &l->args[k]);
  json_end_array(w);
  json_end_object(w);
  free(path);
}

int triton_open(Triton *t, const Case *c, int index, char why[300]) {
  int status = 0;
  for (int i = 0; i < c->count && !status; i++)
    for (int k = 0; k < c->launches[i].arg_count && !status; k++) {
      const LaunchArg *a = &c->launches[i].args[k];
      if (a->is_array) status = send_array(t, a->shared ? a->shared : a, why);
    }
  if (status) return status;
  JsonWriter w = begin_command(t, "case");
  json_put_int(&w, "case", index);
  json_begin_array(&w, "launches");
  for (int i = 0; i < c->count; i++) put_launch(t, &w, c, i);
  json_end_array(&w);
  return end_command(t, &w, why, NULL);
}

typedef struct Fetch {
  Triton *triton;
  char *why;
  int status;
} Fetch;

static int fetch_theirs(void *arg, const LaunchArg *owner, void *to) {
  Fetch *f = arg;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/result", f->triton->folder.path);
  JsonWriter w = begin_command(f->triton, "read");
  json_put_int(&w, "id", id_of(f->triton, owner));
  json_put_text(&w, "path", path);
  f->status = end_command(f->triton, &w, f->why, NULL);
  FILE *in = f->status ? NULL : fopen(path, "rb");
  if (!f->status && (!in || fread(to, 1, (size_t)owner->array.bytes, in) != (size_t)owner->array.bytes))
    f->status = -1, snprintf(f->why, 300, "its results cannot be read from %.200s", path);
  if (in) fclose(in);
  unlink(path);
  return f->status != 0;
}

int triton_outputs(Triton *t, const Case *c, int index, Outputs *out, char why[300]) {
  JsonWriter w = begin_command(t, "run");
  json_put_int(&w, "case", index);
  int status = end_command(t, &w, why, NULL);
  if (status) return status;
  Fetch f = {t, why, 0};
  return case_outputs(c, out, fetch_theirs, &f) && !f.status ? 1 : f.status;
}

bool triton_trial(void *remote, bool cold, double *device_ns, double *wall_ns) {
  const TritonCase *c = remote;
  char why[300];
  Json *j = NULL;
  JsonWriter w = begin_command(c->triton, "trial");
  json_put_int(&w, "case", c->index);
  json_put_bool(&w, "cold", cold);
  int status = end_command(c->triton, &w, why, &j);
  if (status < 0) progress_clear(), fprintf(stderr, "nereid bench: --triton: %s\n", why);
  if (!status) *device_ns = json_get_number(j, "device", 0), *wall_ns = json_get_number(j, "wall", 0);
  json_free(j);
  return !status;
}

double triton_graph(Triton *t, int index, int times) {
  char why[300];
  Json *j = NULL;
  JsonWriter w = begin_command(t, "graph");
  json_put_int(&w, "case", index);
  json_put_int(&w, "times", times);
  int status = end_command(t, &w, why, &j);
  double ns = status ? 0 : json_get_number(j, "device", 0);
  json_free(j);
  return ns;
}

void triton_clear(Triton *t) {
  char why[300];
  JsonWriter w = begin_command(t, "clear");
  if (end_command(t, &w, why, NULL) == 0) t->known_count = 0;
}

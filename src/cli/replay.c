/* replay: compiles and runs launches that were recorded from real programs, and says how many went well and why the
 * others did not.
 *
 * Rows are handed one by one to worker processes: a kernel that runs wild or for ever then costs its row and a new
 * worker, not the run. A worker reads row numbers from its pipe and answers each with one line of JSON (replay_row.c).
 */
#include "replay.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 64 };

typedef struct Worker {
  pid_t pid;
  int to, from;  /* pipes */
  int64_t row;   /* what it works on, or -1 */
  int64_t since; /* ns */
  char *line;    /* the answer so far */
  size_t n;
} Worker;

typedef struct Log {
  char *text;
  char **lines;
  int64_t count;
} Log;

static bool read_log(const char *path, Log *log, const char **why) {
  static const int64_t most = 1LL << 30;
  *why = "out of memory";
  log->text = read_text(path, most, why);
  if (!log->text) return false;
  int64_t lines = 1;
  for (char *p = log->text; *p; p++) lines += *p == '\n';
  log->lines = malloc(sizeof *log->lines * (size_t)lines);
  if (!log->lines) return false;
  for (char *p = log->text; *p;) {
    char *end = p + strcspn(p, "\n"), *next = *end ? end + 1 : end;
    *end = 0;
    if (p[strspn(p, " \t\r")]) log->lines[log->count++] = p;
    p = next;
  }
  return true;
}

/* ---- the worker's side ------------------------------------------------------------------------------------------- */

static void work(const ReplayOptions *o, const Log *log, int from_parent, int to_parent) {
  nereid_error *err = NULL;
  Replayer r = {.options = o};
  FILE *out = fdopen(to_parent, "w");
  if (!out || nereid_device_open(o->device, &r.device, &err) || nereid_device_open("interp", &r.interp, &err))
    _exit(report_error(err));
  /* what kernels print while they compile and run is not this program's */
  if (!freopen("/dev/null", "w", stderr)) _exit(1);
  int64_t row;
  while (read(from_parent, &row, sizeof row) == (ssize_t)sizeof row) {
    const char *why = NULL;
    Json *json = json_parse(log->lines[row], &why);
    if (json) replay_row(&r, json, row + 1, out);
    else {
      char detail[200];
      JsonWriter w = {.file = out};
      snprintf(detail, sizeof detail, "the log's line is no JSON: %s", why ? why : "?");
      replay_begin_row(&w, row + 1, NULL, REPLAY_COMPILE_FAILED, detail);
      json_end_object(&w);
      fputc('\n', out);
      fflush(out);
    }
    json_free(json);
  }
  _exit(0);
}

static bool start_worker(Worker *w, const ReplayOptions *o, const Log *log) {
  int down[2], up[2];
  if (pipe(down)) return false;
  if (pipe(up)) return close(down[0]), close(down[1]), false;
  w->pid = fork();
  if (w->pid == 0) {
    close(down[1]), close(up[0]);
    work(o, log, down[0], up[1]);
  }
  close(down[0]), close(up[1]);
  w->to = down[1], w->from = up[0], w->row = -1, w->n = 0;
  return w->pid > 0;
}

static void stop_worker(Worker *w) {
  close(w->to), close(w->from);
  kill(w->pid, SIGKILL);
  waitpid(w->pid, NULL, 0);
  free(w->line);
  *w = (Worker){.row = -1};
}

/* Whether there is such a target: a kernel that does nothing compiles for it. */
static int try_target(const char *target) {
  nereid_error *err = NULL;
  nereid_module *m = NULL;
  char *text = NULL;
  int status = 0;
  if (nereid_module_load_string("empty.py", "import triton\n@triton.jit\ndef empty():\n    pass\n", &m, &err) ||
      nereid_inspect(m, "empty", NULL, 0, NULL, "lane", target, &text, &err))
    status = report_error(err);
  free(text);
  nereid_module_free(m);
  return status;
}

/* Whether a worker could begin at all; asked in a process of its own, since a GPU's context does not outlive a fork. */
static bool can_begin(const ReplayOptions *o) {
  if (o->target) return !try_target(o->target);
  if (o->compile_only) return true;
  pid_t pid = fork();
  if (pid == 0) {
    nereid_error *err = NULL;
    nereid_device *d = NULL;
    _exit(nereid_device_open(o->device, &d, &err) ? report_error(err) : 0);
  }
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- the summary ------------------------------------------------------------------------------------------------- */

typedef struct Cause {
  char *text;
  ReplayState state;
  bool built;
  int count;
  int64_t first_row;
  char *from; /* where the program launches it, or NULL */
} Cause;
/* A row's registers beside those that Triton's compiler used for it. */
typedef struct Wide {
  char *kernel;
  int64_t row;
  long registers, spills, triton_registers, triton_spills;
} Wide;
typedef struct Summary {
  int total[REPLAY_STATE_COUNT], built[REPLAY_STATE_COUNT]; /* all rows; those that Triton builds */
  Cause *causes;
  int cause_count;
  double worst_text_ms, worst_compiler_ms;
  int64_t worst_text_row, peak_bytes;
  int64_t launches, failed_launches; /* that the program made, where the log says; those of rows that are a cause */
  int compared;                      /* rows of which both registers are known */
  double log_ratio;                  /* sum of logarithms: ours over Triton's */
  Wide *wide;                        /* over 1.25 times Triton's, or spilled where Triton does not */
  int wide_count, over, spilled;
} Summary;

static ReplayState state_of(const char *name) {
  for (int s = 0; s < REPLAY_STATE_COUNT; s++)
    if (!strcmp(name, replay_state_names[s])) return (ReplayState)s;
  return REPLAY_CRASH;
}

static void compare_registers(Summary *s, const Json *j) {
  Wide w = {.row = json_get_int(j, "row", 0),
            .registers = (long)json_get_int(j, "registers", 0),
            .spills = (long)json_get_int(j, "spill_bytes", 0),
            .triton_registers = (long)json_get_int(j, "triton_registers", 0),
            .triton_spills = (long)json_get_int(j, "triton_spills", 0)};
  if (w.registers < 1 || w.triton_registers < 1) return;
  s->compared++;
  s->log_ratio += log((double)w.registers / (double)w.triton_registers);
  bool over = 4 * w.registers > 5 * w.triton_registers, spilled = w.spills && !w.triton_spills;
  s->over += over, s->spilled += spilled;
  if (!over && !spilled) return;
  Wide *more = realloc(s->wide, sizeof *more * (size_t)(s->wide_count + 1));
  if (!more) return;
  s->wide = more;
  w.kernel = format_string("%s", json_get_text(j, "kernel", "?"));
  s->wide[s->wide_count++] = w;
}

static void count_result(Summary *s, const Json *j) {
  ReplayState state = state_of(json_get_text(j, "state", "crash"));
  s->total[state]++;
  if (json_get_int(j, "triton_builds", 1)) s->built[state]++;
  double text_ms = json_get_number(j, "front_ms", 0) + json_get_number(j, "backend_ms", 0);
  if (text_ms > s->worst_text_ms) s->worst_text_ms = text_ms, s->worst_text_row = json_get_int(j, "row", 0);
  if (json_get_number(j, "compiler_ms", 0) > s->worst_compiler_ms)
    s->worst_compiler_ms = json_get_number(j, "compiler_ms", 0);
  if (json_get_int(j, "peak_bytes", 0) > s->peak_bytes) s->peak_bytes = json_get_int(j, "peak_bytes", 0);
  compare_registers(s, j);
  int64_t launches = json_get_int(j, "launches", 0);
  s->launches += launches;
  if (state == REPLAY_AGREES || state == REPLAY_COMPILED) return;
  s->failed_launches += launches;
  bool built = json_get_int(j, "triton_builds", 1) != 0;
  char *text = format_string("%s%s: %s", built ? "" : "(Triton does not build it) ", json_get_text(j, "kernel", "?"),
                             json_get_text(j, "detail", ""));
  const char *from = json_get_text(j, "from", NULL);
  int64_t row = json_get_int(j, "row", 0);
  /* same reason, other kernel: one cause */
  char *key = state == REPLAY_COMPILE_FAILED && text ? strchr(text, ':') : NULL;
  for (int i = 0; i < s->cause_count && text; i++) {
    const char *other = s->causes[i].text;
    const char *other_key = key ? strchr(other, ':') : NULL;
    if (s->causes[i].state != state || s->causes[i].built != built ||
        strcmp(other_key ? other_key : other, key ? key : text))
      continue;
    s->causes[i].count++;
    if (row < s->causes[i].first_row) { /* workers end in any order */
      free(s->causes[i].from);
      s->causes[i].first_row = row;
      s->causes[i].from = from ? format_string("%s", from) : NULL;
    }
    free(text);
    return;
  }
  Cause *more = realloc(s->causes, sizeof *more * (size_t)(s->cause_count + 1));
  if (!more || !text) return free(text);
  s->causes = more;
  s->causes[s->cause_count++] = (Cause){text, state, built, 1, row, from ? format_string("%s", from) : NULL};
}

static int by_count(const void *a, const void *b) {
  const Cause *x = a, *y = b;
  return x->state != y->state ? (int)x->state - (int)y->state : y->count - x->count;
}

static int by_row(const void *a, const void *b) {
  const Wide *x = a, *y = b;
  return x->row < y->row ? -1 : x->row > y->row;
}

static void print_registers(Summary *s) {
  if (s->wide_count) qsort(s->wide, (size_t)s->wide_count, sizeof *s->wide, by_row);
  for (int i = 0; i < s->wide_count; i++) {
    const Wide *w = &s->wide[i];
    if (!i) printf("more registers than Triton:\n");
    printf("  row %-5ld %3ld registers, Triton's %3ld", (long)w->row, w->registers, w->triton_registers);
    if (w->spills || w->triton_spills) printf("; %ld bytes spilled, Triton's %ld", w->spills, w->triton_spills);
    printf("  %s\n", w->kernel ? w->kernel : "?");
  }
  if (!s->compared) {
    printf("registers: none to compare (they need ptxas here, and Triton's in the log)\n");
    return;
  }
  printf("registers: %d rows with Triton's beside them; %.2f times Triton's in the mean, over 1.25 times in %d, "
         "spilled where Triton's are not in %d\n",
         s->compared, exp(s->log_ratio / s->compared), s->over, s->spilled);
}

static void print_summary(Summary *s, const ReplayOptions *o, int64_t start) {
  int total = 0, built = 0, compiled = 0, ran = 0, agreed = 0;
  for (int i = 0; i < REPLAY_STATE_COUNT; i++) {
    total += s->total[i], built += s->built[i];
    bool lost = i == REPLAY_TIMEOUT || i == REPLAY_CRASH; /* while compiling, when nothing is run */
    if (i != REPLAY_COMPILE_FAILED && !(lost && o->compile_only)) compiled += s->built[i];
  }
  agreed = s->built[REPLAY_AGREES];
  /* whose inputs say what is right */
  ran = compiled - s->built[REPLAY_COMPILED] - s->built[REPLAY_NO_INPUTS] - s->built[REPLAY_RACE];
  if (s->cause_count) qsort(s->causes, (size_t)s->cause_count, sizeof *s->causes, by_count);
  ReplayState last = REPLAY_AGREES;
  for (int i = 0; i < s->cause_count; i++) {
    if (s->causes[i].state != last) printf("%s:\n", replay_state_names[last = s->causes[i].state]);
    printf("  %4d  from row %-5ld %s\n", s->causes[i].count, (long)s->causes[i].first_row, s->causes[i].text);
    if (s->causes[i].from) printf("        launched at %s\n", s->causes[i].from);
  }
  if (s->launches)
    printf("\nrecorded: %lld launches, %lld of them of rows that are listed", (long long)s->launches,
           (long long)s->failed_launches);
  double seconds = (double)(now_ns() - start) / 1e9;
  printf("\n%d launches, %d that Triton builds: %d compiled (%.1f%%)", total, built, compiled,
         built ? 100.0 * compiled / built : 0);
  if (o->compile_only) {
    printf("\nsource to %s: at most %.1f ms (row %ld); %.0f s in all\n", o->target ? "machine code" : "C text",
           s->worst_text_ms, (long)s->worst_text_row, seconds);
    if (o->target) print_registers(s);
    return;
  }
  printf("; inputs could be generated for %d, of which %d ran and agreed (%.1f%%)\n", ran, agreed,
         ran ? 100.0 * agreed / ran : 0);
  bool cpu = !strncmp(o->device, "cpu", 3), cuda = !strncmp(o->device, "cuda", 4), sim = !strncmp(o->device, "sim", 3);
  printf("source to %s: at most %.1f ms (row %ld); ",
         cpu    ? "C text"
         : cuda ? "PTX"
         : sim  ? "lane IR"
                : "tile IR",
         s->worst_text_ms, (long)s->worst_text_row);
  if (cpu || cuda) printf("%s: at most %.0f ms; ", cpu ? "C compiler" : "ptxas", s->worst_compiler_ms);
  printf("memory of a compilation: at most %.1f MiB; %.0f s in all\n", (double)s->peak_bytes / 0x1p20, seconds);
}

/* ---- the parent's loop ------------------------------------------------------------------------------------------- */

static ReplayState take_result(Summary *s, const ReplayOptions *o, const char *line) {
  Json *j = json_parse(line, NULL);
  if (o->json) printf("%s\n", line);
  if (j) count_result(s, j);
  ReplayState state = state_of(json_get_text(j, "state", "crash"));
  json_free(j);
  return state;
}

/* A row whose worker died or was stopped. */
static void take_loss(Summary *s, const ReplayOptions *o, const Log *log, int64_t row, ReplayState state,
                      const char *why) {
  Json *json = json_parse(log->lines[row], NULL);
  Buf line = {0};
  JsonWriter w = {.buf = &line};
  replay_begin_row(&w, row + 1, json, state, why);
  json_end_object(&w);
  json_free(json);
  if (!line.failed) take_result(s, o, line.at);
  buf_destroy(&line);
}

/* Reads what the worker says; true when its row has ended, one way or the other. */
static bool hear(Worker *w, Summary *s, const ReplayOptions *o, const Log *log) {
  char chunk[4096];
  ssize_t n = read(w->from, chunk, sizeof chunk);
  if (n <= 0) {
    int status = 0;
    waitpid(w->pid, &status, WNOHANG);
    char why[64];
    snprintf(why, sizeof why, WIFSIGNALED(status) ? "stopped by signal %d" : "ended with status %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (w->row >= 0) take_loss(s, o, log, w->row, REPLAY_CRASH, why);
    stop_worker(w);
    return true;
  }
  char *more = realloc(w->line, w->n + (size_t)n + 1);
  if (!more) return false;
  w->line = more;
  memcpy(w->line + w->n, chunk, (size_t)n);
  w->n += (size_t)n, w->line[w->n] = 0;
  char *end = strchr(w->line, '\n');
  if (!end) return false;
  *end = 0;
  ReplayState state = take_result(s, o, w->line);
  w->n = 0, w->row = -1;
  if (state == REPLAY_RUN_FAILED) stop_worker(w); /* a fault costs a GPU's context, and all later rows of the process */
  return true;
}

static bool wanted(const ReplayOptions *o, const Log *log, int64_t row) {
  if (o->first_row && (row + 1 < o->first_row || row + 1 > o->last_row)) return false;
  return !o->filter || strstr(log->lines[row], o->filter);
}

static int replay_rows(const ReplayOptions *o, const Log *log, Summary *s) {
  Worker workers[MAX_JOBS] = {0};
  int64_t next = 0, todo = 0, done = 0, start = now_ns();
  for (int64_t i = 0; i < log->count; i++) todo += wanted(o, log, i);
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < o->jobs; i++) workers[i].row = -1;
  while (done < todo) {
    struct pollfd fds[MAX_JOBS];
    for (int i = 0; i < o->jobs; i++) {
      Worker *w = &workers[i];
      while (next < log->count && !wanted(o, log, next)) next++;
      if (w->row < 0 && next < log->count) {
        if (!w->pid && !start_worker(w, o, log))
          return fprintf(stderr, "nereid replay: cannot start a worker: %s\n", strerror(errno)), 1;
        w->row = next, w->since = now_ns();
        if (write(w->to, &next, sizeof next) == (ssize_t)sizeof next) next++;
        else w->row = -1, stop_worker(w);
      }
      fds[i] = (struct pollfd){.fd = w->row >= 0 ? w->from : -1, .events = POLLIN};
    }
    poll(fds, (nfds_t)o->jobs, 500);
    for (int i = 0; i < o->jobs; i++) {
      Worker *w = &workers[i];
      if (w->row < 0) continue;
      if (fds[i].revents) done += hear(w, s, o, log);
      else if (now_ns() - w->since > (int64_t)o->timeout_s * 1000000000) {
        take_loss(s, o, log, w->row, REPLAY_TIMEOUT, "took too long");
        stop_worker(w), done++;
      }
    }
    progress(start, "%ld of %ld launches, %d agree, %d failed to compile", (long)done, (long)todo,
             s->total[REPLAY_AGREES], s->total[REPLAY_COMPILE_FAILED]);
  }
  progress_clear();
  for (int i = 0; i < o->jobs; i++)
    if (workers[i].pid) stop_worker(&workers[i]);
  return 0;
}

/* "3", "3..9" */
static bool rows_option(ReplayOptions *o, const char *text) {
  const char *end;
  int64_t first, last;
  if (!read_whole(text, 10, &end, &first)) return false;
  last = first;
  if (!strncmp(end, "..", 2) && !read_whole(end + 2, 10, &end, &last)) return false;
  o->first_row = first, o->last_row = last;
  return !*end && first >= 1;
}

static int parse_options(ReplayOptions *o, int argc, char **argv) {
  const Verb *v = &verb_replay;
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (a[0] != '-') {
      if (o->log) return usage_error(v, "one log at a time; '%s' is a second", a);
      o->log = a;
    } else if (!strcmp(a, "--json")) o->json = true;
    else if (!strcmp(a, "--compile-only")) o->compile_only = true;
    else if (strcmp(a, "--root") && strcmp(a, "--device") && strcmp(a, "--filter") && strcmp(a, "--jobs") &&
             strcmp(a, "--timeout") && strcmp(a, "--programs") && strcmp(a, "--rows") && strcmp(a, "--target") &&
             strcmp(a, "--define")) {
      int took = option_of_others(v, argc - i, argv + i);
      if (took < 0) return 2;
      i += took - 1;
    } else if (!value) return usage_error(v, "%s needs a value", a);
    else {
      i++;
      int n;
      if (!strcmp(a, "--root")) o->root = value;
      else if (!strcmp(a, "--define")) {
        const char *why = define_add(&o->defines, value);
        if (why) return usage_error(v, "--define %s", why);
      } else if (!strcmp(a, "--device")) o->device = value;
      else if (!strcmp(a, "--filter")) o->filter = value;
      else if (!strcmp(a, "--target")) o->target = value, o->compile_only = true;
      else if (!strcmp(a, "--rows")) {
        if (!rows_option(o, value)) return usage_error(v, "--rows takes FIRST..LAST, counted from 1");
      } else if (!read_count(value, 1, INT32_MAX, &n)) return usage_error(v, "%s needs a number above zero", a);
      else if (!strcmp(a, "--jobs")) o->jobs = n > MAX_JOBS ? MAX_JOBS : n;
      else if (!strcmp(a, "--timeout")) o->timeout_s = n;
      else o->max_programs = n < 2 ? 2 : n;
    }
  }
  if (!o->log) return usage_error(v, "which log? usage: nereid %s", v->synopsis);
  if (!o->root) return usage_error(v, "--root says where the log's files are");
  return 0;
}

static int replay(int argc, char **argv) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  ReplayOptions o = {.device = "cpu:1",
                     .jobs = processors < 1          ? 1
                             : processors > MAX_JOBS ? MAX_JOBS
                                                     : (int)processors,
                     .timeout_s = 120,
                     .max_programs = 12};
  int status = parse_options(&o, argc, argv);
  if (status) return status;
  Log log = {0};
  const char *why;
  if (!read_log(o.log, &log, &why)) return fprintf(stderr, "nereid replay: cannot read %s: %s\n", o.log, why), 1;
  if (!can_begin(&o)) return 1;
  Summary s = {0};
  int64_t start = now_ns();
  status = replay_rows(&o, &log, &s);
  if (!o.json && !status) print_summary(&s, &o, start);
  for (int i = 0; i < REPLAY_STATE_COUNT; i++)
    if (i != REPLAY_AGREES && i != REPLAY_COMPILED && i != REPLAY_NO_INPUTS && i != REPLAY_RACE && s.built[i])
      status = 1;
  for (int i = 0; i < s.cause_count; i++) free(s.causes[i].text), free(s.causes[i].from);
  for (int i = 0; i < s.wide_count; i++) free(s.wide[i].kernel);
  free(s.causes), free(s.wide), free(log.lines), free(log.text);
  return status;
}

const Verb verb_replay = {
    "replay", "replay LOG.jsonl --root DIR [options]",
    "compiles and runs recorded launches, and compares with the interpreter", replay,
    "  --root DIR      where the files named in the log are\n"
    "  --define N=EXPR what a free name of all files is, as for nereid run\n"
    "  --device D      cpu:1 (default): one thread a worker; sim, cuda, cuda:N\n"
    "  --jobs N        worker processes; default: one a processor\n"
    "  --programs N    run at most N programs of a grid: the first, the last, some at random (default 12);\n"
    "                  all where programs wait for each other\n"
    "  --timeout S     seconds a row may take (default 120)\n"
    "  --rows A..B     only these rows;  --filter TEXT  only rows that contain TEXT\n"
    "  --compile-only  to C text, nothing is run\n"
    "  --target T      to a GPU's machine code (sm_90a, ...), nothing is run; says registers and spills beside "
    "Triton's\n"
    "  --json          one line a row instead of the summary\n\n"
    "Exit status 1 when a row that Triton builds failed, differed, crashed or took too long.\n"};

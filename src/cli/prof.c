/* prof: where the time goes.
 *
 *     nereid prof FILE.py[:KERNEL] ARG=SPEC ... --grid G    launches of ours, after a warm-up, in a scope of their name
 *     nereid prof [options] -- PROGRAM ARGS...              any program that uses CUDA, unchanged (src/inject)
 *     nereid prof TRACE                                     what one of these kept with --trace
 *
 * All three end alike: there is a trace, and views of it are written, the text ones to standard output or -o, each
 * other one to the file that its option names.
 */
#include "bench.h"

#include "base/base.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct FileView {
  const char *option, *view, *path;
} FileView;
enum { FILE_VIEWS = 7, WARMUP = 2, REPEAT = 20, REPEAT_SLOW = 1, PROGRAM_HZ = 200, FLAME_HZ = 1000, HZ_UNSAID = -1 };

typedef struct Prof {
  Plan plan;
  const char *device, *trace, *out;
  char texts[60]; /* "table,tree", as asked for; "": the report */
  FileView files[FILE_VIEWS];
  nereid_prof_view_options view;
  nereid_prof_options session;
  int repeat;
  char **program; /* after --; NULL: none */
} Prof;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int add_text(Prof *p, const char *name) {
  char *comma = *p->texts ? "," : "";
  size_t n = strlen(p->texts);
  if (!strstr(p->texts, name)) snprintf(p->texts + n, sizeof p->texts - n, "%s%s", comma, name);
  return 1;
}

/* How many words, 0 for none of ours, -1 for wrong. */
static int prof_option(Prof *p, int argc, char **argv) {
  const char *o = argv[0];
  if (!strcmp(o, "--json")) return p->view.json = true, 1;
  if (!strcmp(o, "--work")) return p->session.count_work = true, 1;
  if (!strcmp(o, "--shapes")) return p->view.shapes = true, 1;
  if (!strcmp(o, "--table") || !strcmp(o, "--tree") || !strcmp(o, "--functions") || !strcmp(o, "--advice"))
    return add_text(p, o + 2);
  const char **text = !strcmp(o, "--device")    ? &p->device
                      : !strcmp(o, "--trace")   ? &p->trace
                      : !strcmp(o, "-o")        ? &p->out
                      : !strcmp(o, "--sort")    ? &p->view.sort
                      : !strcmp(o, "--metrics") ? &p->view.metrics
                      : !strcmp(o, "--title")   ? &p->view.title
                                                : NULL;
  for (int i = 0; i < FILE_VIEWS && !text; i++)
    if (!strcmp(o, p->files[i].option)) text = &p->files[i].path;
  int least = 1, most = 0, *n = NULL;
  if (!strcmp(o, "--rows")) n = &p->view.rows, most = 1000000;
  if (!strcmp(o, "--width")) n = &p->view.width, most = 1000;
  if (!strcmp(o, "--repeat")) n = &p->repeat, most = 100000000;
  if (!strcmp(o, "--hz")) n = &p->session.sample_hz, least = 0, most = 10000;
  if (!text && !n) return 0;
  if (argc < 2) return usage_error(&verb_prof, "%s needs a value", o), -1;
  if (text) return *text = argv[1], 2;
  return read_count(argv[1], least, most, n)
             ? 2
             : (usage_error(&verb_prof, "%s %s: give a whole number from %d to %d", o, argv[1], least, most), -1);
}

static int parse(Prof *p, int argc, char **argv) {
  p->plan.segment_count = 1;
  for (int i = 1; i < argc;) {
    Segment *s = &p->plan.segments[p->plan.segment_count - 1];
    if (!strcmp(argv[i], "--")) {
      p->program = argv + i + 1;
      return *p->program ? 0 : usage_error(&verb_prof, "-- is followed by a program");
    }
    if (!strcmp(argv[i], "--then")) {
      if (p->plan.segment_count == MAX_SEGMENTS)
        return usage_error(&verb_prof, "at most %d launches follow each other", MAX_SEGMENTS);
      if (!s->words.n) return usage_error(&verb_prof, "--then follows FILE[:KERNEL] ARG=SPEC ...");
      p->plan.segments[p->plan.segment_count++].follows = true, i++;
      continue;
    }
    int took = prof_option(p, argc - i, argv + i);
    if (took < 0) return 2;
    if (!took && !s->words.n && argv[i][0] == '-') took = option_of_others(&verb_prof, argc - i, argv + i);
    if (took < 0) return 2;
    if (!took && !words_add(&s->words, argv[i])) return report_error(NULL);
    i += took ? took : 1;
  }
  return 0;
}

static bool names_kernels(const char *word) {
  return launch_is_cuda_c(word) || strstr(word, ".cu:") || strstr(word, ".py:") ||
         (strlen(word) > 3 && !strcmp(word + strlen(word) - 3, ".py"));
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* A view that fails does not keep the others from being written. Who asks for files alone gets them alone. */
static int write_views(const Prof *p, const char *trace) {
  nereid_error *err = NULL;
  int failed = 0;
  bool quiet = false;
  for (int i = 0; i < FILE_VIEWS; i++) {
    if (!p->files[i].path) continue;
    quiet = true;
    if (nereid_prof_view(trace, p->files[i].view, p->files[i].path, &p->view, &err))
      failed = report_error(err), err = NULL;
  }
  if (quiet && !*p->texts && !p->out && !p->view.json) return failed;
  return nereid_prof_view(trace, *p->texts ? p->texts : "report", p->out, &p->view, &err) ? report_error(err) : failed;
}

/* ---- a place for the trace --------------------------------------------------------------------------------------- */

static int no_folder(void) {
  fprintf(stderr,
          "nereid prof: no temporary folder can be made: %s; TMPDIR names another place, --trace keeps the trace where "
          "you say\n",
          strerror(errno));
  return 1;
}

/* ---- launches of ours -------------------------------------------------------------------------------------------- */

static nereid_status launch_all(const Case *c, nereid_device *d, int times, int64_t started, nereid_error **err) {
  nereid_status status = NEREID_OK;
  for (int64_t k = 0, shown = 0; k < times && !status; k++) {
    if (now_ns() - shown > 100000000)
      shown = now_ns(), progress(started, "%s: %lld of %d times", c->label, (long long)k, times);
    for (int i = 0; i < c->count && !status; i++)
      status = nereid_run(c->functions[i], NULL, c->bench[i].grid, c->bench[i].args, c->bench[i].arg_count, err);
  }
  if (!status) status = nereid_synchronize(d, err);
  progress_clear();
  return status;
}

static int profile_case(const Prof *p, const Case *c, nereid_device *d, const char *trace) {
  nereid_error *err = NULL;
  bool slow = !strncmp(p->device, "interp", 6) || !strncmp(p->device, "sim", 3);
  int repeat = p->repeat ? p->repeat : slow ? REPEAT_SLOW : REPEAT;
  int64_t started = now_ns();
  nereid_prof *session = NULL;
  nereid_prof_options o = p->session;
  o.count_work = true;
  if (nereid_prof_start(trace, &o, &session, &err)) return report_error(err);
  char *scope = repeat == 1 ? format_string("%s, once", c->label) : format_string("%s, %d times", c->label, repeat);
  nereid_status status = nereid_prof_pause(session, &err); /* its work is counted in the warm-up already */
  if (!status) status = launch_all(c, d, slow ? 1 : WARMUP, started, &err);
  if (!status) status = nereid_prof_resume(session, &err);
  nereid_prof_enter(scope);
  if (!status) status = launch_all(c, d, repeat, started, &err);
  nereid_prof_leave(NULL);
  free(scope);
  nereid_error *lost = NULL;
  nereid_prof_stop(session, &lost);
  int failed = status ? report_error(err) : 0;
  return lost ? report_error(lost) : failed;
}

static int profile_launches(const Prof *p) {
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  if (nereid_device_open(p->device, &d, &err)) return report_error(err);
  TempFolder folder = {0};
  if (!p->trace && !temp_create(&folder, NULL)) return nereid_device_close(d), no_folder();
  char *bytes = format_string("bytes=%lld", (long long)nereid_bench_bytes(d)),
       *trace = p->trace ? format_string("%s", p->trace) : format_string("%s/launches.trace", folder.path);
  Words variables = {0};
  Case *c = calloc(1, sizeof *c);
  int status = c && bytes && trace && words_add(&variables, bytes) ? 0 : report_error(NULL);
  if (!status) status = case_open(c, d, &p->plan, 0, &variables);
  if (!status) status = profile_case(p, c, d, trace);
  if (c) case_close(c, d);
  nereid_device_close(d);
  if (!status) status = write_views(p, trace);
  temp_remove(&folder);
  words_free(&variables);
  free(c), free(bytes), free(trace);
  return status;
}

/* ---- any program ------------------------------------------------------------------------------------------------- */

static bool has_traces(const char *folder) {
  DIR *d = opendir(folder);
  bool found = false;
  for (struct dirent *e; d && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    found |= n > 6 && !strcmp(e->d_name + n - 6, ".trace");
  }
  if (d) closedir(d);
  return found;
}

/* The exit status is the program's; but when that is 0, and the report fails, it is 1. */
static int profile_program(const Prof *p) {
  TempFolder temporary = {0};
  if (!p->trace && !temp_create(&temporary, NULL)) return no_folder();
  const char *folder = p->trace ? p->trace : temporary.path;
  nereid_error *err = NULL;
  int result = 1;
  if (nereid_prof_run(p->program, folder, &p->session, &result, &err)) {
    report_error(err);
  } else {
    int failed = has_traces(folder) ? write_views(p, folder)
                                    : (fprintf(stderr,
                                               "nereid prof: %s ended with status %d and left no trace: it is linked "
                                               "statically, or may not load other libraries (set-user-ID)\n",
                                               p->program[0], result),
                                       1);
    if (!result) result = failed;
  }
  temp_remove(&temporary);
  return result;
}

/* Who asks for stacks wants them taken. A program's are in any case, as rarely as does not matter to it; naming
 * Python's functions may matter. */
static void settle_sampling(Prof *p) {
  nereid_prof_options *o = &p->session;
  for (int i = 0; i < FILE_VIEWS && o->sample_hz == HZ_UNSAID; i++)
    if (p->files[i].path && (!strcmp(p->files[i].view, "flame") || !strcmp(p->files[i].view, "folded")))
      o->sample_hz = FLAME_HZ;
  o->python_names = o->sample_hz > 0;
  if (o->sample_hz == HZ_UNSAID) o->sample_hz = p->program ? PROGRAM_HZ : 0;
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

static int prof(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--instrument")) return prof_instrument(&verb_prof, argc, argv);
  Prof *p = calloc(1, sizeof *p);
  if (!p) return report_error(NULL);
  static const FileView files[FILE_VIEWS] = {{"--chrome", "chrome", NULL},       {"--html", "html", NULL},
                                             {"--flame", "flame", NULL},         {"--folded", "folded", NULL},
                                             {"--flame-gpu", "flame-gpu", NULL}, {"--folded-gpu", "folded-gpu", NULL},
                                             {"--hatchet", "hatchet", NULL}};
  memcpy(p->files, files, sizeof files);
  p->device = "cpu", p->plan.verb = &verb_prof, p->session.sample_hz = HZ_UNSAID;
  int status = parse(p, argc, argv);
  settle_sampling(p);
  const Words *first = &p->plan.segments[0].words;
  if (status) (void)0;
  else if (p->program)
    status = first->n ? usage_error(&verb_prof, "'%s' before -- is neither an option nor its value", first->at[0])
                      : profile_program(p);
  else if (!first->n) status = usage_error(&verb_prof, "what? usage: nereid %s", verb_prof.synopsis);
  else if (names_kernels(first->at[0])) status = profile_launches(p);
  else if (first->n > 1 || p->plan.segment_count > 1)
    status = usage_error(&verb_prof,
                         "%s is taken for a trace (kernels are in a FILE.py or FILE.cu); '%s' after it is too much",
                         first->at[0], first->n > 1 ? first->at[1] : "--then");
  else status = write_views(p, first->at[0]);
  for (int k = 0; k < p->plan.segment_count; k++) words_free(&p->plan.segments[k].words);
  free(p);
  return status;
}

const Verb verb_prof = {
    "prof", "prof FILE[:KERNEL] ARG=SPEC ... --grid G [options], prof [options] -- PROGRAM ARGS..., or prof TRACE",
    "says where the time goes: of launches, of any program that uses CUDA", prof,
    "  ARG=SPEC, --grid, --block, --shared, --warps, --stages, --ctas, --seed, --define, --limits, --device, --then  "
    "as for "
    "nereid "
    "bench\n"
    "  --repeat N     launches that are profiled, after a warm-up (20; on interp and sim 1)\n"
    "  --trace PATH   keep the trace: of launches a file, of a program a folder with one a process. nereid prof PATH "
    "views it again\n"
    "  --table, --tree, --functions, --advice  what is printed (default: what of these has something to say)\n"
    "  --sort COLUMN  of the table: self_cuda, cuda_total, self_cpu, cpu_total, calls, name\n"
    "  --rows N, --width N  at most N rows; columns of a name\n"
    "  --shapes       of the table: a row for each set of arguments\n"
    "  --metrics M    of the tree: time/ms,avg_time/us,cpu_time/ms,time/%,count,tflop/s,gbyte/s, or names given to "
    "nereid_prof_metric\n"
    "  --work         of a program that uses Nereid: count the operations and bytes of its launches (of FILE they are "
    "in any case)\n"
    "  --json         instead of text\n"
    "  -o FILE        what is printed goes there\n"
    "  --chrome F.json, --html F.html  the timeline, for Perfetto, or as a page\n"
    "  --hz N         sample the stacks of threads that run, N times a second, and have Python name its functions in "
    "them (1000 where the\n"
    "                 next two ask for stacks; of a program 200 without Python's names, 0: none; of launches none)\n"
    "  --flame F.svg, --folded F.txt  the flame graph of CPU time, and its stacks as text\n"
    "  --flame-gpu F.svg, --folded-gpu F.txt  of GPU time, by scope and kernel\n"
    "  --hatchet F.hatchet  the tree as Proton's viewer opens it\n"
    "  --instrument       instead of all this: where the time goes inside of one kernel, by its regions and its warps "
    "(docs/guide/instrument.md), with\n"
    "    --blocks 0,5|all  which programs are recorded (0); --regions marked|auto|both; --records N a warp; --repeat N "
    "for the slowdown, 0: none;\n"
    "    --json, --trace, --chrome, --html, --title as above\n\n"
    "example: nereid prof kernels/softmax.py:softmax x_ptr=randn:f32[4096,781] out_ptr=like:x_ptr x_stride=781 "
    "out_stride=781 n_cols=781 \\\n"
    "           BLOCK=1024 --grid 4096 --html softmax.html\n"};

/* main: finds the verb and hands over. */
#include "cli.h"

#include "base/base.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const Verb *const verbs[] = {&verb_run,    &verb_inspect, &verb_bench,    &verb_roofline,
                                    &verb_prof,   &verb_tune,    &verb_fuse,     &verb_build,
                                    &verb_replay, &verb_devices, &verb_language, &verb_cache};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_help(FILE *out) {
  fprintf(out, "Nereid %s: compiles and runs Triton kernels with no Python.\n\n", nereid_version());
  for (int i = 0; i < VERB_COUNT; i++) fprintf(out, "  nereid %-9s %s\n", verbs[i]->name, verbs[i]->summary);
  fprintf(
      out,
      "\n`nereid VERB --help` says what a verb takes. Exit status: 0 success, 1 failure, 2 a wrong command line.\n");
}

/* The names that `--without` takes, where a help has {without}: as many a line as fit. */
static void print_verb_help(const Verb *v) {
  static const char mark[] = "{without}";
  const char *at = strstr(v->help, mark);
  printf("usage: nereid %s\n\n%s\n\n%.*s", v->synopsis, v->summary, at ? (int)(at - v->help) : (int)strlen(v->help),
         v->help);
  if (!at) return;
  const char *line = at;
  while (line > v->help && line[-1] != '\n') line--;
  const char *names = nereid_without_names();
  size_t column = (size_t)(at - line), n;
  for (const char *name = names; *name; name += n + strspn(name + n, ", ")) {
    n = strcspn(name, ",");
    bool first = name == names;
    if (!first && column + n > 118) column = (size_t)printf("\n%16s", "") - 1;
    column += (size_t)printf("%s%.*s", first ? "" : " ", (int)n, name);
  }
  fputs(at + strlen(mark), stdout);
}

/* Nothing is left of a compilation that is interrupted. */
static void on_end(int number) {
  nereid_stop_compilers();
  raise(number); /* its handler is the usual one again, and it is blocked until here is left */
}

static void watch_signals(void) {
  static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction act = {.sa_handler = on_end, .sa_flags = SA_RESETHAND}, before;
    if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_DFL) sigaction(numbers[i], &act, NULL);
  }
}

static int no_such_verb(const char *word) {
  const char *names[VERB_COUNT + 1] = {NULL};
  for (int i = 0; i < VERB_COUNT; i++) names[i] = verbs[i]->name;
  const char *near = nearest_name(word, names);
  for (int i = 0; i < VERB_COUNT && !near; i++) { /* `profile` is prof, `benchmark` and `ben` bench */
    size_t typed = strlen(word), n = strlen(names[i]);
    if (typed > 1 && !strncmp(word, names[i], typed < n ? typed : n)) near = names[i];
  }
  print_in(stderr, COLOR_ERROR, "nereid:");
  if (near) return fprintf(stderr, " there is no verb '%s'; did you mean '%s'?\n", word, near), 2;
  fprintf(stderr, " there is no verb '%s'\n", word);
  return print_help(stderr), 2;
}

static const Verb *find_verb(const char *name) {
  for (int i = 0; i < VERB_COUNT; i++)
    if (!strcmp(name, verbs[i]->name)) return verbs[i];
  return NULL;
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) /* what follows `--` is another program's */
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
  return false;
}

static int run_verb(const Verb *v, int argc, char **argv) {
  if (asks_for_help(argc - 1, argv + 1)) return print_verb_help(v), 0;
  int count;
  char **words = options_split(argc, argv, &count);
  if (!words) return report_error(NULL);
  int status = v->run(count, words);
  free(words);
  return status;
}

int main(int argc, char **argv) {
  watch_signals();
  if (argc < 2) return print_help(stderr), 2;
  bool help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help");
  bool of_verb = help && argc > 2 && argv[2][0] != '-'; /* `nereid help run` */
  const Verb *v = find_verb(argv[of_verb ? 2 : 1]);
  int status = 0;
  if (!strcmp(argv[1], "--version")) printf("nereid %s\n", nereid_version());
  else if (of_verb && v) print_verb_help(v);
  else if (help && !of_verb) print_help(stdout);
  else status = v ? run_verb(v, argc - 1, argv + 1) : no_such_verb(argv[of_verb ? 2 : 1]);
  if (fflush(stdout) || ferror(stdout)) return fprintf(stderr, "nereid: cannot write to standard output\n"), 1;
  return status;
}

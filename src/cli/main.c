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
  static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  for (int i = 0; i < 4; i++) {
    struct sigaction act = {.sa_handler = on_end, .sa_flags = SA_RESETHAND}, before;
    if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_DFL) sigaction(numbers[i], &act, NULL);
  }
}

int main(int argc, char **argv) {
  watch_signals();
  if (argc < 2) return print_help(stderr), 2;
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) return print_help(stdout), 0;
  if (!strcmp(argv[1], "--version")) return printf("nereid %s\n", nereid_version()), 0;
  for (int i = 0; i < VERB_COUNT; i++) {
    const Verb *v = verbs[i];
    if (strcmp(argv[1], v->name)) continue;
    for (int k = 2; k < argc; k++)
      if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) return print_verb_help(v), 0;
    int count;
    char **words = options_split(argc - 1, argv + 1, &count);
    if (!words) return report_error(NULL);
    int status = v->run(count, words);
    free(words);
    if (fflush(stdout) || ferror(stdout)) return fprintf(stderr, "nereid: cannot write to standard output\n"), 1;
    return status;
  }
  const char *names[VERB_COUNT + 1] = {NULL};
  for (int i = 0; i < VERB_COUNT; i++) names[i] = verbs[i]->name;
  const char *near = nearest_name(argv[1], names);
  for (int i = 0; i < VERB_COUNT && !near; i++) { /* `profile` is prof, `benchmark` and `ben` bench */
    size_t typed = strlen(argv[1]), n = strlen(names[i]);
    if (typed > 1 && !strncmp(argv[1], names[i], typed < n ? typed : n)) near = names[i];
  }
  print_in(stderr, COLOR_ERROR, "nereid:");
  if (near) return fprintf(stderr, " there is no verb '%s'; did you mean '%s'?\n", argv[1], near), 2;
  fprintf(stderr, " there is no verb '%s'\n", argv[1]);
  return print_help(stderr), 2;
}

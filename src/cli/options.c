/* options: what all verbs have in common in reading their options.
 *
 *     --opt=value      is `--opt value`; an option without a value takes none
 *     --html x.html    of another verb, where it makes no sense: passed over, with a note
 *     --devise cpu     unknown everywhere: an error, with the nearest name
 *
 * The table lists every option of every verb and whether a value follows. Each verb reads its own; a test holds the
 * table against the help texts.
 */
#include "cli.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static const struct Option {
  const char *name;
  bool has_value;
  const char *verbs;
} options[] = {
    {"--advice", false, "prof"},
    {"--against", true, "bench"},
    {"--all", false, "bench"},
    {"--allow-unwritten", false, "run"},
    {"--atol", true, "run bench"},
    {"--beside", true, "bench"},
    {"--block", true, "run bench roofline prof"},
    {"--blocks", true, "prof"},
    {"--budget", true, "tune"},
    {"--bytes", true, "bench"},
    {"--cc", true, "build"},
    {"--check", true, "run bench fuse"},
    {"--chrome", true, "prof"},
    {"--clear", false, "cache"},
    {"--cold", false, "bench roofline tune"},
    {"--compile-only", false, "replay"},
    {"--csv", false, "bench"},
    {"--ctas", true, "run inspect bench roofline prof tune build"},
    {"--debug", false, "run inspect bench roofline prof tune build"},
    {"--define", true, "run inspect bench roofline prof tune build replay"},
    {"--device", true, "run bench roofline prof tune replay fuse"},
    {"--dump-after", true, "inspect"},
    {"--eager", false, "fuse"},
    {"--exhaustive", false, "tune"},
    {"--explain", false, "fuse"},
    {"--filter", true, "replay"},
    {"--flame", true, "prof"},
    {"--flame-gpu", true, "prof"},
    {"--folded", true, "prof"},
    {"--folded-gpu", true, "prof"},
    {"--for", true, "build"},
    {"--from", true, "build"},
    {"--functions", false, "prof"},
    {"--grad", false, "fuse"},
    {"--graph", false, "fuse"},
    {"--grid", true, "run inspect bench roofline prof tune build"},
    {"--hatchet", true, "prof"},
    {"--html", true, "prof"},
    {"--hz", true, "prof"},
    {"--ignore", true, "tune"},
    {"--instrument", false, "prof inspect"},
    {"--jobs", true, "replay"},
    {"--json", false, "run inspect bench roofline prof tune replay devices language cache build fuse"},
    {"--kept", false, "roofline"},
    {"--layouts", true, "fuse"},
    {"--limits", true, "run inspect bench roofline prof tune build"},
    {"--measure", false, "roofline"},
    {"--metrics", true, "prof"},
    {"--multiprocessors", true, "inspect"},
    {"--no-blas", false, "roofline"},
    {"--no-check", false, "bench tune"},
    {"--no-keep", false, "tune"},
    {"--no-online", false, "fuse"},
    {"--only", true, "bench"},
    {"--only-for", false, "build"},
    {"--output-code", true, "fuse"},
    {"--persist", false, "run inspect bench roofline prof tune build"},
    {"--plot", true, "bench roofline fuse"},
    {"--products", true, "fuse"},
    {"--program", true, "run"},
    {"--programs", true, "replay"},
    {"--quick", false, "roofline"},
    {"--races", false, "run"},
    {"--records", true, "prof"},
    {"--regions", true, "prof"},
    {"--repeat", true, "bench roofline prof fuse"},
    {"--report", false, "inspect"},
    {"--root", true, "replay build"},
    {"--rows", true, "prof replay"},
    {"--rtol", true, "run bench"},
    {"--runtime-source", true, "build"},
    {"--save", true, "bench tune fuse"},
    {"--seed", true, "run inspect bench roofline prof tune fuse"},
    {"--shapes", false, "prof"},
    {"--shared", true, "run bench roofline prof"},
    {"--sort", true, "prof"},
    {"--specialize", false, "run inspect bench roofline prof tune build"},
    {"--stage", true, "inspect"},
    {"--stages", true, "run inspect bench roofline prof tune build"},
    {"--step", false, "run"},
    {"--sweep", true, "bench"},
    {"--table", false, "prof"},
    {"--target", true, "inspect replay build"},
    {"--then", true, "bench roofline prof build"},
    {"--threads", true, "tune"},
    {"--time", true, "bench roofline"},
    {"--timeout", true, "replay"},
    {"--title", true, "prof"},
    {"--trace", true, "prof"},
    {"--tree", false, "prof"},
    {"--trials", true, "tune"},
    {"--trim", true, "cache"},
    {"--triton", false, "bench"},
    {"--tuned-on", true, "build"},
    {"--vs", true, "bench roofline"},
    {"--warm", false, "tune"},
    {"--warmup", true, "bench"},
    {"--warps", true, "run inspect bench roofline prof tune build"},
    {"--weights", true, "fuse"},
    {"--width", true, "prof"},
    {"--without", true, "run inspect bench roofline prof tune build"},
    {"--work", true, "prof"},
};
enum { OPTION_COUNT = sizeof options / sizeof *options };

static bool is_flag(const char *name, size_t n) {
  for (int i = 0; i < OPTION_COUNT; i++)
    if (strlen(options[i].name) == n && !strncmp(options[i].name, name, n)) return !options[i].has_value;
  return false;
}

char **options_split(int argc, char **argv, int *out_argc) {
  char **out = malloc(sizeof *out * (size_t)(2 * argc + 1));
  int n = 0;
  bool is_ours = true; /* what follows `--` is another program's */
  for (int i = 0; out && i < argc; i++) {
    if (!strcmp(argv[i], "--")) is_ours = false;
    char *equals = is_ours && !strncmp(argv[i], "--", 2) ? strchr(argv[i], '=') : NULL;
    size_t length = equals ? (size_t)(equals - argv[i]) : 0;
    if (length <= strlen("--") || is_flag(argv[i], length) || !strncmp(argv[i], "--help=", length + 1)) {
      out[n++] = argv[i];
      continue;
    }
    *equals = 0;
    out[n++] = argv[i];
    out[n++] = equals + 1;
  }
  if (out) out[n] = NULL;
  *out_argc = n;
  return out;
}

static bool lists(const char *verbs, const char *verb) {
  size_t n = strlen(verb);
  for (const char *p = strstr(verbs, verb); p; p = strstr(p + 1, verb))
    if ((p == verbs || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
  return false;
}

int option_words(const char *name) {
  for (int i = 0; i < OPTION_COUNT; i++)
    if (!strcmp(name, options[i].name)) return 1 + options[i].has_value;
  return 0;
}

int option_of_others(const Verb *v, int argc, char **argv) {
  const char *names[OPTION_COUNT + 2] = {"--help"};
  int n = 1;
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (lists(options[i].verbs, v->name)) names[n++] = options[i].name;
    if (strcmp(argv[0], options[i].name) || lists(options[i].verbs, v->name)) continue;
    if (options[i].has_value && argc < 2) break;
    fprintf(stderr, "nereid %s: passing over %s, an option of nereid %.*s\n", v->name, argv[0],
            (int)strcspn(options[i].verbs, " "), options[i].verbs);
    return 1 + options[i].has_value;
  }
  size_t length = strcspn(argv[0], "=");
  bool is_help = length == strlen("--help") && !strncmp(argv[0], "--help", length); /* which every verb has */
  if (argv[0][length] && (is_help || is_flag(argv[0], length)))
    return usage_error(v, "%.*s takes no value", (int)length, argv[0]), -1;
  const char *near = nearest_name(argv[0], names);
  if (near) usage_error(v, "unknown option %s; did you mean %s?", argv[0], near);
  else usage_error(v, "unknown option %s; see nereid %s --help", argv[0], v->name);
  return -1;
}

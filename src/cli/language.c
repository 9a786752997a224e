/* language: prints the table of supported names as Markdown: docs/language.md is this verb's output. */
#include "cli.h"
#include <string.h>

static int language(int argc, char **argv) {
  if (argc > 1) return usage_error(&verb_language, "unknown word '%s'", argv[1]);
  printf("# What of the Triton language is supported\n\n"
         "Made by `nereid language` from the table that the compiler itself uses; do not edit. A name that is not here is an error\n"
         "with the nearest name that is. \"no\" means a clear error on that device.\n");
  const char *group = "";
  for (int i = 0, n = nereid_language_count(); i < n; i++) {
    nereid_language_name e = nereid_language_at(i);
    if (strcmp(group, e.group)) printf("\n## %s\n\n| name | interp | cpu | remark |\n| --- | --- | --- | --- |\n", group = e.group);
    printf("| `%s` | %s | %s | %s |\n", e.name, e.interp ? "yes" : "no", e.cpu ? "yes" : "no", e.remark ? e.remark : "");
  }
  return 0;
}

const Verb verb_language = {"language", "language", "prints the table of supported names", language, ""};

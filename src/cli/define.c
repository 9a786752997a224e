/* --define NAME=EXPR: free names of a file, said on the command line; EXPR is Python's, in the file's own words. */
#include "cli.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

const char *define_add(Defines *d, const char *text) {
  const char *equals = text ? strchr(text, '=') : NULL;
  size_t n = equals ? (size_t)(equals - text) : 0;
  bool good = n && equals[1] && !(text[0] >= '0' && text[0] <= '9');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)text[i];
    good = good && (c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'));
  }
  if (!good) return "needs NAME=EXPR, as in WIDTH=128";
  const char **texts = realloc(d->texts, sizeof *texts * ((size_t)d->count + 1));
  char *identity = format_string("%s%s\n", d->identity ? d->identity : "", text);
  if (texts) d->texts = texts;
  if (!texts || !identity) return free(identity), "finds no memory";
  d->texts[d->count++] = text;
  free(d->identity);
  d->identity = identity;
  return NULL;
}

void defines_free(Defines *d) {
  free(d->texts);
  free(d->identity);
}

bool defines_answer(const Defines *d, const char *name, nereid_value *out) {
  size_t n = strlen(name);
  for (int i = d->count - 1; i >= 0; i--)
    if (!strncmp(d->texts[i], name, n) && d->texts[i][n] == '=') {
      nereid_value_set_expression(out, d->texts[i] + n + 1);
      nereid_value_mark_constexpr(out);
      return true;
    }
  return false;
}

static bool ask(void *arg, nereid_ask what, void *of, const char *name, nereid_value *out) {
  (void)of;
  return what == NEREID_ASK_NAME && defines_answer(arg, name, out);
}

nereid_status defines_load(Defines *d, const char *path, nereid_module **out, nereid_error **error) {
  if (!d->count) return nereid_module_load(path, out, error);
  const nereid_source source = {.size = sizeof source, .kind = NEREID_SOURCE_FILE, .path = path};
  const nereid_host host = {.size = sizeof host, .arg = d, .ask = ask, .unchanging = true, .identity = d->identity};
  return nereid_module_load_source(&source, &host, out, error);
}

/* language: hands the front end's table of names to the caller, for docs/reference/language.md. */
#include <nereid.h>

#include "front/front.h"

int nereid_language_count(void) {
  int n;
  front_language_table(&n);
  return n;
}

nereid_language_name nereid_language_at(int i) {
  int n;
  const LanguageName *t = front_language_table(&n);
  if (i < 0 || i >= n) return (nereid_language_name){0};
  return (nereid_language_name){t[i].group, t[i].name,   t[i].interp,    t[i].cpu,      t[i].sim,
                                t[i].cuda,  t[i].remark, t[i].arguments, t[i].is_method};
}

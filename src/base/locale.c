/* Numbers as text, whatever the host has set. A program that called setlocale() may write 1,5 and read "1.5" as 1: C
 * and PTX that is generated, JSON and records on disk would be wrong. The locale is set for this thread, and set back.
 */
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain; /* stays until the process ends: another thread may use it */

static void make_plain(void) { plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); }

void *plain_numbers(void) {
  pthread_once(&once, make_plain);
  return uselocale(plain); /* 0, when out of memory: nothing is set */
}

void host_numbers(void *before) { uselocale((locale_t)before); }

double text_to_double(const char *text, char **end) {
  void *before = plain_numbers();
  double v = strtod(text, end);
  host_numbers(before);
  return v;
}

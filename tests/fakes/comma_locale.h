/* A locale that writes 1,5: one of the system's, or one that localedef makes for this process. */
#ifndef COMMA_LOCALE_H
#define COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sets LC_NUMERIC. false: there is none, and none can be made here (musl, or no package "locales"). */
static inline bool comma_locale(void) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
  char folder[] = "/tmp/nereid-locale-XXXXXX";
  for (int i = 0; i < 3; i++)
    if (setlocale(LC_NUMERIC, names[i]) && *localeconv()->decimal_point == ',') return true;
  char command[200];
  if (!mkdtemp(folder)) return false;
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
  bool made = !system(command);
  setenv("LOCPATH", folder, 1);
  made = made && setlocale(LC_NUMERIC, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
  unsetenv("LOCPATH");
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command)) return false;
  return made;
}

#endif

/* nereid_print: one line of device_print, as Triton writes it. Needs nereid_cpu.h.
 *
 *     pid (x, y, z) idx (i, j) prefix: (operand 1) value
 *
 * with the prefix as the front end normalised it, "(operand n) " only where there are several, and for no operand at
 * all just "pid (x, y, z) prefix".
 */
#ifndef NEREID_PRINT_H
#define NEREID_PRINT_H

#include <inttypes.h>
#include <stdio.h>

/* kind: 'd' signed, 'u' unsigned, 'f' the bits of a double, 'x' hexadecimal of `width` bits, 'p' pointer, ' ' nothing.
 * Operand `operand` of `operands`; index has `rank` entries, which take `widths` characters. */
ND_NOINLINE void nd_print(const NereidHost *host, const int32_t program[3], const char *prefix, int operand,
                          int operands, int rank, const int32_t *index, const int *widths, char kind, int width,
                          uint64_t value) {
  enum { ROOM = 512 }; /* for everything but the prefix and an f64, which has at most 310 digits before the point */
  char text[4096];
  size_t n = (size_t)snprintf(text, sizeof text, "pid (%d, %d, %d)", program[0], program[1], program[2]);
  if (operands) {
    n += (size_t)snprintf(text + n, sizeof text - n, " idx (");
    for (int d = 0; d < rank; d++)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%*d", d ? ", " : "", widths[d], index[d]);
    n += (size_t)snprintf(text + n, sizeof text - n, ")");
  }
  n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)(sizeof text - ROOM - n), prefix);
  if (operands > 1) n += (size_t)snprintf(text + n, sizeof text - n, "(operand %d) ", operand);
  switch (kind) {
    case 'd': snprintf(text + n, sizeof text - n, "%" PRId64, (int64_t)value); break;
    case 'u': snprintf(text + n, sizeof text - n, "%" PRIu64, value); break;
    case 'f': snprintf(text + n, sizeof text - n, "%f", nd_cast_f64_u64(value)); break;
    case 'x':
      if (width < 64) value &= (UINT64_C(1) << width) - 1;
      snprintf(text + n, sizeof text - n, "0x%0*" PRIx64, (width + 3) / 4, value);
      break;
    case 'p': snprintf(text + n, sizeof text - n, "0x%" PRIx64, value); break;
  }
  if (host->print) host->print(host->arg, text);
}

#endif

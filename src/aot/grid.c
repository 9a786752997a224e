/* A grid's expressions -> programs of a stack machine (rt/bundle.h), which a launch runs after it has chosen a
 * specialization: BLOCK may differ from one to the next.
 *
 *     sum     = product { (+ | -) product }
 *     product = unary { (* | // | %) unary }
 *     unary   = - unary | number | name | name ( sum { , sum } ) | ( sum )
 */
#include <ctype.h>
#include <stdlib.h>

#include "aot/aot.h"

typedef struct Parser {
  Context *cx;
  const char *at, *wrong;
  const BundleEntry *entry;
  GridProgram *out;
  int depth;
} Parser;

static void refuse(Parser *p, const char *why) {
  if (!p->wrong) p->wrong = why;
}

static void put(Parser *p, GridOp op, int64_t value, const char *name) {
  if (p->out->count == GRID_MOST_STEPS) {
    refuse(p, "is too long");
    return;
  }
  p->out->steps[p->out->count++] = (GridStep){op, value, name ? name : ""};
}

static bool eat(Parser *p, const char *text) {
  while (*p->at == ' ') p->at++;
  size_t n = strlen(text);
  if (strncmp(p->at, text, n)) return false;
  p->at += n;
  return true;
}

static void sum(Parser *p);

static void call(Parser *p, const char *name) {
  static const struct {
    const char *name;
    GridOp op;
    int least, most;
  } functions[] = {{"cdiv", GRID_CDIV, 2, 2},
                   {"triton.cdiv", GRID_CDIV, 2, 2},
                   {"next_power_of_2", GRID_POWER_OF_2, 1, 1},
                   {"triton.next_power_of_2", GRID_POWER_OF_2, 1, 1},
                   {"min", GRID_MIN, 2, 8},
                   {"max", GRID_MAX, 2, 8}};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    if (strcmp(functions[i].name, name)) continue;
    int n = 0;
    do {
      sum(p);
      if (++n > 1) put(p, functions[i].op, 0, NULL);
    } while (eat(p, ","));
    if (functions[i].most == 1) put(p, functions[i].op, 0, NULL);
    if (n < functions[i].least || n > functions[i].most || !eat(p, ")")) refuse(p, "has a call with other arguments");
    return;
  }
  refuse(p, "calls what a grid does not have: cdiv, next_power_of_2, min and max are there");
}

static void word(Parser *p, const char *name) {
  for (int i = 0; i < p->entry->param_count; i++) {
    const BundleParam *q = &p->entry->params[i];
    if (strcmp(q->name, name) || q->kind == PARAM_CONSTEXPR) continue;
    if (q->kind != PARAM_INT && q->kind != PARAM_BOOL)
      refuse(p, arena_printf(p->cx->arena, "names '%s', which is no integer", name));
    put(p, GRID_PARAM, i, NULL);
    return;
  }
  put(p, GRID_CONSTANT, 0, name);
}

static void unary(Parser *p) {
  if (++p->depth > GRID_MOST_DEPTH) refuse(p, "is nested too deeply");
  if (p->wrong) return;
  if (eat(p, "-")) {
    unary(p);
    put(p, GRID_NEGATE, 0, NULL);
  } else if (eat(p, "(")) {
    sum(p);
    if (!eat(p, ")")) refuse(p, "has a bracket that is not closed");
  } else if (isdigit((unsigned char)*p->at)) {
    char *end;
    put(p, GRID_NUMBER, strtoll(p->at, &end, 10), NULL);
    p->at = end;
  } else {
    size_t n = 0;
    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_' || p->at[n] == '.') n++;
    const char *name = arena_strndup(p->cx->arena, p->at, n);
    p->at += n;
    if (!n)
      refuse(p,
             *p->at ? "is made of integers, names, + - * // %, cdiv, next_power_of_2, min and max" : "ends too soon");
    else if (eat(p, "(")) call(p, name);
    else word(p, name);
  }
  p->depth--;
}

static void product(Parser *p) {
  for (unary(p); !p->wrong;) {
    GridOp op = eat(p, "//") ? GRID_DIV : eat(p, "*") ? GRID_MUL : eat(p, "%") ? GRID_REM : GRID_OP_COUNT;
    if (op == GRID_OP_COUNT) return;
    unary(p);
    put(p, op, 0, NULL);
  }
}

static void sum(Parser *p) {
  for (product(p); !p->wrong;) {
    GridOp op = eat(p, "+") ? GRID_ADD : eat(p, "-") ? GRID_SUB : GRID_OP_COUNT;
    if (op == GRID_OP_COUNT) return;
    product(p);
    put(p, op, 0, NULL);
  }
}

const char *aot_grid_parse(Context *cx, const char *text, const BundleEntry *e, GridProgram out[3]) {
  Parser p = {.cx = cx, .at = text, .entry = e};
  for (int d = 0; d < 3; d++) {
    out[d] = (GridProgram){.steps = NEW_N(cx->arena, GridStep, GRID_MOST_STEPS)};
    if (d && !*p.at) continue;
    p.out = &out[d];
    sum(&p);
    while (*p.at == ' ') p.at++;
    if (*p.at && (d == 2 || !eat(&p, ",")))
      refuse(&p, d == 2 ? "has more than three dimensions" : "has something after it");
    if (!p.wrong && !grid_program_fits(p.out, e->param_count)) refuse(&p, "is nested too deeply");
    if (p.wrong) return p.wrong;
  }
  return NULL;
}

/* Sums that are multiplied by how a maximum has grown (lower/element.c): warps in which none has leave them alone, and
 * all others multiply; what has another form is multiplied as it stands. */
#include "unit/gpu/test_dot_kit.h"

#include <math.h>

enum { ROWS = 8, COLUMNS = 1024, TURNS = 5 };

typedef struct Form {
  const char *grow;
  bool votes;
} Form;

static const Form forms[] = {{"tl.exp2(m - new)", true},
                             {"tl.exp2((m - new) * 2.0)", true},
                             {"tl.exp2(m - new + 1.0)", false},
                             {"tl.exp2(new - m)", false},
                             {"m - new + 1.0", false}};

static void find_vote(LaneOp *op, void *found) {
  if (op->code == LANE_VOTE) *(bool *)found = true;
}

static double grow_of(const Form *form, double m, double new) {
  if (strstr(form->grow, "2.0")) return exp2((m - new) * 2);
  if (strstr(form->grow, "+ 1.0)")) return exp2(m - new + 1);
  if (strstr(form->grow, "new - m")) return exp2(new - m);
  return form->votes ? exp2(m - new) : m - new + 1;
}

static void run(const Form *form) {
  char text[1200];
  snprintf(text, sizeof text,
           HEAD "@triton.jit\ndef k(x_ptr, out_ptr, n, M: tl.constexpr, N: tl.constexpr):\n"
                "    r = tl.arange(0, M)[:, None]\n    c = tl.arange(0, N)[None, :]\n"
                "    acc = tl.full([M, N], 1.0, tl.float32)\n    m = tl.full([M], 0.0, tl.float32)\n"
                "    for i in range(n):\n"
                "        x = tl.load(x_ptr + (i * M + r) * N + c)\n"
                "        new = tl.maximum(m, tl.max(x, axis=1))\n"
                "        grow = %s\n"
                "        acc = acc * grow[:, None] + x\n"
                "        m = new\n"
                "    tl.store(out_ptr + r * N + c, acc)\n",
           form->grow);
  DotCase c = dot_case(text, "sm_90a", 4, 1);
  DotArg *x = dot_array(&c, DT_F32, TURNS * ROWS * COLUMNS), *out = dot_array(&c, DT_F32, ROWS * COLUMNS);
  dot_int(&c, TURNS), dot_const(&c, ROWS), dot_const(&c, COLUMNS);
  /* in turn 1 no maximum grows, in 2 one row's of a warp, in 3 all, in 4 those of odd rows */
  for (int64_t i = 0; i < x->count; i++) {
    int turn = (int)(i / COLUMNS / ROWS), row = (int)(i / COLUMNS % ROWS), column = (int)(i % COLUMNS);
    bool grows = turn == 0 || turn == 3 || (turn == 2 && row == 5) || (turn == 4 && row % 2);
    dot_store(x, i, column == row ? grows ? turn + 1 : -1 : -(double)(column % 3));
  }
  dot_run(&c, form->grow);
  bool votes = false;
  lane_walk(c.lane->body, find_vote, &votes);
  if (votes != form->votes) fail_msg("%s:%s votes", form->grow, votes ? "" : " no");
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < COLUMNS; column++) {
      double m = 0, sum = 1;
      for (int turn = 0; turn < TURNS; turn++) {
        double new = m;
        for (int k = 0; k < COLUMNS; k++) new = fmax(new, x->values[(turn * ROWS + row) * COLUMNS + k]);
        sum = sum * grow_of(form, m, new) + x->values[(turn * ROWS + row) * COLUMNS + column];
        m = new;
      }
      if (fabs(out->values[row * COLUMNS + column] - sum) > 1e-6 * fabs(sum))
        fail_msg("%s: %d, %d is %g, not %g", form->grow, row, column, out->values[row * COLUMNS + column], sum);
    }
  dot_free(&c);
}

static void growth(void **state) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) run(&forms[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(growth)};
  return cmocka_run_group_tests_name("skip ones", tests, NULL, NULL);
}

/* graph.def as data. */
#include <assert.h>

#include "graph/graph.h"

#define LEAST(s) (s[0] - '0')
#define MOST(s) (s[1] == '+' ? -1 : s[0] - '0')
const GraphOpInfo graph_ops[GRAPH_OP_COUNT] = {
#define GRAPH_OP(id, name, operands, group, attributes) \
  {name, LEAST(operands), MOST(operands), CLASS_##group, attributes},
#include "graph/graph.def"
};

const PointInfo graph_points[POINT_COUNT] = {
#define POINT(id, name, operands, result, triton, c) {name, operands, RESULT_##result, triton},
#include "graph/graph.def"
};

const char *const graph_reductions[REDUCE_COUNT] = {
#define REDUCTION(id, name, result) name,
#include "graph/graph.def"
};

#define SLOT(name, type) \
  { #name, GRAPH_ATTR_##type, (int)((offsetof(Tensor, name) - offsetof(Tensor, attr)) / sizeof(int64_t)) }
static const GraphAttr attributes[] = {SLOT(dim, INT),
                                       SLOT(kind, KIND),
                                       SLOT(start, INT),
                                       SLOT(stream, INT),
                                       SLOT(word, INT),
                                       SLOT(block, INT),
                                       SLOT(run, INT),
                                       SLOT(tf32, INT),
                                       SLOT(step, INT),
                                       SLOT(add, INT),
                                       SLOT(descending, INT),
                                       SLOT(kept, INT),
                                       SLOT(window, INT),
                                       SLOT(dilation, INT),
                                       {"number", GRAPH_ATTR_NUMBER, 0},
                                       {"dims", GRAPH_ATTR_DIMS, 0},
                                       {"between", GRAPH_ATTR_DIMS, 0},
                                       {"before", GRAPH_ATTR_SIZES, 0},
                                       {"first", GRAPH_ATTR_SIZE, 0},
                                       {"extent", GRAPH_ATTR_SIZE, 0}};
#undef SLOT

int graph_attrs(GraphOp op, const GraphAttr *out[GRAPH_MAX_ATTRS]) {
  int n = 0;
  for (const char *s = graph_ops[op].attributes; *s;) {
    size_t length = strcspn(s, " "), i = 0;
    while (strlen(attributes[i].name) != length || memcmp(attributes[i].name, s, length)) {
      i++;
      assert(i < sizeof attributes / sizeof *attributes);
    }
    assert(n < GRAPH_MAX_ATTRS);
    out[n++] = &attributes[i];
    s += length;
    s += *s == ' ';
  }
  return n;
}

int graph_point_named(const char *name) {
  for (int i = 0; i < POINT_COUNT; i++)
    if (!strcmp(graph_points[i].name, name)) return i;
  return -1;
}

int graph_scan_named(const char *name) {
  for (int i = 0; i < GRAPH_OP_COUNT; i++)
    if (graph_ops[i].group == CLASS_SCAN && !strcmp(graph_ops[i].name, name)) return i;
  return -1;
}

int graph_reduction_named(const char *name) {
  for (int i = 0; i < REDUCE_COUNT; i++)
    if (!strcmp(graph_reductions[i], name)) return i;
  return -1;
}

/* graph.def as data. */
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

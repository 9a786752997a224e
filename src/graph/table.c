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

const char *const graph_reductions[REDUCE_COUNT + 1] = {
#define REDUCTION(id, name, result) name,
#include "graph/graph.def"
};

const char *const graph_scatter_modes[SCATTER_COUNT + 1] = {
#define SCATTER_MODE(id, name, triton, c) name,
#include "graph/graph.def"
};

const char *const graph_scatter_triton[SCATTER_COUNT] = {
#define SCATTER_MODE(id, name, triton, c) triton,
#include "graph/graph.def"
};

const char *const graph_convolution_parts[CONVOLUTION_PARTS + 1] = {
#define CONVOLUTION_PART(id, name) name,
#include "graph/graph.def"
};

#define SLOT(name) (int)((offsetof(Tensor, name) - offsetof(Tensor, attr)) / sizeof(int64_t))
#define INT(name) \
  { #name, GRAPH_ATTR_INT, SLOT(name), NULL }
static const GraphAttr attributes[] = {INT(dim),
                                       INT(start),
                                       INT(stream),
                                       INT(word),
                                       INT(block),
                                       INT(run),
                                       INT(tf32),
                                       INT(step),
                                       INT(descending),
                                       INT(kept),
                                       INT(window),
                                       INT(dilation),
                                       INT(groups),
                                       INT(way),
                                       INT(channels_last),
                                       {"kind", GRAPH_ATTR_WORD, SLOT(kind), graph_reductions},
                                       {"mode", GRAPH_ATTR_WORD, SLOT(mode), graph_scatter_modes},
                                       {"part", GRAPH_ATTR_WORD, SLOT(part), graph_convolution_parts},
                                       {"number", GRAPH_ATTR_NUMBER, 0, NULL},
                                       {"dims", GRAPH_ATTR_DIMS, 0, NULL},
                                       {"between", GRAPH_ATTR_DIMS, 0, NULL},
                                       {"before", GRAPH_ATTR_SIZES, 0, NULL},
                                       {"first", GRAPH_ATTR_SIZE, 0, NULL},
                                       {"extent", GRAPH_ATTR_SIZE, 0, NULL}};
#undef INT
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

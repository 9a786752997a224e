/* graph/read: tensor code in, a graph out. A Python function is run once, from its parse tree, with graph values in
 * the place of tensors: numbers, lists, loops and classes are Python's own and are gone when it has returned; what was
 * asked of tensors is the graph. Unlike front/python, which evaluates what it can and lets the rest be unknown, this
 * runs a program: whatever it does not know is an error at the user's line.
 *
 * Two kinds of file are read alike, and differ in the names that they call:
 *
 *     torch.ops.aten.mul.Tensor(x, 0.5)      ATen graphs as torch.fx prints them; parameters say their type and shape
 *     torch.relu(x @ w) + x.mean(-1)         PyTorch as people write it; the caller gives the parameters' types
 *
 * Both are found in library/, which is embedded: functions in Python syntax over the primitives (`prim.exp(x)`,
 * prims.c). `aten.mul.Tensor` is the first of aten_mul_Tensor, aten_mul and mul that is there.
 *
 *     object.c    values, and what they are called      operators.c  + - < [] on them: promotion, broadcasting
 *     eval.c      expressions                            exec.c       statements, calls, classes
 *     builtins.c  Python's functions and methods         prims.c      the primitives
 *     complex.c   complex numbers
 *     reader.c    a file's function to a graph */
#ifndef NEREID_GRAPH_READ_H
#define NEREID_GRAPH_READ_H

#include "graph/graph.h"

typedef struct ReadInput { /* a parameter of a function that does not say its types itself */
  const char *name;
  bool is_tensor;
  Dtype dtype;
  int rank;
  int64_t shape[GRAPH_MAX_RANK];
  const char *text; /* not a tensor: a Python expression */
  bool is_complex;  /* the last dim, of 2, has the parts */
} ReadInput;

/* The graph of one function of a file; function NULL: the only one, or `forward`. inputs: by name, or for parameters
 * that say their type themselves none. Verified; nothing is optimised yet. Fails with a diagnostic. */
Graph *graph_read(Context *cx, Source *file, const char *function, int n, const ReadInput *inputs);

/* What a Python expression gives over tensors, which it calls a, b, c, ...: at most `most` of them, in a tuple or
 * alone. Their number; fails at the text. The library's names are torch, F and math. */
int graph_evaluate(Graph *g, const Source *text, int n, Tensor *const *in, int most, Tensor **out);

/* Reverse mode (grad.c, grad.py): of the sum of outputs, each times its seed (NULL: 1), the gradient by each tensor of
 * `of`, as operations that are added to the graph. NULL: no output depends on it. Before graph_cse. */
void graph_gradients(Graph *g, int n, Tensor *const *outputs, Tensor *const *seeds, int count, Tensor *const *of,
                     Tensor **gradients);
/* Gradients of the graph's outputs by inputs, as outputs more, called grad_NAME. names: "x,w", or "all": those of
 * floats. An output's seed is 1, or the input that `said` has as grad_output (of the first), grad_output_1, ... */
void graph_add_gradients(Graph *g, const char *names, int n, const ReadInput *said);

#endif

/* memory: in which order a nest may load and store. The rule, and the verifier of a plan by it.
 *
 * The rule. Two accesses conflict when one of them writes and both may touch the same bytes. Accesses that conflict run
 * in the order of the program: a load is never moved past a write that it conflicts with, nor repeated after it.
 *
 *     v = load a + i; s = sum v          v runs in the nest of the sum,
 *     store a + 63 - i, v - s            and may not run a second time in the nest of the store: it is kept
 *
 * A nest loads an element, computes and stores an element, and only then goes on to the next vector. So two
 * conflicting accesses may share a nest only where they meet at no two different indices of it:
 *
 *     v = load a + i; store a + i, v + 1                one place an index: may share
 *     v = load a + i; store a + i + 1, v                the store at i = 0 changes what i = 1 loads: may not
 *     v = load a + i; store a + j, trans(v)             the load runs with other dims than the store: may not
 *     v = load a + idx; store a + idx, v + 1            two indices may be one place: may not
 *
 * Whether accesses through two arguments conflict is asked of the launch (`e->arguments`): a plan for arguments
 * that do not overlap is the fast one, and plan_verify() finds on which pairs of them it relies.
 */
#ifndef NEREID_CPU_MEMORY_H
#define NEREID_CPU_MEMORY_H

#include "cpu/plan.h"

bool memory_writes(const Op *op);
bool memory_conflict(Emit *e, const Op *a, const Op *b);
/* Whether `first` and, later in the program, `second` may run in one nest of that shape although they conflict; and
 * whether they may when their two arguments are one address. */
bool memory_may_share(Emit *e, const Access *first, const Access *second, int rank, const int32_t *shape);
bool memory_may_share_if_same(Emit *e, const Access *first, const Access *second, int rank, const int32_t *shape);

bool root_writes(const FusionRoot *r);
Access root_access(const FusionRoot *r); /* what it writes */
/* The loads that root r, whose map is known, runs in the nest of g. While the plan is made (p not NULL): that it would
 * run; g may be NULL, a nest of its own. */
Accesses root_loads(Emit *e, Planner *p, const Group *g, FusionRoot *r);
Accesses group_loads(Emit *e, const Group *g); /* of all its roots, each once */
/* Whether r may join g: its loads and what it writes beside what g runs already. */
bool memory_fits(Planner *p, const Group *g, FusionRoot *r);

#endif

/* How far boxes reach: box_apart.h. */
#include "gpu/box_apart.h"

/* The largest value of an atom that is no argument's; NULL: it is not known. */
static const Poly *most_of(const Func *f, PolySpace *s, const PolyAtom *a) {
  int axis = a->kind == ATOM_VALUE ? loop_program_axis(f, a->value) : -1;
  if (axis < 0) return NULL;
  if (!f->persistent)
    return poly_int(s, 0); /* whether it can be known is asked; persist comes before the answer's use */
  Value *programs = f->body->args[f->body->arg_count - 3 + axis];
  return poly_sub(s, poly_of(s, programs, NULL), poly_int(s, 1));
}

/* The largest value of a sum of products, none of which is negative. */
static const Poly *largest(const Func *f, PolySpace *s, const Poly *x) {
  const Poly *sum = poly_int(s, 0);
  for (int i = 0; i < x->count; i++) {
    const PolyTerm *t = &x->at[i];
    const Poly *product = poly_int(s, t->factor);
    for (int k = 0; k < t->count; k++) {
      const PolyAtom *a = &s->atoms.at[t->atoms[k]];
      Poly *own = NEW(s->cx->arena, Poly);
      PolyTerm *at = NEW(s->cx->arena, PolyTerm);
      *at = (PolyTerm){.factor = 1, .count = 1, .atoms = {t->atoms[k]}};
      *own = (Poly){1, at};
      product = poly_mul(s, product, a->is_static ? own : most_of(f, s, a));
    }
    sum = poly_add(s, sum, product);
  }
  return sum;
}

const Poly *box_end(const Func *f, const RegularTile *box) {
  PolySpace *s = box->space;
  const Poly *end = poly_add(s, box->offset, poly_int(s, 1));
  for (int i = 0; i < box->count; i++) {
    const RegularDim *d = &box->dims[i];
    const Poly *last =
        d->size ? poly_sub(s, d->size, poly_int(s, 1)) : poly_add(s, largest(f, s, d->start), poly_int(s, d->box - 1));
    end = poly_add(s, end, poly_mul(s, last, d->stride));
  }
  return end;
}

static Value *address(Builder *b, const RegularTile *box, const Poly *at) {
  Value *p = at->count ? build_addptr(b, box->base, poly_build(box->space, b, at, DT_I64, true)) : box->base;
  return build_bitcast(b, p, type_number(b->func->cx, DT_U64));
}

void box_require_apart(Builder *top, const RegularTile *x, const RegularTile *y) {
  const RegularTile *boxes[] = {x, y};
  Value *begin[2], *end[2];
  for (int i = 0; i < 2; i++) {
    begin[i] = address(top, boxes[i], boxes[i]->offset);
    end[i] = address(top, boxes[i], box_end(top->func, boxes[i]));
  }
  Value *apart =
      build_binary(top, OP_OR, build_cmp(top, CMP_LE, end[0], begin[1]), build_cmp(top, CMP_LE, end[1], begin[0]));
  build_op(top, OP_REQUIRE, 1, &apart, 0, NULL);
}

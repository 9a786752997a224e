/* Convolutions that libraries are tested with. */
#ifndef CONVOLUTION_KIT_H
#define CONVOLUTION_KIT_H

#include "unit/fuse/library_kit.h"

typedef struct Case {
  const char *expression; /* of a, b and c */
  nereid_dtype type;
  int64_t shapes[3][LIBRARY_RANK]; /* ended by 0 */
  bool by_filter;                  /* its gradient by b, where that of the result is c, and not itself */
} Case;

static inline nereid_fusion *plan_in(nereid_device *d, const Case *c, nereid_dtype type, nereid_fuse_products who,
                                     nereid_fuse_layouts layouts) {
  nereid_tensor in[3], out;
  nereid_fusion *f = NULL;
  nereid_builder *g = builder_of(c->expression, type, c->shapes, in, &out);
  if (c->by_filter) assert_ok(nereid_builder_gradients(g, &out, &in[2], 1, &in[1], 1, &out, &error));
  nereid_fuse_options o = {.device = d, .products = who, .layouts = layouts};
  assert_ok(nereid_builder_compile(g, &out, 1, &o, &f, &error));
  nereid_builder_free(g);
  return f;
}

static inline nereid_fusion *plan_on(nereid_device *d, const Case *c, nereid_dtype type, nereid_fuse_products who) {
  return plan_in(d, c, type, who, NEREID_LAYOUTS_AUTO);
}

static const Case cases[] = {
    {"F.conv2d(a, b)", NEREID_F32, {{2, 3, 7, 6}, {4, 3, 3, 2}}, false},
    {"F.conv2d(a, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2))", NEREID_F16, {{2, 3, 7, 6}, {4, 3, 3, 2}}, false},
    {"F.conv2d(a, b, padding='same', groups=2)", NEREID_BF16, {{1, 4, 5, 6}, {6, 2, 3, 3}}, false},
    {"F.conv2d(a, b, padding=1, groups=4)", NEREID_F32, {{2, 4, 5, 6}, {4, 1, 3, 3}}, false},
    {"F.conv1d(a, b, stride=2, padding=3)", NEREID_F32, {{2, 3, 9}, {5, 3, 4}}, false},
    {"F.conv3d(a, b, stride=2, padding=1)", NEREID_F32, {{1, 2, 5, 4, 6}, {3, 2, 3, 3, 2}}, false},
    {"F.conv_transpose2d(a, b, stride=2, padding=1, output_padding=1)",
     NEREID_F32,
     {{2, 3, 4, 5}, {3, 2, 3, 3}},
     false},
    {"F.conv_transpose2d(a, b, stride=3, groups=2)", NEREID_F16, {{1, 4, 3, 3}, {4, 3, 2, 2}}, false},
    {"F.conv_transpose1d(a, b, dilation=2)", NEREID_F32, {{2, 3, 7}, {3, 2, 3}}, false},
    {"F.conv_transpose3d(a, b, stride=(1, 2, 2))", NEREID_F32, {{1, 2, 3, 2, 3}, {2, 2, 2, 3, 3}}, false},
    {"F.conv2d(a, b, stride=2, padding=1)", NEREID_F32, {{2, 3, 7, 6}, {4, 3, 3, 3}, {2, 4, 4, 3}}, true},
    {"F.conv2d(a, b, groups=2)", NEREID_F32, {{2, 4, 5, 5}, {2, 2, 3, 3}, {2, 2, 3, 3}}, true},
    {"F.conv_transpose2d(a, b, stride=2)", NEREID_F32, {{2, 3, 4, 5}, {3, 2, 3, 3}, {2, 2, 9, 11}}, true},
};
enum { CASES = sizeof cases / sizeof *cases };

#endif

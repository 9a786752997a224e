"""Convolution as a product whose first matrix is never built: its rows are windows of the image, loaded as needed."""
import triton
import triton.language as tl


@triton.jit
def conv2d(x_ptr, w_ptr, y_ptr, images, H, W, C, OH, OW, OC, stride_xi, stride_xh, stride_xw, stride_xc, stride_yi,
           stride_yh, stride_yw, stride_yc, STEP: tl.constexpr, PAD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """y[i, h, w, o] = sum over r, s, c of x[i, h * STEP + r - PAD, w * STEP + s - PAD, c] * w[r, s, c, o].

    x: images of H x W x C, y: images of OH x OW x OC, OH = (H + 2 * PAD - KH) // STEP + 1 and OW alike, with any
    strides (elements), so that NHWC and NCHW are the same kernel; w: [KH, KW, C, OC] without gaps; accumulated in fp32.
    Rows of the product are pixels of y, columns its channels; K goes through the window, BLOCK_K channels at a time.
    Grid: (cdiv(images * OH * OW, BLOCK_M) * cdiv(OC, BLOCK_N),).
    """
    tiles_m, tiles_n = tl.cdiv(images * OH * OW, BLOCK_M), tl.cdiv(OC, BLOCK_N)
    program = tl.program_id(0)
    tile_m, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_m, tiles_n, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    image, y_row, y_column = m // (OH * OW), m // OW % OH, m % OW
    row, column = y_row * STEP - PAD, y_column * STEP - PAD  # the window's first
    corner = image * stride_xi + row * stride_xh + column * stride_xw
    blocks_c = tl.cdiv(C, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for step in range(KH * KW * blocks_c):
        r, s = step // blocks_c // KW, step // blocks_c % KW
        c = step % blocks_c * BLOCK_K + tl.arange(0, BLOCK_K)
        inside = (image < images) & (row + r >= 0) & (row + r < H) & (column + s >= 0) & (column + s < W)
        x = tl.load(x_ptr + (corner + r * stride_xh + s * stride_xw)[:, None] + c[None, :] * stride_xc,
                    mask=inside[:, None] & (c[None, :] < C), other=0.0)
        w = tl.load(w_ptr + ((r * KW + s) * C + c[:, None]) * OC + n[None, :],
                    mask=(c[:, None] < C) & (n[None, :] < OC), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    y_ptrs = y_ptr + (image * stride_yi + y_row * stride_yh + y_column * stride_yw)[:, None] + n[None, :] * stride_yc
    tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=(image < images)[:, None] & (n[None, :] < OC))

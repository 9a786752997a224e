"""A layer of a network, forward and backward: a product, a bias and an activation in one kernel; SwiGLU."""
import triton
import triton.language as tl


@triton.jit
def activation(z, ACTIVATION: tl.constexpr):
    """relu(z) or silu(z) = z * sigmoid(z)."""
    if ACTIVATION == "relu":
        return tl.maximum(z, 0.0)
    else:
        return z * tl.sigmoid(z)


@triton.jit
def activation_slope(z, ACTIVATION: tl.constexpr):
    """The derivative of activation at z."""
    if ACTIVATION == "relu":
        return tl.where(z > 0.0, 1.0, 0.0)
    else:
        s = tl.sigmoid(z)
        return s * (1.0 + z * (1.0 - s))


@triton.jit
def linear(x_ptr, w_ptr, bias_ptr, z_ptr, y_ptr, M, N, K, ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr,
           BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """Z = X @ W + bias, Y = activation(Z). Z is what the backward pass needs.

    X: [M, K], W: [K, N], bias: [N], Z and Y: [M, N], all without gaps; accumulated in fp32.
    Grid: (cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N),).
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    tile_m, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_m, tiles_n, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        w = tl.load(w_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    z = acc + tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    at = m[:, None] * N + n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(z_ptr + at, z.to(z_ptr.dtype.element_ty), mask=mask)
    tl.store(y_ptr + at, activation(z, ACTIVATION).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def linear_backward_x(dy_ptr, z_ptr, w_ptr, dx_ptr, M, N, K, ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr,
                      BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """dX = dZ @ W^T, where dZ = dY * activation'(Z) is computed from what is loaded and never stored.

    dY, Z: [M, N], W: [K, N], dX: [M, K]; the tiles are BLOCK_M x BLOCK_K of dX.
    Grid: (cdiv(M, BLOCK_M) * cdiv(K, BLOCK_K),).
    """
    tiles_m, tiles_k = tl.cdiv(M, BLOCK_M), tl.cdiv(K, BLOCK_K)
    program = tl.program_id(0)
    tile_m, tile_k = tl.swizzle2d(program // tiles_k, program % tiles_k, tiles_m, tiles_k, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tile_k * BLOCK_K + tl.arange(0, BLOCK_K)
    n = tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_K], tl.float32)
    for start in range(0, N, BLOCK_N):
        at = m[:, None] * N + start + n[None, :]
        mask = (m[:, None] < M) & (n[None, :] < N - start)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        z = tl.load(z_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dz = (dy * activation_slope(z, ACTIVATION)).to(w_ptr.dtype.element_ty)
        w = tl.load(w_ptr + k[None, :] * N + start + n[:, None],
                    mask=(n[:, None] < N - start) & (k[None, :] < K), other=0.0)
        acc = tl.dot(dz, w, acc, input_precision="ieee")
    tl.store(dx_ptr + m[:, None] * K + k[None, :], acc.to(dx_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (k[None, :] < K))


@triton.jit
def linear_backward_w(x_ptr, dy_ptr, z_ptr, dw_ptr, dbias_ptr, M, N, K, ACTIVATION: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_K: tl.constexpr):
    """dW = X^T @ dZ and dbias = dZ's sum over rows, which the programs of the first tiles along K have at hand.

    dZ as in linear_backward_x; X: [M, K], dW: [K, N], dbias: f32[N]; the tiles are BLOCK_K x BLOCK_N of dW.
    Grid: (cdiv(K, BLOCK_K) * cdiv(N, BLOCK_N),).
    """
    tiles_k, tiles_n = tl.cdiv(K, BLOCK_K), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    tile_k, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_k, tiles_n, GROUP_K)
    k = tile_k * BLOCK_K + tl.arange(0, BLOCK_K)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    acc = tl.zeros([BLOCK_K, BLOCK_N], tl.float32)
    dbias = tl.zeros([BLOCK_N], tl.float32)
    for start in range(0, M, BLOCK_M):
        at = (start + m[:, None]) * N + n[None, :]
        mask = (m[:, None] < M - start) & (n[None, :] < N)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        z = tl.load(z_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dz = dy * activation_slope(z, ACTIVATION)
        x = tl.load(x_ptr + (start + m[None, :]) * K + k[:, None],
                    mask=(k[:, None] < K) & (m[None, :] < M - start), other=0.0)
        acc = tl.dot(x, dz.to(x.dtype), acc, input_precision="ieee")
        if tile_k == 0:
            dbias += tl.sum(dz, 0)
    tl.store(dw_ptr + k[:, None] * N + n[None, :], acc.to(dw_ptr.dtype.element_ty),
             mask=(k[:, None] < K) & (n[None, :] < N))
    if tile_k == 0:
        tl.store(dbias_ptr + n, dbias, mask=n < N)


@triton.jit
def swiglu(x_ptr, gate_ptr, up_ptr, y_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """Y = silu(X @ gate) * (X @ up) (Shazeer, "GLU Variants Improve Transformer", 2020): X is loaded once for both.

    X: [M, K], gate and up: [K, N], Y: [M, N], all without gaps. Grid: (cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N),).
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    tile_m, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_m, tiles_n, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    weights = k[:, None] * N + n[None, :]
    gate = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    up = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        mask = (k[:, None] < K - start) & (n[None, :] < N)
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        gate = tl.dot(x, tl.load(gate_ptr + weights, mask=mask, other=0.0), gate, input_precision="ieee")
        up = tl.dot(x, tl.load(up_ptr + weights, mask=mask, other=0.0), up, input_precision="ieee")
        x_ptrs += BLOCK_K
        weights += BLOCK_K * N
    y = activation(gate, "silu") * up
    tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(y_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))

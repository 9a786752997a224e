# The part of Nereid's library that is written in the Triton language itself. It is embedded in the compiler; a call of one of
# these functions is inlined like a call of any jit function. lib_prelude.c and lib_dot.c list them with their signatures.
import triton
import triton.language as tl
from triton.language.extra import libdevice


# ---- random numbers: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), and its 64-bit form ----


@triton.jit
def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: tl.constexpr):
    wide: tl.constexpr = c0.dtype == tl.uint64
    tl.static_assert(wide or c0.dtype == tl.uint32, "philox: the counters must be of 32 or 64 bits")
    mul_a: tl.constexpr = 0xD2E7470EE14C6C93 if wide else 0xD2511F53
    mul_b: tl.constexpr = 0xCA5A826395121157 if wide else 0xCD9E8D57
    step_0: tl.constexpr = 0x9E3779B97F4A7C15 if wide else 0x9E3779B9
    step_1: tl.constexpr = 0xBB67AE8584CAA73B if wide else 0xBB67AE85
    for _ in tl.static_range(n_rounds):
        high_a = tl.umulhi(mul_a, c0)
        low_a = tl.mul(c0, mul_a, sanitize_overflow=False)
        high_b = tl.umulhi(mul_b, c2)
        low_b = tl.mul(c2, mul_b, sanitize_overflow=False)
        c0 = high_b ^ c1 ^ k0
        c1 = low_b
        c2 = high_a ^ c3 ^ k1
        c3 = low_a
        k0 = tl.add(k0, step_0, sanitize_overflow=False)
        k1 = tl.add(k1, step_1, sanitize_overflow=False)
    return c0, c1, c2, c3


@triton.jit
def philox(seed, c0, c1, c2, c3, n_rounds: tl.constexpr):
    seed = tl.to_tensor(seed)
    tl.static_assert(seed.dtype.is_int(), "philox: the seed must be an integer")
    key = seed.to(tl.uint64)
    c0 = tl.to_tensor(c0)
    c1 = tl.to_tensor(c1)
    c2 = tl.to_tensor(c2)
    c3 = tl.to_tensor(c3)
    wide: tl.constexpr = c0.dtype.primitive_bitwidth == 64
    counter: tl.constexpr = tl.uint64 if wide else tl.uint32
    k0 = key.to(counter)
    k1 = (tl.zeros_like(key) if wide else key >> 32).to(counter)
    c0 = c0.to(counter, bitcast=True)
    c1 = c1.to(counter, bitcast=True)
    c2 = c2.to(counter, bitcast=True)
    c3 = c3.to(counter, bitcast=True)
    return philox_impl(c0, c1, c2, c3, k0, k1, n_rounds)


@triton.jit
def randint4x(seed, offset, n_rounds: tl.constexpr):
    tl.static_assert(isinstance(offset, tl.tensor), "rand: `offset` must be a tensor, such as tl.arange(0, N)")
    low = offset.to(tl.uint32)
    zero = tl.zeros_like(low)
    high = (offset >> 32).to(tl.uint32) if offset.dtype.primitive_bitwidth > 32 else zero
    return philox(seed, low, high, zero, zero, n_rounds)


@triton.jit
def randint(seed, offset, n_rounds: tl.constexpr):
    r0, r1, r2, r3 = randint4x(seed, offset, n_rounds)
    return r0


@triton.jit
def uint_to_uniform_float(x):
    wide: tl.constexpr = x.dtype.primitive_bitwidth == 64
    tl.static_assert(x.dtype.is_int() and (wide or x.dtype.primitive_bitwidth == 32),
                     "uint_to_uniform_float: `x` must be an integer of 32 or 64 bits")
    # The largest scale for which no value rounds up to 1.
    scale: tl.constexpr = 1.0842020432385337e-19 if wide else 4.6566127342e-10
    x = x.to(tl.int64 if wide else tl.int32, bitcast=True)
    return tl.where(x < 0, ~x, x) * scale  # ~x is -x - 1


@triton.jit
def rand(seed, offset, n_rounds: tl.constexpr):
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@triton.jit
def rand4x(seed, offsets, n_rounds: tl.constexpr):
    r0, r1, r2, r3 = randint4x(seed, offsets, n_rounds)
    return (uint_to_uniform_float(r0), uint_to_uniform_float(r1), uint_to_uniform_float(r2),
            uint_to_uniform_float(r3))


@triton.jit
def pair_uniform_to_normal(u1, u2):
    # Box and Muller: a radius and an angle; u1 = 0 would have an infinite radius.
    radius = tl.sqrt(-2.0 * tl.log(tl.maximum(1.0e-7, u1)))
    angle = 6.283185307179586 * u2
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit
def randn(seed, offset, n_rounds: tl.constexpr):
    r0, r1, r2, r3 = randint4x(seed, offset, n_rounds)
    n0, n1 = pair_uniform_to_normal(uint_to_uniform_float(r0), uint_to_uniform_float(r1))
    return n0


@triton.jit
def randn4x(seed, offset, n_rounds: tl.constexpr):
    u0, u1, u2, u3 = rand4x(seed, offset, n_rounds)
    n0, n1 = pair_uniform_to_normal(u0, u1)
    n2, n3 = pair_uniform_to_normal(u2, u3)
    return n0, n1, n2, n3


# ---- math and indexing ----


@triton.jit
def softmax(x, dim, keep_dims: tl.constexpr, ieee_rounding: tl.constexpr):
    axis: tl.constexpr = 0 if dim is None else dim
    z = tl.exp(x - tl.max(x, axis, keep_dims=keep_dims))
    return tl.fdiv(z, tl.sum(z, axis, keep_dims=keep_dims), ieee_rounding)


@triton.jit
def swizzle2d(i, j, size_i, size_j, size_g):
    # Groups of size_g rows, each walked column by column; the last group may be lower.
    linear = i * size_j + j
    group_size = size_g * size_j
    group = linear // group_size
    first_row = group * size_g
    rows = tl.minimum(size_i - first_row, size_g)
    linear = linear % group_size
    return first_row + linear % rows, linear // rows


# ---- what reductions combine two elements with, and the steps of a bitonic sort on a tensor of shape [2, 2, ...] ----


@triton.jit
def _sum_combine(a, b):
    return a + b


@triton.jit
def _prod_combine(a, b):
    return a * b


@triton.jit
def _xor_combine(a, b):
    return a ^ b


@triton.jit
def _or_combine(a, b):
    return a | b


@triton.jit
def _elementwise_max(a, b):
    return tl.maximum(a, b)


@triton.jit
def _elementwise_min(a, b):
    return tl.minimum(a, b)


@triton.jit
def _keep_better(better, value1, index1, value2, index2, tie_break_left: tl.constexpr):
    left = better
    if tie_break_left:
        left = better | ((value1 == value2) & (index1 < index2))
    return tl.where(left, value1, value2), tl.where(left, index1, index2)


@triton.jit
def _argmax_combine(value1, index1, value2, index2, tie_break_left: tl.constexpr):
    return _keep_better(value1 > value2, value1, index1, value2, index2, tie_break_left)


@triton.jit
def _argmin_combine(value1, index1, value2, index2, tie_break_left: tl.constexpr):
    return _keep_better(value1 < value2, value1, index1, value2, index2, tie_break_left)


@triton.jit
def _argmax_combine_tie_break_left(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, True)


@triton.jit
def _argmax_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, False)


@triton.jit
def _argmin_combine_tie_break_left(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, True)


@triton.jit
def _argmin_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, False)


@triton.jit
def _indicator(n_dims: tl.constexpr, j: tl.constexpr):
    # 0 and 1 along the j-th dim from the right.
    return tl.reshape(tl.arange(0, 2), [1] * (n_dims - j - 1) + [2] + [1] * j)


@triton.jit
def _compare_and_swap(x, flip, i: tl.constexpr):
    # Along the i-th dim from the right: the greater of each two goes right, or left where flip is 1.
    n_dims: tl.constexpr = tl.standard._log2(x.numel)
    bits: tl.constexpr = tl.core.get_int_dtype(x.dtype.primitive_bitwidth, signed=True)
    mine = x.to(bits, bitcast=True)
    other = (mine ^ tl.xor_sum(mine, n_dims - 1 - i, True)).to(x.dtype, bitcast=True)
    return tl.where((x > other) != (flip ^ _indicator(n_dims, i)), other, x)


@triton.jit
def _bitonic_merge_hypercube(x, stage: tl.constexpr, order: tl.constexpr):
    # order 0: ascending, 1: descending, 2: in turns, as the next stage wants it.
    if order == 2:
        flip = _indicator(tl.standard._log2(x.numel), stage)
    else:
        flip = order
    for i in tl.static_range(stage):
        x = _compare_and_swap(x, flip, stage - 1 - i)
    return x


@triton.jit
def _bitonic_merge(x, stage: tl.constexpr, order: tl.constexpr, n_dims: tl.constexpr):
    cube = tl.reshape(x, [2] * tl.standard._log2(x.numel))
    return tl.reshape(_bitonic_merge_hypercube(cube, stage, order), x.shape)


# ---- dot_scaled: microscaling formats, upcast to bf16 (to f32 where fp16 takes part, whose mantissa it could not hold) ----


@triton.jit
def _e2m1_to_bf16(code):
    # A nibble s ee m; the magnitudes are 0 .5 1 1.5 2 3 4 6.
    code = code.to(tl.uint16)
    magnitude = code & 7
    normal = ((magnitude >> 1) + 126) << 7 | (magnitude & 1) << 6
    small = tl.where(magnitude == 1, 126 << 7, 0).to(tl.uint16)
    bits = tl.where(magnitude < 2, small, normal) | (code & 8) << 12
    return bits.to(tl.bfloat16, bitcast=True)


@triton.jit
def _unpack_e2m1(x, last: tl.constexpr):
    # Two values a byte, the first in the low half, along the last dim or the one before it.
    y = x if last else tl.trans(x)
    y = tl.interleave(_e2m1_to_bf16(y & 15), _e2m1_to_bf16(y >> 4))
    return y if last else tl.trans(y)


@triton.jit
def _from_format(x, format: tl.constexpr, last: tl.constexpr, compute: tl.constexpr):
    tl.static_assert(format == "e2m1" or format == "e4m3" or format == "e5m2" or format == "bf16" or format == "fp16",
                     "dot_scaled: the formats are e2m1, e4m3, e5m2, bf16 and fp16")
    if format == "e2m1":
        tl.static_assert(x.dtype == tl.uint8, "dot_scaled: e2m1 comes packed in uint8")
        y = _unpack_e2m1(x, last)
    elif format == "e4m3":
        tl.static_assert(x.dtype == tl.uint8 or x.dtype == tl.float8e4nv, "dot_scaled: e4m3 comes as uint8 or float8e4nv")
        y = x.to(tl.float8e4nv, bitcast=True)
    elif format == "e5m2":
        tl.static_assert(x.dtype == tl.uint8 or x.dtype == tl.float8e5, "dot_scaled: e5m2 comes as uint8 or float8e5")
        y = x.to(tl.float8e5, bitcast=True)
    elif format == "bf16":
        tl.static_assert(x.dtype == tl.uint16 or x.dtype == tl.bfloat16, "dot_scaled: bf16 comes as uint16 or bfloat16")
        y = x.to(tl.bfloat16, bitcast=True)
    else:
        tl.static_assert(x.dtype == tl.uint16 or x.dtype == tl.float16, "dot_scaled: fp16 comes as uint16 or float16")
        y = x.to(tl.float16, bitcast=True)
    return y.to(compute)


@triton.jit
def _apply_scale(x, scale, compute: tl.constexpr):
    # x is [.., R, K], scale [.., R, K / g]. A scale is a power of two, e8m0 (255: NaN), or an fp8 number.
    if scale.dtype == tl.float8e4nv:
        factor = scale.to(compute)
    else:
        tl.static_assert(scale.dtype == tl.uint8 or scale.dtype == tl.int8,
                         "dot_scaled: scales are uint8 (e8m0) or float8e4nv")
        code = scale.to(tl.uint8, bitcast=True).to(tl.uint16)
        bits = tl.where(code == 0, 0x0040, tl.where(code == 255, 0x7FC0, code << 7)).to(tl.uint16)
        factor = bits.to(tl.bfloat16, bitcast=True).to(compute)
    group: tl.constexpr = x.shape[-1] // scale.shape[-1]
    tl.static_assert(scale.shape[-1] * group == x.shape[-1] and (group == 32 or group == 16),
                     "dot_scaled: a scale must stand for 16 or 32 elements along K")
    wide = tl.broadcast_to(tl.expand_dims(factor, -1), list(scale.shape) + [group])
    return x * tl.reshape(wide, x.shape)


@triton.jit
def dot_scaled(lhs, lhs_scale, lhs_format: tl.constexpr, rhs, rhs_scale, rhs_format: tl.constexpr, acc,
               fast_math: tl.constexpr, lhs_k_pack: tl.constexpr, rhs_k_pack: tl.constexpr, out_dtype: tl.constexpr):
    compute: tl.constexpr = tl.float32 if lhs_format == "fp16" or rhs_format == "fp16" else tl.bfloat16
    a = _from_format(lhs, lhs_format, lhs_k_pack, compute)
    b = _from_format(rhs, rhs_format, not rhs_k_pack, compute)
    if lhs_scale is not None:
        a = _apply_scale(a, lhs_scale, compute)
    if rhs_scale is not None:
        b = tl.trans(_apply_scale(tl.trans(b), rhs_scale, compute))
    return tl.dot(a, b, acc, input_precision="ieee")


# ---- TorchInductor's triton_helpers ----


@triton.jit
def inductor_div_floor_integer(a, b):
    quotient = a // b
    return tl.where(((a < 0) != (b < 0)) & (a % b != 0), quotient - 1, quotient)


@triton.jit
def inductor_remainder_integer(a, b):
    rest = a % b
    return tl.where((rest != 0) & ((a < 0) != (b < 0)), rest + b, rest)


@triton.jit
def _inductor_with_index(better, a_value, a_index, b_value, b_index):
    # NaN counts as better than any number; among equals the lower index wins.
    a_nan = a_value != a_value
    b_nan = b_value != b_value
    equal = (a_value == b_value) | (a_nan & b_nan)
    left = better | (a_nan & ~b_nan) | (equal & (a_index < b_index))
    return tl.where(left, a_value, b_value), tl.where(left, a_index, b_index)


@triton.jit
def inductor_minimum_with_index(a_value, a_index, b_value, b_index):
    return _inductor_with_index(a_value < b_value, a_value, a_index, b_value, b_index)


@triton.jit
def inductor_maximum_with_index(a_value, a_index, b_value, b_index):
    return _inductor_with_index(a_value > b_value, a_value, a_index, b_value, b_index)


@triton.jit
def inductor_min_with_index(value, index, dim):
    return tl.reduce((value, index), dim, inductor_minimum_with_index)


@triton.jit
def inductor_max_with_index(value, index, dim):
    return tl.reduce((value, index), dim, inductor_maximum_with_index)


@triton.jit
def inductor_exp(x, use_fast_math: tl.constexpr):
    return tl.exp(x)


@triton.jit
def _largest_finite_or_zero(x):
    # A row of -inf only: subtracting its maximum from itself must not give NaN.
    return tl.where(x == float("-inf"), 0.0, x)


@triton.jit
def inductor_online_softmax_reduce(lhs_max, lhs_sum, dim, use_fast_math: tl.constexpr):
    result_max = tl.max(lhs_max, dim)
    shift = tl.expand_dims(_largest_finite_or_zero(result_max), dim)
    return result_max, tl.sum(lhs_sum * tl.exp(lhs_max - shift), dim)


@triton.jit
def inductor_online_softmax_combine(lhs_max, lhs_sum, rhs_max, use_fast_math: tl.constexpr):
    # One more element, rhs_max, joins the running maximum and the running sum of exponentials.
    out_max = tl.maximum(lhs_max, rhs_max, propagate_nan=tl.PropagateNan.ALL)
    shift = _largest_finite_or_zero(out_max)
    return out_max, lhs_sum * tl.exp(lhs_max - shift) + tl.exp(rhs_max - shift)


@triton.jit
def inductor_welford_reduce(value, mean, m2, weight, first_iteration):
    if first_iteration:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight


@triton.jit
def inductor_welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, weight


@triton.jit
def inductor_welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, inductor_welford_combine)


@triton.jit
def inductor_device_assert_then(cond, msg, r):
    tl.device_assert(cond, msg)
    return r


@triton.jit
def inductor_randint64(seed, offset, low, high):
    r0, r1, r2, r3 = tl.randint4x(seed, offset)
    bits = r0.to(tl.uint64) | (r1.to(tl.uint64) << 32)
    return (bits % tl.to_tensor(high - low).to(tl.uint64)).to(tl.int64) + low


@triton.jit
def inductor_bucketize_binary_search(values, boundaries_ptr, BOUNDARIES_SIZE, BOUNDARIES_UNDERLYING_NUMEL,
                                     BOUNDARIES_STRIDE, boundary_indices, indexing_dtype: tl.constexpr,
                                     right: tl.constexpr, sorter_ptr, SORTER_STRIDE, sorter_indices):
    # How many boundaries lie below each value (with right=True: not above it).
    low = tl.zeros(values.shape, dtype=indexing_dtype)
    high = tl.full(values.shape, 0, dtype=indexing_dtype) + tl.cast(BOUNDARIES_SIZE, indexing_dtype)
    full_range = BOUNDARIES_SIZE + 1
    while full_range > 1:
        mid = (high + low) // 2
        inside = (mid < BOUNDARIES_SIZE) & (low < high)
        if sorter_ptr is None:
            place = mid
        else:
            place = tl.load(sorter_ptr + sorter_indices + SORTER_STRIDE * mid, mask=inside, other=0)
        bound = tl.load(boundaries_ptr + (boundary_indices + BOUNDARIES_STRIDE * place), mask=inside, other=0)
        below = (bound <= values) if right else (bound < values)
        low = tl.where(inside & below, mid + 1, low).to(indexing_dtype)
        high = tl.where(inside & ~below, mid, high).to(indexing_dtype)
        full_range = (full_range + 1) // 2
    return low


@triton.jit
def inductor_frexp(x):
    exponent = libdevice.ilogb(x) + 1
    return tl.where(x == 0, 0.0, libdevice.ldexp(x, -exponent)), tl.where(x == 0, 0, exponent)


@triton.jit
def inductor_select_one(x, mask, dim, keep_dims: tl.constexpr):
    bits: tl.constexpr = tl.core.get_int_dtype(x.dtype.primitive_bitwidth, signed=False)
    picked = tl.sum(tl.where(mask, x.to(bits, bitcast=True), 0), dim, keep_dims=keep_dims)
    return picked.to(bits).to(x.dtype, bitcast=True)


@triton.jit
def inductor_if_mask(mask, val):
    return val if mask is not None else None


@triton.jit
def inductor_sort_with_index(x, idxs, rnumel, dim, stable: tl.constexpr, descending: tl.constexpr):
    # A bitonic network over (value, index): the partner of a lane differs from it in one bit. NaN sorts as the
    # greatest; lanes past rnumel go last; ties keep the order of the indices, which makes the sort stable.
    axis: tl.constexpr = len(x.shape) - 1 if dim is None else dim
    tl.static_assert(axis == len(x.shape) - 1 or axis == -1, "sort_with_index: only the last dim can be sorted")
    n: tl.constexpr = x.shape[-1]
    x, idxs = tl.broadcast(x, idxs)
    lane = tl.broadcast_to(tl.reshape(tl.arange(0, n), [1] * (len(x.shape) - 1) + [n]), x.shape)
    for stage in tl.static_range(1, tl.standard._log2(n) + 1):
        for step in tl.static_range(stage):
            partner = lane ^ (1 << (stage - 1 - step))
            y = tl.gather(x, partner, len(x.shape) - 1)
            y_index = tl.gather(idxs, partner, len(x.shape) - 1)
            x_nan = x != x
            y_nan = y != y
            if descending:
                before = (x > y) | (x_nan & ~y_nan)
            else:
                before = (x < y) | (y_nan & ~x_nan)
            equal = (x == y) | (x_nan & y_nan)
            before = before | (equal & (idxs < y_index))
            if rnumel is not None:
                x_out = idxs >= rnumel
                y_out = y_index >= rnumel
                before = (before & (x_out == y_out)) | (y_out & ~x_out)
            wants_first = ((lane < partner) == ((lane & (1 << stage)) == 0)) if stage < tl.standard._log2(n) else lane < partner
            keep = before == wants_first
            x = tl.where(keep, x, y)
            idxs = tl.where(keep, idxs, y_index)
    return x, idxs


# ---- programs that wait for each other ----


@triton.jit
def inductor_x_grid_barrier(sem):
    # As in cooperative groups: what all programs add together is 2^31, so the top bit flips when the last has come, and
    # the next barrier may use the same word.
    tl.debug_barrier()
    others = tl.num_programs(0).to(tl.uint32) - 1
    share = tl.where(tl.program_id(0) == 0, 0x80000000 - others, others * 0 + 1)
    before = tl.atomic_add(sem, share, sem="release").to(tl.uint32, bitcast=True)
    now = before
    while (before ^ now) < 0x80000000:
        now = tl.atomic_add(sem, 0, sem="acquire").to(tl.uint32, bitcast=True)
    tl.debug_barrier()


# Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016. A block publishes the value of
# its own (flag 1), looks back at earlier blocks until one knows the value of all up to it (flag 2), and publishes that.


@triton.jit
def _inductor_pack(value, flag, HALF: tl.constexpr, WHOLE: tl.constexpr):
    bits: tl.constexpr = HALF.primitive_bitwidth
    return (value.to(HALF, bitcast=True).to(WHOLE) << bits) | flag


@triton.jit
def inductor_exclusive_scan_decoupled_lookback(scratch_base, block_value, index, combine_fn,
                                               DTYPE_VALUE_AS_UINT: tl.constexpr, DTYPE_PACK: tl.constexpr):
    # Value and flag are one word, which is read and written at once.
    bits: tl.constexpr = DTYPE_VALUE_AS_UINT.primitive_bitwidth
    if index > 0:
        own = _inductor_pack(block_value, 1, DTYPE_VALUE_AS_UINT, DTYPE_PACK)
        tl.atomic_xchg(scratch_base + index, own, sem="relaxed")
    prefix = tl.zeros([], block_value.dtype)
    found = False
    at = index - 1
    while at >= 0:
        word = tl.atomic_add(scratch_base + at, 0, sem="relaxed")
        while word.to(DTYPE_VALUE_AS_UINT) == 0:
            word = tl.atomic_add(scratch_base + at, 0, sem="relaxed")
        value = (word >> bits).to(DTYPE_VALUE_AS_UINT).to(block_value.dtype, bitcast=True)
        prefix = combine_fn(value, prefix) if found else value
        found = True
        at = -1 if word.to(DTYPE_VALUE_AS_UINT) == 2 else at - 1
    whole = combine_fn(prefix, block_value) if found else block_value
    tl.atomic_xchg(scratch_base + index, _inductor_pack(whole, 2, DTYPE_VALUE_AS_UINT, DTYPE_PACK), sem="relaxed")
    return prefix


@triton.jit
def inductor_exclusive_scan_decoupled_lookback_64(scratch_base, block_value, index, combine_fn):
    # A block has three words: the flag, its own value, the value of all up to it.
    place = scratch_base + 3 * index
    if index > 0:
        tl.store(place + 1, block_value.to(tl.uint64, bitcast=True))
        tl.debug_barrier()
        tl.atomic_xchg(place, tl.full([], 1, tl.uint64), sem="release")
    prefix = tl.zeros([], block_value.dtype)
    found = False
    at = index - 1
    while at >= 0:
        flag = tl.atomic_add(scratch_base + 3 * at, 0, sem="acquire")
        while flag == 0:
            flag = tl.atomic_add(scratch_base + 3 * at, 0, sem="acquire")
        value = tl.load(scratch_base + 3 * at + flag.to(tl.int32)).to(block_value.dtype, bitcast=True)
        prefix = combine_fn(value, prefix) if found else value
        found = True
        at = -1 if flag == 2 else at - 1
    whole = combine_fn(prefix, block_value) if found else block_value
    tl.store(place + 2, whole.to(tl.uint64, bitcast=True))
    tl.debug_barrier()
    tl.atomic_xchg(place, tl.full([], 2, tl.uint64), sem="release")
    return prefix

# torch.linalg: norms, and what elimination solves. Loops over rows are gone through when a program is read: each is
# some elementwise work on all of the matrix, so that these are for matrices of up to some hundred rows. Triangular
# systems and Cholesky's factors of more than 16 rows are made of halves, with products.


# ---- norms ----

def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None): return norm(x, ord, dim, keepdim, dtype=dtype)


def linalg_matrix_norm(x, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None):
    rows, columns = [dim_of(x, d) for d in dim]
    if ord == 'fro':
        return norm(x, 2, [rows, columns], keepdim, dtype=dtype)
    if ord in ('nuc', 2, -2):
        prim.fail(f"linalg.matrix_norm with ord={ord}: singular values are not supported; 'fro', 1, -1, inf and -inf are")
    summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = norm(x, 1, [summed], True, dtype=dtype)
    y = amax(sums, [kept], True) if ord > 0 else amin(sums, [kept], True)
    return finish(y, [rows, columns], keepdim)


def linalg_norm(x, ord=None, dim=None, keepdim=False, *, dtype=None):
    if isinstance(dim, (list, tuple)) and len(dim) == 1:
        dim = dim[0]
    is_matrix = isinstance(dim, (list, tuple)) or (dim is None and x.ndim == 2)
    if ord is None or not is_matrix:
        return norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return linalg_matrix_norm(x, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)


# ---- small things ----

def turned(x): return transpose(x, -2, -1)
def linalg_matmul(input, other): return matmul(input, other)
def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1): return diagonal(A, offset, dim1, dim2)
def linalg_vecdot(x, y, *, dim=-1): return sum(x * y, dim)


def linalg_cross(x, y, *, dim=-1):
    x, y = prim.broadcast(x, y)
    return roll(x, -1, dim) * roll(y, -2, dim) - roll(x, -2, dim) * roll(y, -1, dim)


def cross(x, y, dim=-1): return linalg_cross(x, y, dim=dim)


def linalg_multi_dot(tensors):
    y = tensors[0]
    for x in tensors[1:]:
        y = matmul(y, x)
    return y


def linalg_matrix_power(x, n):
    if n < 0:
        return linalg_matrix_power(linalg_inv(x), -n)
    y, have = None, x
    while n > 0:
        if n % 2 == 1:
            y = have if y is None else matmul(y, have)
        n = n // 2
        if n > 0:
            have = matmul(have, have)
    return identities(x, x.shape[-1]) if y is None else y


def matrix_power(x, n): return linalg_matrix_power(x, n)
def identities(like, n): return prim.expand(eye(n, dtype=like.dtype), list(like.shape[:-2]) + [n, n])


def square_matrices(x, what):
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or not isinstance(x.shape[-1], int):
        prim.fail(f"{what} takes square matrices of a known size")
    if x.dtype not in (torch.float32, torch.float64):
        prim.fail(f"{what} takes float32 or float64, as in PyTorch")


# Both with the same leading dims.
def batched(a, b):
    ones = [prim.full(list(x.shape[:-2]), 0, torch.bool) for x in (a, b)]
    batch = list(prim.broadcast(ones[0], ones[1])[0].shape)
    return prim.expand(a, batch + list(a.shape[-2:])), prim.expand(b, batch + list(b.shape[-2:]))


# ---- elimination ----

# Gauss's and Jordan's, with the largest element of each column: [a, b] -> [1, a^-1 b]. The second result are the
# pivots, the third whether rows changed places for them.
def elimination(a, b, safe=False):
    n = a.shape[-1]
    x = a if b is None else cat([a, b], -1)
    rows, pivots, swaps = prim.reshape(arange(n), [n, 1]), [], []
    for k in range(n):
        column = x[..., k:k + 1]
        p = prim.argmax(prim.where(rows < k, -1, prim.abs(column)), [x.ndim - 2])
        source = prim.where(rows == k, p, prim.where(rows == p, k, rows))
        x = gather(x, -2, prim.expand(source, x.shape))
        row = x[..., k:k + 1, :]
        pivot = row[..., k:k + 1]
        pivots.append(pivot)
        swaps.append(p != k)
        row = row / (prim.where(pivot == 0, 1, pivot) if safe else pivot)
        x = prim.where(rows == k, row, x - x[..., k:k + 1] * row)
    return x[..., n:], pivots, swaps


def solve_gradients(g, a, y):
    b = solved(turned(a), g)
    return [-matmul(b, turned(y)), b]


def solved(a, b):
    y = elimination(a, b)[0]
    return prim.differentiate(y, [a, b], lambda g, a, b: solve_gradients(g, a, y))


def linalg_solve(A, B, *, left=True):
    square_matrices(A, "linalg.solve")
    if not left:
        return turned(linalg_solve(turned(A), turned(B)))
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and list(B.shape) == list(A.shape[:-1]))
    A, B = batched(A, unsqueeze(B, -1) if is_vector else B)
    x = solved(A, B)
    return squeeze(x, -1) if is_vector else x


def linalg_inv(A):
    square_matrices(A, "linalg.inv")
    return solved(A, identities(A, A.shape[-1]))


def inverse(x): return linalg_inv(x)
def aten_linalg_inv_ex(x, check_errors=False): return linalg_inv(x), prim.full(list(x.shape[:-2]), 0, torch.int32)


def pivots_of(x, what):
    square_matrices(x, what)
    _, pivots, swaps = elimination(x, None, True)
    if not pivots:
        return prim.full(list(x.shape[:-2]) + [1], 1, x.dtype), prim.full(list(x.shape[:-2]) + [1], False, torch.bool)
    return squeeze(cat(pivots, -1), -2), squeeze(cat(swaps, -1), -2)


def sign_of(swaps): return 1 - 2 * (sum(swaps, -1) % 2)


def linalg_det(A):
    pivots, swaps = pivots_of(A, "linalg.det")
    y = prod(pivots, -1) * sign_of(swaps)
    return prim.differentiate(y, [A], lambda g, A: [unsqueeze(unsqueeze(g * y, -1), -1) * turned(linalg_inv(A))])


def linalg_slogdet(A):
    pivots, swaps = pivots_of(A, "linalg.slogdet")
    signs = prod(sign(pivots), -1) * sign_of(swaps)
    logs = sum(prim.log(prim.abs(pivots)), -1)
    logs = prim.differentiate(logs, [A], lambda g, A: [unsqueeze(unsqueeze(g, -1), -1) * turned(linalg_inv(A))])
    return prim.named('sign logabsdet', prim.detach(signs), logs)


# What gradients would need beside is not there: they are of linalg_det's own rule.
def aten__linalg_det(A): return linalg_det(A), None, None
def aten__linalg_slogdet(A): return (*linalg_slogdet(A), None, None)
def aten__linalg_solve_ex(A, B, *, left=True, check_errors=False): return linalg_solve(A, B, left=left), None, None, prim.full(list(A.shape[:-2]), 0, torch.int32)
def det(x): return linalg_det(x)
def slogdet(x): return linalg_slogdet(x)


def logdet(x):
    s, y = linalg_slogdet(x)
    return prim.where(s < 0, math.nan, y)


# ---- triangular systems ----

def halves(x, n): return x[..., :n, :], x[..., n:, :]


def substitution(a, b, upper, unit):
    n, rows = a.shape[-1], []
    if n > 16:
        h = n // 2
        above, below = halves(b, h)
        if upper:
            below = substitution(a[..., h:, h:], below, upper, unit)
            above = substitution(a[..., :h, :h], above - matmul(a[..., :h, h:], below), upper, unit)
        else:
            above = substitution(a[..., :h, :h], above, upper, unit)
            below = substitution(a[..., h:, h:], below - matmul(a[..., h:, :h], above), upper, unit)
        return cat([above, below], -2)
    for i in range(n):
        k = n - 1 - i if upper else i
        row = b[..., k:k + 1, :]
        if not unit:
            row = row / a[..., k:k + 1, k:k + 1]
        rows.append(row)
        b = b - a[..., k:k + 1] * row
    return cat(rows[::-1] if upper else rows, -2)


def triangular_gradients(g, a, y, upper, unit):
    b = triangular(turned(a), g, not upper, unit)
    of_a = -matmul(b, turned(y))
    return [triu(of_a, int(unit)) if upper else tril(of_a, -int(unit)), b]


def triangular(a, b, upper, unit):
    y = substitution(a, b, upper, unit)
    return prim.differentiate(y, [a, b], lambda g, a, b: triangular_gradients(g, a, y, upper, unit))


def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    square_matrices(A, "linalg.solve_triangular")
    if not left:
        return turned(linalg_solve_triangular(turned(A), turned(B), upper=not upper, unitriangular=unitriangular))
    A, B = batched(A, B)
    return triangular(A, B, upper, unitriangular) if A.shape[-1] else B


def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False):
    a = turned(A) if transpose else A
    return prim.named('solution cloned_coefficient', linalg_solve_triangular(a, b, upper=upper != transpose, unitriangular=unitriangular), clone(A))


# ---- Cholesky's factor ----

def factor(a):
    n = a.shape[-1]
    if n > 16:
        h = n // 2
        first = factor(a[..., :h, :h])
        side = turned(substitution(first, turned(a[..., h:, :h]), False, False))
        last = factor(a[..., h:, h:] - matmul(side, turned(side)))
        return cat([cat([first, zeros_like(turned(side))], -1), cat([side, last], -1)], -2)
    rows, columns = prim.reshape(arange(n), [n, 1]), []
    for k in range(n):
        column = a[..., k:k + 1]
        column = prim.where(rows < k, 0, column / prim.sqrt(column[..., k:k + 1, :]))
        columns.append(column)
        a = a - column * turned(column)
    return cat(columns, -1)


def factor_gradient(g, y):
    p = tril(matmul(turned(y), g))
    p = p - p * (0.5 * eye(y.shape[-1], dtype=y.dtype))
    p = triangular(turned(y), turned(triangular(turned(y), p, True, False)), True, False)
    return (p + turned(p)) * 0.5


def linalg_cholesky(x, *, upper=False):
    square_matrices(x, "linalg.cholesky")
    if x.shape[-1] == 0:
        return clone(x)
    y = factor(x)
    y = prim.differentiate(y, [x], lambda g, x: [factor_gradient(g, y)])
    return turned(y) if upper else y


def aten_linalg_cholesky_ex(x, upper=False, check_errors=False):
    return linalg_cholesky(x, upper=upper), prim.full(list(x.shape[:-2]), 0, torch.int32)


def cholesky(x, upper=False): return linalg_cholesky(x, upper=upper)


def cholesky_solve(b, input2, upper=False):
    y = linalg_solve_triangular(turned(input2) if upper else input2, b, upper=False)
    return linalg_solve_triangular(input2 if upper else turned(input2), y, upper=True)


def cholesky_inverse(l, upper=False): return cholesky_solve(identities(l, l.shape[-1]), l, upper)


def linalg_svd(x, full_matrices=True): prim.fail("linalg.svd is not supported: of decompositions there is cholesky")
def linalg_eigh(x, UPLO='L'): prim.fail("linalg.eigh is not supported: of decompositions there is cholesky")
def linalg_qr(x, mode='reduced'): prim.fail("linalg.qr is not supported: of decompositions there is cholesky")


def linalg_cond(x, p=None):
    if p in (None, 2, -2, 'nuc'):
        prim.fail("linalg.cond by singular values is not supported: p='fro', 1, -1, inf and -inf are")
    return linalg_matrix_norm(x, p) * linalg_matrix_norm(linalg_inv(x), p)


def no_error(x): return prim.full(list(x.shape[:-2]), 0, torch.int32)
def linalg_inv_ex(A, *, check_errors=False): return prim.named('inverse info', linalg_inv(A), no_error(A))
def linalg_cholesky_ex(A, *, upper=False, check_errors=False): return prim.named('L info', linalg_cholesky(A, upper=upper), no_error(A))
def linalg_solve_ex(A, B, *, left=True, check_errors=False): return prim.named('result info', linalg_solve(A, B, left=left), no_error(A))
def linalg_vander(x, *, N=None): return vandermonde(x, arange(x.shape[-1] if N is None else N))


# A's dims are those of B, then those of the unknown.
def linalg_tensorsolve(A, B, dims=None):
    if dims is not None:
        moved = all_dims(A, dims)
        A = permute(A, [d for d in range(A.ndim) if d not in moved] + moved)
    n = prim.numel(B)
    return prim.reshape(linalg_solve(prim.reshape(A, [n, n]), prim.reshape(B, [n])), A.shape[B.ndim:])


def linalg_tensorinv(A, ind=2):
    n = count(A, list(range(ind)))
    return prim.reshape(linalg_inv(prim.reshape(A, [n, n])), list(A.shape[ind:]) + list(A.shape[:ind]))

# torch.linalg: norms, and what elimination solves.
import torch


# x f64[3,4,5]; grad
def norms_of_vectors(x):
    return [torch.linalg.vector_norm(x, p, dim=d, keepdim=k) for p, d, k in [(2, None, False), (1, 1, True), (3.5, (0, 2), False), (float("inf"), -1, False), (-float("inf"), 0, True)]] + [torch.linalg.norm(x), torch.linalg.norm(x[0, 0], 1), torch.norm(x, dim=1), torch.linalg.norm(x, dim=2)]


# x f64[3,4,5]; grad
def norms_of_matrices(x):
    inf = float("inf")
    return [torch.linalg.matrix_norm(x, p, keepdim=p == 1) for p in ["fro", 1, -1, inf, -inf]] + [torch.linalg.matrix_norm(x, 1, dim=(0, 2)), torch.linalg.norm(x[0], 1), torch.linalg.norm(x, "fro", dim=(0, 1))]


# x f64[6]
def number_of_nonzeros(x):
    return torch.linalg.vector_norm(torch.where(x > 0, x, 0), 0)


# a f64[2,5,5], b f64[2,5,3], v f64[5]; grad
def solutions(a, b, v):
    a = a + 3 * torch.eye(5, dtype=a.dtype)
    return torch.linalg.solve(a, b), torch.linalg.solve(a[0], v), torch.linalg.solve(a, b[:, :, 0]), torch.linalg.solve(a, b.mT, left=False), torch.linalg.solve(a[0], b)


# a f64[2,4,4]; grad
def inverses(a):
    return torch.linalg.inv(a), torch.inverse(a[0]), a.inverse(), torch.linalg.inv(a.mT @ a + torch.eye(4, dtype=a.dtype))


# a f64[3,4,4]; grad
def determinants(a):
    s, l = torch.linalg.slogdet(a)
    return torch.linalg.det(a), a[0].det(), s, l, torch.logdet(a @ a.mT), torch.slogdet(a)[1] * 2


# a f64[2,5,5]
def singular(a):
    return torch.linalg.det(torch.cat([a[:, :4], a[:, :1]], 1)), torch.linalg.det(torch.zeros(3, 3, dtype=a.dtype))


# a f64[2,20,20], b f64[2,20,3]; grad
def triangular(a, b):
    l = a.tril() + 4 * torch.eye(20, dtype=a.dtype)
    return torch.linalg.solve_triangular(l, b, upper=False)


# a f64[2,4,4], b f64[2,4,3]; grad
def triangular_ways(a, b):
    l = a.tril() + 4 * torch.eye(4, dtype=a.dtype)
    u = a.triu() + 4 * torch.eye(4, dtype=a.dtype)
    return torch.linalg.solve_triangular(l, b, upper=False), torch.linalg.solve_triangular(u, b, upper=True), torch.linalg.solve_triangular(l, b.mT, upper=False, left=False), torch.linalg.solve_triangular(l * 0.2, b, upper=False, unitriangular=True), torch.linalg.solve_triangular(u[:, :3, :3], b[:, :3], upper=True)


# a f64[19,19]; grad
def cholesky(a):
    return torch.linalg.cholesky(a @ a.mT + 2 * torch.eye(19, dtype=a.dtype))


# a f64[2,5,5]; grad
def cholesky_of_batches(a):
    p = a @ a.mT + 2 * torch.eye(5, dtype=a.dtype)
    l = torch.linalg.cholesky(p)
    return torch.linalg.cholesky(p, upper=True), torch.cholesky_solve(a[:, :, :2], l), torch.cholesky_inverse(l[1])


# a f64[3,3], b f64[3,4], c f64[4,2]; grad
def products(a, b, c):
    return torch.linalg.multi_dot([a, b, c]), torch.linalg.matrix_power(a, 5), torch.matrix_power(a, 0), torch.linalg.matrix_power(a, -2), torch.linalg.vecdot(b, b), torch.linalg.cross(a, a.mT)


# error linalg.svd is not supported: of decompositions there is cholesky
# a f64[3,3]
def singular_values(a):
    return torch.linalg.svd(a)[1]


# error singular values are not supported; 'fro', 1, -1, inf and -inf are
# a f64[3,3]
def nuclear_norm(a):
    return torch.linalg.matrix_norm(a, "nuc")

"""Products of odd forms."""
import torch
import torch.nn.functional as F


# a f64[3,4], b f64[4,5], m f64[4,4], s f64[2,3,3]; grad
def einsums(a, b, m, s):
    return [torch.einsum("ii->i", m), torch.einsum("ii", m), torch.einsum("bii->b", s), torch.einsum("bij,bjj->bi", s, s), torch.einsum("i...,...j->j...i", b.t()[0], s[0, 0]),
            torch.einsum("...ij,...jk->...ik", s, s.transpose(1, 2)), torch.einsum("ij,...j", a, m), torch.einsum(a, [0, 1], b, [1, 2], [2, 0]), torch.einsum(s, [..., 0, 1], [..., 1, 0]),
            torch.einsum("b i j , i k -> b k j", s, a), torch.einsum("ij,jk", a, b), torch.einsum("ij,kj->ik", a[:, :1], m), torch.einsum("iij,jk->ik", s[:1].expand(3, 3, 3), a)]


# a f64[3,4,5], b f64[5,4,2], u f64[3], v f64[4], w f64[3,4]; grad
def contracted(a, b, u, v, w):
    return [torch.tensordot(a, b.transpose(0, 1), 2) if False else torch.tensordot(a, b, dims=([1, 2], [1, 0])), torch.tensordot(u, v, 0), torch.tensordot(a, b, 1), torch.kron(w, b[0]),
            torch.inner(w, v), torch.inner(a, b.permute(2, 1, 0).reshape(8, 5)), torch.addmv(u, w, v, beta=0.5, alpha=2), torch.addr(w, u, v, alpha=3), torch.ger(u, v),
            torch.addbmm(b[0], a.permute(2, 1, 0)[:, :, :3], a[:, :2, :].permute(2, 0, 1)), torch.chain_matmul(w, v[:, None], v[None]), F.bilinear(w, a[:, 0], a[:2].permute(0, 1, 2))]


# a i64[3,4], b i64[4,5], c i8[3,4], d i8[2,4,3]
def of_integers(a, b, c, d):
    return a @ b, torch.mm(c.int(), b.int()), d @ c, torch.einsum("ij,jk->ik", a, b), a @ b[:, 0], torch.tensordot(a, b, 1)


# a f64[2,30,4], b f64[2,6,4]; grad
def distances(a, b):
    return [torch.cdist(a, b), torch.cdist(a[0], b[1], p=1), torch.cdist(a, b, p=float("inf")), torch.cdist(a, b, p=3.0), torch.cdist(a[0], b[0], compute_mode="use_mm_for_euclid_dist"),
            torch.cdist(a, a)[:, :2, 2:5]]


# a f64[40,70], b f64[30,70]
def long_distances(a, b):
    return torch.cdist(a, b)

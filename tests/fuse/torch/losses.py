# Losses.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[4,5], y f64[4,5]; grad
def regressions(x, y):
    return [f(x, y, reduction=r) for f in [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss] for r in ["mean", "sum", "none"]]


# x f64[6,5], n i64[6]<5, w f64+[5]; grad
def cross_entropies(x, n, w):
    return F.cross_entropy(x, n), F.cross_entropy(x, n, weight=w.detach(), reduction="sum"), F.cross_entropy(x, n, label_smoothing=0.1), F.cross_entropy(x, n, ignore_index=2), F.nll_loss(F.log_softmax(x, 1), n, reduction="none"), F.cross_entropy(x, torch.softmax(x * 2, 1))


# x f64[2,3,4,2], n i64[2,4,2]<3; grad
def cross_entropy_of_images(x, n):
    return F.cross_entropy(x, n), F.nll_loss(x, n)


# x f64[4,3], n f64+[4,3], w f64+[3]; grad
def binary(x, n, w):
    y = (n - 0.5).detach()
    return F.binary_cross_entropy_with_logits(x, y), F.binary_cross_entropy(torch.sigmoid(x), y, weight=w.detach()), F.binary_cross_entropy_with_logits(x, y, pos_weight=w.detach(), reduction="sum"), F.soft_margin_loss(x, y)


# x f64[4,5], y f64[4,5]; grad
def divergences(x, y):
    p, q = F.log_softmax(x, 1), torch.softmax(y, 1)
    return F.kl_div(p, q, reduction="batchmean"), F.kl_div(p, q.log(), log_target=True), F.poisson_nll_loss(x, q), F.gaussian_nll_loss(x, y, q)


# x f64[4,5], y f64[4,5], z f64[4,5], n i64[4]<5; grad
def margins(x, y, z, n):
    s = torch.where(y[:, 0] > 0, 1.0, -1.0).to(x.dtype)
    return F.margin_ranking_loss(x[:, 0], y[:, 0], s, margin=0.3), F.triplet_margin_loss(x, y, z), F.cosine_embedding_loss(x, y, s), F.hinge_embedding_loss(x, torch.where(y > 0, 1, -1)), F.multi_margin_loss(x, n), F.cosine_similarity(x, y), F.pairwise_distance(x, y)


# x f64[7,3,5], y i64[3,3]<4, n i64[3]<3, m i64[3]<2; grad
def ctc(x, y, n, m):
    p = x.log_softmax(2)
    return F.ctc_loss(p, y + 1, n + 5, m + 1), F.ctc_loss(p, y + 1, (7, 6, 5), (3, 0, 2), reduction="none"), F.ctc_loss(p, (y + 1).flatten()[:5], (7, 7, 7), (2, 1, 2), reduction="sum"), F.ctc_loss(p[:2], y + 1, (2, 2, 2), (3, 1, 2), reduction="sum", zero_infinity=True), F.ctc_loss(p[:, 0], y[0, :2] + 1, torch.tensor(7), torch.tensor(2))


# x f64[4,2,3], y i64[2,2]<2; grad
def ctc_of_what_is_not_normalized(x, y):
    return F.ctc_loss(x, y, (4, 3), (1, 2), blank=2), nn.CTCLoss(blank=2, reduction="sum")(x, y, (4, 4), (2, 2))

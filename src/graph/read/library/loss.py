# Losses.


def picked(target, n): return unsqueeze(target, 1) == prim.reshape(arange(n), [1, -1] + [1] * (target.ndim - 1))


def nll_loss_forward(x, target, weight, reduction, ignore_index):
    if x.ndim == 1:
        x, target = unsqueeze(x, 0), unsqueeze(target, 0)
    kept = target != ignore_index
    hit = picked(target, x.shape[1])
    w = prim.full([x.shape[1]], 1, x.dtype) if weight is None else weight
    each = prim.sum(prim.where(hit, x * channels(x, w), 0).to(x.dtype), [1])
    weights = prim.sum(prim.where(hit, channels(x, w), 0).to(x.dtype), [1])
    each, weights = without(each, [1]), without(weights, [1])
    among = aten_index(arange(x.shape[1]), [prim.where(kept, target, 0)], False) >= 0  # or a kernel fails
    each = prim.where(kept & among, -each, 0).to(x.dtype)
    total = sum(prim.where(kept, weights, 0).to(x.dtype))
    if reduction == 0:
        return each, prim.full([], 0, x.dtype)
    return (sum(each) / total if reduction == 1 else sum(each)), total


def nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    g = -grad / total_weight if reduction == 1 else -grad
    if reduction == 0:
        g = unsqueeze(g, 1)
    hit = picked(target, x.shape[1]) & unsqueeze(target != ignore_index, 1)
    w = 1 if weight is None else channels(x, weight)
    return prim.where(hit, g * w, 0).to(x.dtype)


REDUCTIONS = {'none': 0, 'mean': 1, 'sum': 2}


def nll_loss(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
    return nll_loss_forward(x, target, weight, REDUCTIONS[reduction], ignore_index)[0]


def cross_entropy(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0):
    d = 1 if x.ndim > 1 else 0
    logs = log_softmax(x, d)
    if prim.is_float(target.dtype):  # a distribution each
        target = target * (1 - label_smoothing) + label_smoothing / x.shape[d] if label_smoothing else target
        w = 1 if weight is None else channels(x, weight) if d else weight
        each = -sum(logs * target * w, d)
        return sum(each) / (prim.numel(each)) if reduction == 'mean' else reduced(each, reduction)
    hard = nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    if not label_smoothing:
        return hard
    kept = target != ignore_index
    soft = -sum(logs if weight is None else logs * (channels(x, weight) if d else weight), d)
    soft = prim.where(kept, soft, 0).to(x.dtype)
    if reduction == 'mean':
        shares = prim.convert(kept, x.dtype)
        shares = sum(shares if weight is None else shares * gather_1d(weight, prim.where(kept, target, 0)))
        soft = sum(soft) / shares
    elif reduction == 'sum':
        soft = sum(soft)
    return hard * (1 - label_smoothing) + soft * (label_smoothing / x.shape[d])


def gather_1d(x, index): return aten_index(x, [index])


# A mean with weights divides by their sum.
def weighted(x, weight, reduction):
    if weight is None:
        return reduced(x, reduction)
    x = x * weight
    return sum(x) / sum(prim.expand(weight, x.shape)) if reduction == 'mean' else reduced(x, reduction)


def reduced(x, reduction): return x if reduction == 'none' else mean(x) if reduction == 'mean' else sum(x)
def mse_loss(x, target, size_average=None, reduce=None, reduction='mean', weight=None): return weighted(square(x - target), weight, reduction)
def l1_loss(x, target, size_average=None, reduce=None, reduction='mean', weight=None): return weighted(prim.abs(x - target), weight, reduction)


def smooth_l1_loss(x, target, size_average=None, reduce=None, reduction='mean', beta=1.0):
    d = prim.abs(x - target)
    return reduced(prim.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta), reduction)


# ---- modules ----

# A tensor among what a loss is made with is a buffer of its name; without one it is the weight of classes.
class Loss(Module):
    def __init__(self, *args, **how):
        self.args, self.how, self.held = [], {}, []
        for v in args:
            self.args.append(None if isinstance(v, torch.Tensor) else v)
        for name, v in [('weight', v) for v in args if isinstance(v, torch.Tensor)] + [(k, how[k]) for k in how]:
            if isinstance(v, torch.Tensor):
                self.register_buffer(name, v)
                self.held.append(name)
            else:
                self.how[name] = v
        self.place = [i for i, v in enumerate(args) if isinstance(v, torch.Tensor)]

    inputs = ['input', 'target', 'var']

    def forward(self, *x, **named):
        x = list(x) + [named[n] for n in self.inputs[len(x):] if n in named]
        args, how = list(self.args), dict(self.how)
        for i in self.place:
            args[i] = self.weight
        for name in self.held[len(self.place):]:
            how[name] = getattr(self, name)
        return self.call(*x, *args, **how)


class CrossEntropyLoss(Loss):
    def call(self, *x, **how): return cross_entropy(*x, **how)


class NLLLoss(Loss):
    def call(self, *x, **how): return nll_loss(*x, **how)


class MSELoss(Loss):
    def call(self, *x, **how): return mse_loss(*x, **how)


class L1Loss(Loss):
    def call(self, *x, **how): return l1_loss(*x, **how)


class SmoothL1Loss(Loss):
    def call(self, *x, **how): return smooth_l1_loss(*x, **how)


class HuberLoss(Loss):
    def call(self, *x, **how): return huber_loss(*x, **how)


class KLDivLoss(Loss):
    def call(self, *x, **how): return kl_div(*x, **how)


class BCELoss(Loss):
    def call(self, *x, **how): return binary_cross_entropy(*x, **how)


class BCEWithLogitsLoss(Loss):
    def call(self, *x, **how): return binary_cross_entropy_with_logits(*x, **how)


class TripletMarginLoss(Loss):
    inputs = ['anchor', 'positive', 'negative']
    def call(self, *x, **how): return triplet_margin_loss(*x, **how)


def huber_loss(x, target, reduction='mean', delta=1.0, weight=None):
    d = prim.abs(x - target)
    y = prim.where(d < delta, d * d * 0.5, (d - 0.5 * delta) * delta)
    return reduced(y if weight is None else y * weight, reduction)


def kl_div(x, target, size_average=None, reduce=None, reduction='mean', log_target=False):
    each = prim.exp(target) * (target - x) if log_target else prim.where(target > 0, target * prim.log(prim.where(target > 0, target, 1)), 0).to(target.dtype) - target * x
    return sum(each) / x.shape[0] if reduction == 'batchmean' else reduced(each, reduction)


def binary_cross_entropy(x, target, weight=None, size_average=None, reduce=None, reduction='mean'):
    yes, no = prim.maximum(prim.log(x), -100), prim.maximum(prim.log(1 - x), -100)
    slope = (x - target) / prim.maximum((1 - x) * x, 1e-12)
    each = prim.detach(-(target * yes + (1 - target) * no), x * prim.detach(slope) + target * prim.detach(no - yes))
    return reduced(each if weight is None else each * weight, reduction)


def binary_cross_entropy_with_logits(x, target, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None):
    if pos_weight is None:
        each = prim.maximum(x, 0) - x * target + prim.log1p(prim.exp(-prim.abs(x)))
    else:
        each = (1 - target) * x + ((pos_weight - 1) * target + 1) * (prim.log1p(prim.exp(-prim.abs(x))) + prim.maximum(-x, 0))
    return reduced(each if weight is None else each * weight, reduction)


def soft_margin_loss(x, target, size_average=None, reduce=None, reduction='mean'): return reduced(softplus(-target * x), reduction)


def hinge_embedding_loss(x, target, margin=1.0, size_average=None, reduce=None, reduction='mean'):
    return reduced(prim.where(target == -1, relu(margin - x), 0).to(x.dtype) + prim.where(target == 1, x, 0).to(x.dtype), reduction)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'):
    return reduced(clamp_min(-target * (input1 - input2) + margin, 0), reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'):
    c = sum(input1 * input2, -1) / prim.sqrt((sum(input1 * input1, -1) + 1e-12) * (sum(input2 * input2, -1) + 1e-12))
    return reduced(prim.where(target == 1, 1 - c, 0).to(c.dtype) + prim.where(target == -1, clamp_min(c - margin, 0), 0).to(c.dtype), reduction)


def poisson_nll_loss(x, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction='mean'):
    each = prim.exp(x) - target * x if log_input else x - target * prim.log(x + eps)
    if full:
        large = prim.where(target > 1, target, 2)
        each = each + prim.where(target > 1, large * prim.log(large) - large + 0.5 * prim.log(large * (2 * math.pi)), 0)
    return reduced(each, reduction)


def gaussian_nll_loss(x, target, var, full=False, eps=1e-06, reduction='mean'):
    if isinstance(var, float):
        var = full_like(x, var)
    elif var.ndim + 1 == x.ndim:
        var = unsqueeze(var, -1)
    v = prim.detach(prim.maximum(var, eps), var)
    return reduced(0.5 * (prim.log(v) + square(x - target) / v) + (0.5 * math.log(2 * math.pi) if full else 0), reduction)


def multilabel_soft_margin_loss(x, target, weight=None, size_average=None, reduce=None, reduction='mean'):
    each = -(target * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    return reduced(mean(each if weight is None else each * weight, -1), reduction)


def multi_margin_loss(x, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'):
    if x.ndim == 1:
        x, target = unsqueeze(x, 0), prim.reshape(target, [1])
    hit = unsqueeze(target, 1) == arange(x.shape[1])
    d = clamp_min(margin - prim.sum(prim.where(hit, x, 0).to(x.dtype), [1]) + x, 0)
    d = (d * d if p == 2 else d) * (1 if weight is None else unsqueeze(gather_1d(weight, target), 1))
    return reduced(sum(prim.where(hit, 0, d).to(x.dtype), 1) / x.shape[1], reduction)


def multilabel_margin_loss(x, target, size_average=None, reduce=None, reduction='mean'):
    if x.ndim == 1:
        return multilabel_margin_loss(unsqueeze(x, 0), unsqueeze(target, 0), None, None, 'mean' if reduction == 'none' else reduction)
    n = x.shape[1]
    there = prim.cumsum(prim.convert(target < 0, torch.int64), 1) == 0  # targets end at the first -1
    hit = unsqueeze(prim.where(there, target, -1), 2) == arange(n)  # [N, target, class]
    is_target = unsqueeze(any(hit, 1), 1)
    own = prim.sum(prim.where(hit, unsqueeze(x, 1), 0).to(x.dtype), [2])
    each = prim.where(unsqueeze(there, 2) & ~is_target, clamp_min(1 - own + unsqueeze(x, 1), 0), 0).to(x.dtype)
    return reduced(sum(each, [1, 2]) / n, reduction)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction='mean'):
    f = pairwise_distance if distance_function is None else distance_function
    near, far = f(anchor, positive), f(anchor, negative)
    far = prim.minimum(far, f(positive, negative)) if swap else far
    return reduced(clamp_min(near - far + margin, 0), reduction)


def pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False): return norm(x1 - x2 + eps, p, -1, keepdim)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, size_average=None, reduce=None, reduction='mean'):
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = prim.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(relu(near - far + margin), reduction)


class SoftMarginLoss(Loss):
    def call(self, *x, **how): return soft_margin_loss(*x, **how)


class HingeEmbeddingLoss(Loss):
    def call(self, *x, **how): return hinge_embedding_loss(*x, **how)


class MarginRankingLoss(Loss):
    inputs = ['input1', 'input2', 'target']
    def call(self, *x, **how): return margin_ranking_loss(*x, **how)


class CosineEmbeddingLoss(Loss):
    inputs = ['input1', 'input2', 'target']
    def call(self, *x, **how): return cosine_embedding_loss(*x, **how)


class PoissonNLLLoss(Loss):
    inputs = ['log_input', 'target']
    def call(self, *x, **how): return poisson_nll_loss(*x, **how)


class GaussianNLLLoss(Loss):
    def call(self, *x, **how): return gaussian_nll_loss(*x, **how)


class MultiLabelSoftMarginLoss(Loss):
    def call(self, *x, **how): return multilabel_soft_margin_loss(*x, **how)


class MultiMarginLoss(Loss):
    def call(self, *x, **how): return multi_margin_loss(*x, **how)


class MultiLabelMarginLoss(Loss):
    def call(self, *x, **how): return multilabel_margin_loss(*x, **how)


class TripletMarginWithDistanceLoss(Loss):
    inputs = ['anchor', 'positive', 'negative']
    def call(self, *x, **how): return triplet_margin_with_distance_loss(*x, **how)


# ---- connectionist temporal classification ----

# log of the sum of exp, where all may be -inf; a reduction, so that steps of a loop do not grow into each other.
def log_of_sum(parts):
    x = stack(parts, 2)
    m = prim.max(x, [2])
    none = m == -math.inf
    m = prim.where(none, 0, m)
    return without(prim.where(none, -math.inf, prim.log(prim.sum(prim.exp(x - m), [2])) + m), [2])


# x[:, i - n], and -inf where there is none.
def moved(x, n):
    if n >= x.shape[1] or -n >= x.shape[1]:
        return prim.full(x.shape, -math.inf, x.dtype)
    return prim.pad(x[:, :-n], [0, n], [0, 0], [0, 0], -math.inf) if n > 0 else prim.pad(x[:, -n:], [0, 0], [0, -n], [0, 0], -math.inf)


def lengths_of(x, n): return prim.reshape(x if isinstance(x, torch.Tensor) else tensor(list(x)), [n, 1])


# alpha of each step: the logarithm of the probability of all ways to have come to that mark. beta: of all from there on.
def ways_there(each, jumps, ends, letters):
    place, alphas = arange(each.shape[2]), []
    for t in range(each.shape[0]):
        if t == 0:
            alpha = prim.where((place < 2) & (place <= 2 * letters), each[0], -math.inf)
        else:
            on = t < ends
            ways = [alpha, prim.where(on, moved(alpha, 1), -math.inf), prim.where(on & jumps, moved(alpha, 2), -math.inf)]
            alpha = log_of_sum(ways) + prim.where(on, each[t], 0)
        alphas.append(alpha)
    return alphas


def ways_on(each, jumps, ends, letters):
    place, betas, beta = arange(each.shape[2]), [], prim.full(each[0].shape, -math.inf, each.dtype)
    last = (place == 2 * letters) | (place == 2 * letters - 1)
    jumps = prim.where(jumps, 0, -math.inf).to(each.dtype)
    for i in range(each.shape[0]):
        t = each.shape[0] - 1 - i
        begin = prim.where(last & (t == ends - 1), prim.full([], 0, each.dtype), -math.inf)
        beta = log_of_sum([beta, moved(beta, -1), moved(beta + jumps, -2), begin]) + each[t]
        betas.append(beta)
    return betas[::-1]


# PyTorch takes the probabilities for normalized: the gradient is theirs less what the text makes of them.
def ctc_gradient(g, x, loss, alphas, marks, each, jumps, ends, letters):
    steps, n = x.shape[0], x.shape[1]
    ways = stack(alphas, 0) + stack(ways_on(each, jumps, ends, letters), 0)
    share = prim.where(ways == -math.inf, 0, prim.exp(ways - each + prim.reshape(loss, [1, n, 1])))
    shares = prim.scatter_add(zeros_like(x), marks, share, 2)
    inside = unsqueeze(unsqueeze(arange(steps), 1) < prim.reshape(ends, [1, n]), 2)
    return prim.where(inside, (prim.exp(x) - shares) * prim.reshape(g, [1, n, 1]), 0)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', zero_infinity=False):
    if log_probs.ndim == 2:
        ends, letters = [x if isinstance(x, torch.Tensor) else tensor(x) for x in (input_lengths, target_lengths)]
        return squeeze(ctc_loss(unsqueeze(log_probs, 1), unsqueeze(targets, 0), ends, letters, blank, 'sum' if reduction == 'none' else reduction, zero_infinity), 0)
    steps, n, _ = log_probs.shape
    if not isinstance(steps, int):
        prim.fail("ctc_loss takes a known number of steps")
    ends, letters = lengths_of(input_lengths, n), lengths_of(target_lengths, n)
    if targets.ndim == 1:  # all in one row
        most = targets.shape[0] if isinstance(target_lengths, torch.Tensor) else sorted(target_lengths)[-1]
        at = minimum(cumsum(letters, 0) - letters + arange(most), targets.shape[0] - 1)
        targets = prim.reshape(gather(targets, 0, prim.reshape(at, [-1])), [n, most])
    most = targets.shape[1]
    one = prim.full([n, 1], blank, torch.int64)
    marks = cat([prim.reshape(stack([prim.expand(one, [n, most]), prim.convert(targets, torch.int64)], 2), [n, 2 * most]), one], 1)
    place = arange(2 * most + 1)
    marks = prim.where(place < 2 * letters + 1, marks, blank)  # what stands after the text may be no letter
    before = prim.pad(marks[:, :-2], [0, 2], [0, 0], [0, 0], blank) if most else marks
    jumps = (marks != blank) & (marks != before) & (place >= 2)
    every = prim.expand(unsqueeze(marks, 0), [steps] + list(marks.shape))
    each = gather(log_probs, 2, every)
    alphas = ways_there(each, jumps, ends, letters)
    last = [gather(alphas[-1], 1, 2 * letters), prim.where(letters > 0, gather(alphas[-1], 1, clamp_min(2 * letters - 1, 0)), -math.inf)]
    loss = prim.reshape(-log_of_sum(last), [n])
    loss = prim.differentiate(loss, [log_probs], lambda g, x: [ctc_gradient(g, x, loss, alphas, every, each, jumps, ends, letters)])
    if zero_infinity:
        loss = prim.where(loss == math.inf, 0, loss)
    if reduction == 'mean':
        return mean(loss / prim.reshape(clamp_min(letters, 1), [n]))
    return reduced(loss, reduction)


class CTCLoss(Module):
    def __init__(self, blank=0, reduction='mean', zero_infinity=False):
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)


class NLLLoss2d(NLLLoss):
    pass


# Frequent classes have scores of their own, the others share one for each cluster, which has a smaller product.
class AdaptiveLogSoftmaxWithLoss(Module):
    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        self.cutoffs, self.n_classes = list(cutoffs) + [n_classes], n_classes
        self.head = Linear(in_features, self.cutoffs[0] + len(cutoffs), bias=head_bias)
        self.tail = ModuleList()
        for i in range(len(cutoffs)):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(Linear(in_features, width, bias=False), Linear(width, self.cutoffs[i + 1] - self.cutoffs[i], bias=False)))

    def log_prob(self, x):
        head, n = log_softmax(self.head(x), 1), self.cutoffs[0]
        parts = [head[:, :n]]
        for i, tail in enumerate(self.tail):
            parts.append(log_softmax(tail(x), 1) + head[:, n + i:n + i + 1])
        return cat(parts, 1)

    def predict(self, x): return argmax(self.log_prob(x), 1)

    def forward(self, input_, target_):
        x, target = input_, target_
        logs = self.log_prob(x if x.ndim > 1 else unsqueeze(x, 0))
        picked = squeeze(gather(logs, 1, unsqueeze(target if x.ndim > 1 else unsqueeze(target, 0), 1)), 1)
        return prim.named('output loss', picked if x.ndim > 1 else squeeze(picked, 0), -mean(picked))

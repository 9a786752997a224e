# torch.optim: a step is part of the program. What an optimizer keeps from step to step is an input of the graph that is
# written when the program ends, named as in its state_dict ("state.0.exp_avg"); before the first step it is zero.


class Optimizer:
    def __init__(self, params, **defaults):
        items = list(params)
        groups = items if items and isinstance(items[0], dict) else [{'params': items}]
        self.param_groups, self.state, n = [], {}, 0
        for g in groups:
            group = {**defaults, **g}
            group['params'] = [prim.view_as_real(p) if prim.is_complex(p) else p for p in group['params']]
            group['first'] = n
            for p in group['params']:
                self.state[n] = self.start(p, group, f"state.{n}.")
                n = n + 1
            self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group['params']:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.zero_()

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for i, p in enumerate(group['params']):
                if p.grad is not None:
                    g = p.grad.detach()
                    prim.assign(p, self.update(p.detach(), -g if group['maximize'] else g, group, self.state[group['first'] + i]))
        return loss


class optim_SGD(Optimizer):
    def __init__(self, params, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, **how):
        super().__init__(params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize)

    def start(self, p, group, name):
        kept = {'momentum_buffer': prim.state(p.shape, p.dtype, name + 'momentum_buffer')} if group['momentum'] != 0 else {}
        if kept and group['dampening'] != 0:
            kept['step'] = prim.state([], torch.float32, name + 'step')
        return kept

    def update(self, p, g, group, kept):
        if group['weight_decay'] != 0:
            g = g + p * group['weight_decay']
        if group['momentum'] != 0:
            damped = g
            if group['dampening'] != 0:  # not the first time
                damped = g * prim.where(kept['step'] > 0, 1 - group['dampening'], 1)
                prim.assign(kept['step'], kept['step'] + 1)
            m = kept['momentum_buffer'] * group['momentum'] + damped
            prim.assign(kept['momentum_buffer'], m)
            g = g + m * group['momentum'] if group['nesterov'] else m
        return p - g * group['lr']


# 1 - beta ** step, of which f32 loses no digits where it is small.
def power_less(beta, step): return -prim.expm1(step * math.log(beta)) if beta > 0 else 1


class optim_Adam(Optimizer):
    decoupled = False  # weight decay apart from the gradient

    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False, *, maximize=False, **how):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)

    def start(self, p, group, name):
        kept = {'step': prim.state([], torch.float32, name + 'step')}
        for what in ['exp_avg', 'exp_avg_sq'] + (['max_exp_avg_sq'] if group['amsgrad'] else []):
            kept[what] = prim.state(p.shape, p.dtype, name + what)
        return kept

    def update(self, p, g, group, kept):
        b1, b2 = group['betas']
        decay = group['weight_decay']
        if decay != 0 and not self.decoupled:
            g = g + p * decay
        if decay != 0 and self.decoupled:
            p = p * (1 - group['lr'] * decay)
        step = kept['step'] + 1
        m = kept['exp_avg'] + (g - kept['exp_avg']) * (1 - b1)
        v = kept['exp_avg_sq'] * b2 + g * g * (1 - b2)
        prim.assign(kept['step'], step)
        prim.assign(kept['exp_avg'], m)
        prim.assign(kept['exp_avg_sq'], v)
        if group['amsgrad']:
            v = prim.maximum(kept['max_exp_avg_sq'], v)
            prim.assign(kept['max_exp_avg_sq'], v)
        size = group['lr'] / power_less(b1, step)
        return p - size * m / (prim.sqrt(v) / prim.sqrt(power_less(b2, step)) + group['eps'])


class optim_AdamW(optim_Adam):
    decoupled = True

    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False, **how):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **how)


# Optimizers that keep the running averages `keeps` beside their number of steps, and go by rule().
class Averaging(Optimizer):
    def __init__(self, params, **defaults):
        super().__init__(params, **defaults)

    def start(self, p, group, name):
        kept = {'step': prim.state([], torch.float32, name + 'step')}
        for what in self.keeps(group):
            kept[what] = prim.state(p.shape, p.dtype, name + what)
        return kept

    def update(self, p, g, group, kept):
        decay = group['weight_decay']
        if decay != 0 and group.get('decoupled_weight_decay', False):
            p = p * (1 - group['lr'] * decay)
        elif decay != 0:
            g = g + p * decay
        step = kept['step'] + 1
        prim.assign(kept['step'], step)
        return self.rule(p, g, step, group, kept)

    def average(self, kept, what, value, beta):
        new = kept[what] * beta + value * (1 - beta)
        prim.assign(kept[what], new)
        return new


class optim_RMSprop(Averaging):
    def __init__(self, params, lr=0.01, alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, centered=False, capturable=False, foreach=None, maximize=False, **how):
        super().__init__(params, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered, maximize=maximize)

    def keeps(self, group): return ['square_avg'] + (['momentum_buffer'] if group['momentum'] > 0 else []) + (['grad_avg'] if group['centered'] else [])

    def rule(self, p, g, step, group, kept):
        v = self.average(kept, 'square_avg', g * g, group['alpha'])
        if group['centered']:
            m = self.average(kept, 'grad_avg', g, group['alpha'])
            v = v - m * m
        d = g / (prim.sqrt(v) + group['eps'])
        if group['momentum'] > 0:
            d = kept['momentum_buffer'] * group['momentum'] + d
            prim.assign(kept['momentum_buffer'], d)
        return p - d * group['lr']


# What is kept is zero before the first step; where PyTorch begins with something else, the first step takes that.
class optim_NAdam(Averaging):
    def __init__(self, params, lr=0.002, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, momentum_decay=0.004, decoupled_weight_decay=False, *, foreach=None, maximize=False, **how):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay, maximize=maximize)

    def start(self, p, group, name):
        return {**super().start(p, group, name), 'mu_product': prim.state([], torch.float32, name + 'mu_product')}

    def keeps(self, group): return ['exp_avg', 'exp_avg_sq']
    def mu(self, step, group): return group['betas'][0] * (1 - 0.5 * prim.exp(step * (group['momentum_decay'] * math.log(0.96))))

    def rule(self, p, g, step, group, kept):
        b1, b2 = group['betas']
        mu, next = self.mu(step, group), self.mu(step + 1, group)
        product = prim.where(step == 1, 1, kept['mu_product']) * mu
        prim.assign(kept['mu_product'], product)
        m, v = self.average(kept, 'exp_avg', g, b1), self.average(kept, 'exp_avg_sq', g * g, b2)
        d = prim.sqrt(v / power_less(b2, step)) + group['eps']
        return p - (g * ((1 - mu) / (1 - product)) + m * (next / (1 - product * next))) / d * group['lr']


class optim_ASGD(Averaging):
    def __init__(self, params, lr=0.01, lambd=0.0001, alpha=0.75, t0=1000000.0, weight_decay=0, foreach=None, maximize=False, **how):
        super().__init__(params, lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, maximize=maximize)

    def start(self, p, group, name):
        return {**super().start(p, group, name), **{k: prim.state([], torch.float32, name + k) for k in ['eta', 'mu']}}

    def keeps(self, group): return ['ax']

    def rule(self, p, g, step, group, kept):
        lr, lambd = group['lr'], group['lambd']
        eta, mu = prim.where(step == 1, lr, kept['eta']), prim.where(step == 1, 1, kept['mu'])
        p = p * (1 - lambd * eta) - g * eta
        prim.assign(kept['ax'], prim.where(mu == 1, p, kept['ax'] + (p - kept['ax']) * mu))
        prim.assign(kept['eta'], lr / prim.pow(1 + lambd * lr * step, group['alpha']))
        prim.assign(kept['mu'], 1 / prim.maximum(step - group['t0'], 1))
        return p


class optim_Rprop(Averaging):
    def __init__(self, params, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-06, 50), *, foreach=None, maximize=False, **how):
        super().__init__(params, lr=lr, etas=etas, step_sizes=step_sizes, weight_decay=0, maximize=maximize)

    def keeps(self, group): return ['prev', 'step_size']

    def rule(self, p, g, step, group, kept):
        turn, (less, more), (least, most) = g * kept['prev'], group['etas'], group['step_sizes']
        size = prim.where(step == 1, group['lr'], kept['step_size']) * prim.where(turn < 0, less, prim.where(turn > 0, more, 1))
        size = prim.minimum(prim.maximum(size, least), most)
        g = prim.where(turn < 0, 0, g)
        prim.assign(kept['prev'], g)
        prim.assign(kept['step_size'], size)
        return p - sign(g) * size


class optim_Adagrad(Averaging):
    def __init__(self, params, lr=0.01, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False, **how):
        super().__init__(params, lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps, maximize=maximize)

    def keeps(self, group): return ['sum']

    def rule(self, p, g, step, group, kept):
        total = prim.where(step == 1, group['initial_accumulator_value'], kept['sum']) + g * g
        prim.assign(kept['sum'], total)
        return p - g / (prim.sqrt(total) + group['eps']) * (group['lr'] / (1 + (step - 1) * group['lr_decay']))


class optim_Adadelta(Averaging):
    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-06, weight_decay=0, foreach=None, *, maximize=False, **how):
        super().__init__(params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)

    def keeps(self, group): return ['square_avg', 'acc_delta']

    def rule(self, p, g, step, group, kept):
        d = prim.sqrt(kept['acc_delta'] + group['eps']) / prim.sqrt(self.average(kept, 'square_avg', g * g, group['rho']) + group['eps']) * g
        self.average(kept, 'acc_delta', d * d, group['rho'])
        return p - d * group['lr']


class optim_Adamax(Averaging):
    def __init__(self, params, lr=0.002, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, foreach=None, *, maximize=False, **how):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize)

    def keeps(self, group): return ['exp_avg', 'exp_inf']

    def rule(self, p, g, step, group, kept):
        m = self.average(kept, 'exp_avg', g, group['betas'][0])
        u = prim.maximum(kept['exp_inf'] * group['betas'][1], prim.abs(g) + group['eps'])
        prim.assign(kept['exp_inf'], u)
        return p - m / u * (group['lr'] / power_less(group['betas'][0], step))


class optim_RAdam(Averaging):
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, decoupled_weight_decay=False, *, foreach=None, maximize=False, **how):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, decoupled_weight_decay=decoupled_weight_decay, maximize=maximize)

    def keeps(self, group): return ['exp_avg', 'exp_avg_sq']

    def rule(self, p, g, step, group, kept):
        b1, b2 = group['betas']
        m, v = self.average(kept, 'exp_avg', g, b1), self.average(kept, 'exp_avg_sq', g * g, b2)
        step = prim.convert(step, torch.float64)  # a difference of large numbers follows
        m, rest, most = m / power_less(b1, step), power_less(b2, step), 2 / (1 - b2) - 1
        rho = most - 2 * step * prim.pow(b2, step) / rest
        safe = prim.maximum(rho, 5)
        r = prim.sqrt((safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)) * prim.sqrt(rest)
        return p - m * group['lr'] * prim.where(rho > 5, r / (prim.sqrt(v) + group['eps']), 1)


class optim_Muon(Optimizer):
    def __init__(self, params, lr=0.001, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-07, ns_steps=5, adjust_lr_fn=None):
        super().__init__(params, lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn, maximize=False)

    def start(self, p, group, name):
        if p.ndim != 2:
            prim.fail(f"Muon takes parameters of 2 dims, and not of {p.ndim}")
        return {'momentum_buffer': prim.state(p.shape, p.dtype, name + 'momentum_buffer')}

    # Newton's and Schulz's iteration, in bf16, to a matrix whose singular values are about 1.
    def orthogonal(self, g, group):
        a, b, c = group['ns_coefficients']
        x = prim.convert(transpose(g, 0, 1) if g.shape[0] > g.shape[1] else g, torch.bfloat16)
        x = x / clamp_min(norm(x), group['eps'])
        for _ in range(group['ns_steps']):
            gram = matmul(x, transpose(x, 0, 1))
            x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return transpose(x, 0, 1) if g.shape[0] > g.shape[1] else x

    def update(self, p, g, group, kept):
        momentum, rows, columns = group['momentum'], p.shape[0], p.shape[1]
        m = lerp(kept['momentum_buffer'], g, 1 - momentum)
        prim.assign(kept['momentum_buffer'], m)
        g = self.orthogonal(lerp(g, m, momentum) if group['nesterov'] else m, group)
        ratio = math.sqrt(rows / columns) if rows > columns else 1
        if group['adjust_lr_fn'] == 'match_rms_adamw':
            ratio = 0.2 * math.sqrt(rows if rows > columns else columns)
        return p * (1 - group['lr'] * group['weight_decay']) - prim.convert(g, p.dtype) * (group['lr'] * ratio)


# ---- torch.autograd, gradients that are off, torch.nn.utils ----

def tensor_backward(x, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    prim.backward(x, gradient, create_graph, inputs)


def autograd_backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None): prim.backward(tensors, grad_tensors, create_graph, inputs)


def autograd_grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None, is_grads_batched=False, materialize_grads=False):
    found = prim.grad(outputs, inputs, grad_outputs, create_graph, bool(allow_unused) or materialize_grads)
    if not materialize_grads:
        return found
    wanted = [inputs] if isinstance(inputs, torch.Tensor) else inputs
    return tuple([zeros_like(x) if g is None else g for x, g in zip(wanted, found)])


class no_grad:
    on = False
    def __enter__(self): self.before = prim.grad_mode(self.on)
    def __exit__(self, *how): prim.grad_mode(self.before)


class inference_mode(no_grad):
    def __init__(self, mode=True): self.on = not mode


class enable_grad(no_grad):
    on = True


class set_grad_enabled:
    def __init__(self, mode): self.before = prim.grad_mode(mode)
    def __enter__(self): return None
    def __exit__(self, *how): prim.grad_mode(self.before)


class profiler_record_function:
    def __init__(self, *what): self.what = what
    def __enter__(self): return None
    def __exit__(self, *how): return None


def is_grad_enabled(): return prim.grad_mode()


def utils_parameters_to_vector(parameters): return cat([flatten(p) for p in parameters], 0)


def utils_vector_to_parameters(vec, parameters):
    at = 0
    for p in parameters:
        prim.assign(p, prim.reshape(prim.slice(vec, 0, at, at + prim.numel(p), 1), p.shape))
        at = at + prim.numel(p)


def utils_get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None): return norm(stack([norm(x, norm_type) for x in tensors], 0), norm_type)


def utils_clip_grad_value_(parameters, clip_value, foreach=None):
    for p in [parameters] if isinstance(parameters, torch.Tensor) else parameters:
        if p.grad is not None:
            prim.assign(p.grad, clamp(p.grad, -clip_value, clip_value))


def utils_clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    items = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    items = [p for p in items if p.grad is not None]
    total = norm(stack([norm(p.grad, norm_type) for p in items], 0), norm_type)
    scale = prim.minimum(max_norm / (total + 1e-06), 1.0)
    for p in items:
        prim.assign(p.grad, p.grad * scale)
    return total

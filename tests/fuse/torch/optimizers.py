# Eight steps of an optimizer. (Its number of steps is a f32, as in PyTorch: corrections are right to that.)
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def sgd_0(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def rmsprop_1(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.RMSprop([p], lr=0.05, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def rmsprop_2(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.RMSprop([p], lr=0.05, momentum=0.9, centered=True)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def adagrad_3(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.Adagrad([p], lr=0.1, lr_decay=0.2, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def adadelta_4(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.Adadelta([p], lr=0.7)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def adamax_5(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.Adamax([p], lr=0.05, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def radam_6(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.RAdam([p], lr=0.05)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def adam_7(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.Adam([p], lr=0.05, amsgrad=True, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def adamw_8(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.AdamW([p], lr=0.05, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def nadam_9(x, y):
    p, q = x.clone().requires_grad_(), y.clone().requires_grad_()
    opt = torch.optim.NAdam([{"params": [p]}, {"params": [q], "decoupled_weight_decay": True, "momentum_decay": 0.1}], lr=0.05, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin() + q * x.cos() * q).sum().backward()
        opt.step()
    return p, q


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def asgd_10(x, y):
    p, q = x.clone().requires_grad_(), y.clone().requires_grad_()
    opt = torch.optim.ASGD([{"params": [p]}, {"params": [q], "t0": 2, "lambd": 0.05, "alpha": 0.5}], lr=0.05, weight_decay=0.1)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin() + q * x.cos() * q).sum().backward()
        opt.step()
    return p, q


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def rprop_11(x, y):
    p, q = x.clone().requires_grad_(), y.clone().requires_grad_()
    opt = torch.optim.Rprop([{"params": [p]}, {"params": [q], "etas": (0.3, 1.9), "step_sizes": (0.02, 0.2)}], lr=0.1, maximize=False)
    for i in range(8):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin() + q * x.cos() * q).sum().backward()
        opt.step()
    return p, q


# x f64[3,4], y f64[3,4]
# tolerance 1e-6
def adagrad_12(x, y):
    p = x.clone().requires_grad_()
    opt = torch.optim.Adagrad([p], lr=0.1, initial_accumulator_value=0.5)
    for i in range(4):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin()).sum().backward()
        opt.step()
    return p


# x f64[3,4], y f64[3,4]
# tolerance 2e-2
def muon(x, y):
    p, q = x.clone().requires_grad_(), y.mT.clone().requires_grad_()
    opt = torch.optim.Muon([{"params": [p]}, {"params": [q], "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}], lr=0.1)
    for i in range(4):
        opt.zero_grad()
        ((p - y) ** 2 * (i + 1) + p.sin() * q.mT).sum().backward()
        opt.step()
    return p, q

#!/usr/bin/env python3
"""Training steps of models with random weights, by torch.compile: right beside eager, cold compile, time of a step.

    PYTHONPATH=build/python python3 bench/python/models.py [--device cuda] [--backends aot_eager,nereid] [MODEL...]

A line of JSON for each backend: the seconds of the first step, the largest difference of outputs and of gradients from
eager's over the largest value, the median time of a step (on a CPU the least; all backends in turn), and what PyTorch
ran. Needs transformers.
"""
import argparse
import copy
import json
import statistics
import time
import warnings

import nereid
import torch
import transformers as T


def text(config, model, batch=4, tokens=128, **more):
    return model(config), {"input_ids": torch.randint(3, 999, (batch, tokens)), **more}


def image(config, model, size=128):
    return model(config), {"pixel_values": torch.randn(4, 3, size, size)}


def sizes(width):
    return dict(hidden_size=width, num_hidden_layers=4, num_attention_heads=width // 64, intermediate_size=4 * width)


MODELS = {
    "bert": lambda w, **b: text(T.BertConfig(vocab_size=1000, **sizes(w)), T.BertModel, **b),
    "llama": lambda w, **b: text(T.LlamaConfig(vocab_size=1000, num_key_value_heads=w // 128, **sizes(w)), T.LlamaModel,
                                 use_cache=False, **b),
    "gpt2": lambda w, **b: text(T.GPT2Config(vocab_size=1000, n_embd=w, n_layer=4, n_head=w // 64), T.GPT2Model,
                                use_cache=False, **b),
    "vit": lambda w, **b: image(T.ViTConfig(image_size=128, patch_size=16, **sizes(w)), T.ViTModel),
    "resnet18": lambda w, **b: image(T.ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
                                                    layer_type="basic"), T.ResNetModel),
}


def without_dropout(model):
    for m in model.modules():
        for name, value in list(vars(m).items()) + [("p", getattr(m, "p", None))]:
            if isinstance(value, float) and ("drop" in name or (name == "p" and isinstance(m, torch.nn.Dropout))):
                setattr(m, name, 0.0)
    return model


def step(model, inputs):
    model.zero_grad(set_to_none=True)
    out = [v for v in model(**inputs).values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
    sum(o.float().square().mean() for o in out).backward()
    return out


def difference(got, want):
    scale = max(w.abs().max().item() for w in want)
    return max((g.double() - w.double()).abs().max().item() for g, w in zip(got, want)) / scale


def measure(name, args):
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    torch.manual_seed(0)
    batch = dict(batch=8, tokens=512) if args.device == "cuda" else {}
    eager, inputs = MODELS[name](768 if args.device == "cuda" else 256, **batch)
    eager = without_dropout(eager).to(args.device).train()
    inputs = {k: v.to(args.device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    models, rows = {"eager": eager}, {"eager": {}}
    want = step(eager, inputs)
    grads = {n: p.grad.clone() for n, p in eager.named_parameters() if p.grad is not None}
    for backend in args.backends.split(","):
        torch._dynamo.reset()
        own = copy.deepcopy(eager)
        compiled = torch.compile(own, backend=nereid.torch_backend if backend == "nereid" else backend)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            start = time.perf_counter()
            got = step(compiled, inputs)
            wait()
        rows[backend] = {"cold_s": round(time.perf_counter() - start, 2), "outputs": difference(got, want),
                         "gradients": difference([dict(own.named_parameters())[n].grad for n in grads], grads.values()),
                         "said": [str(w.message) for w in said if "nereid" in str(w.message)]}
        models[backend] = compiled
    times = {b: [] for b in models}
    for i in range(args.repeat + 1):
        for b, model in models.items():
            start = time.perf_counter()
            step(model, inputs)
            wait()
            if i:
                times[b].append((time.perf_counter() - start) * 1e3)
    typical = statistics.median if args.device == "cuda" else min  # others may use the processors
    for b, row in rows.items():
        print(json.dumps({"model": name, "backend": b, **row, "step_ms": round(typical(times[b]), 3)}))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    p.add_argument("--device", default="cpu")
    p.add_argument("--backends", default="aot_eager,nereid,inductor")
    p.add_argument("--repeat", type=int, default=20)
    args = p.parse_args()
    for name in args.models:
        measure(name, args)


if __name__ == "__main__":
    main()

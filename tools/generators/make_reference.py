#!/usr/bin/env python3
"""Writes tests/reference/*.txt: small numbers from PyTorch on the CPU, for tests to compare with.

    bench/peers/setup.sh && bench/peers/.venv/bin/python tools/generators/make_reference.py [FOLDER]

They are checked in, so no test needs Python. Inputs come from a hash of the index, never from a
random generator, and are short binary fractions: f32 and f64 see exactly the same numbers.

A file is text, read by tests/reference/reader.h:

    # any number of comment lines, here only at the top
    NAME DTYPE SHAPE                       a header: DTYPE is f64, f32 or i64; SHAPE is 2x3, or
    value value ...                        scalar, or 0x3 (then no values follow); the values in
                                           row-major order, any number a line: %.17g for f64,
                                           %.9g for f32 (both read back exactly), nan, inf, -inf

What the files hold:

- `optim_problem`: parameters w0, b0 and the gradients grad_w[k], grad_b[k] of the steps 1 .. 50,
  some of them zero. `sgd_*_f32`, `sgd_*_f64`, `adamw_*`: the options, and w[k], b[k] after step
  k + 1. The gradients are given, so an optimizer is followed without any operator.
- `adam_*`, `adagrad_*`, `rmsprop_*`, ...: the same in f64 only. `adamw_groups`: two groups;
  `adamw_ema`: the average of the weights beside them; `lbfgs_*`: 50 steps with a closure.
- `muon_*`: w by Muon with products in f64, b by AdamW.
- `clip_norm`: the total norm of given gradients and the factor that clip_grad_norm_ applies.
- `clip_p_norms`: the same for other norms.
- `schedule_rules`: factors of the rate; `schedule_epochs`: of rules that step once an epoch; `schedule_plateau`: rates after each metric.
- `schedule_*`: lr[k] is the rate that step k + 1 uses (k applied steps before it).
- all others: one operator case in f64: inputs, attributes, `out`, the gradient `grad_out` that is
  sent in and `grad_NAME` of each input.
"""

import pathlib
import sys

import usage

usage.answer(__doc__)

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

STEPS = 50
FOLDER = pathlib.Path(
    sys.argv[1]
    if len(sys.argv) > 1
    else pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"
)
NAMES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.bool: "i64"}
FORMATS = {"f64": "%.17g", "f32": "%.9g", "i64": "%d"}


def write(case, **arrays):
    lines = [f"# {case}: made by tools/generators/make_reference.py with PyTorch {torch.__version__}"]
    for name, value in arrays.items():
        if not isinstance(value, torch.Tensor):
            value = torch.tensor(
                value, dtype=torch.int64 if isinstance(value, int) else torch.float64
            )
        dtype = NAMES[value.dtype]
        shape = "x".join(map(str, value.shape)) or "scalar"
        lines.append(f"{name} {dtype} {shape}")
        values = [FORMATS[dtype] % v for v in value.detach().reshape(-1).tolist()]
        width = 8 if dtype == "i64" else 4
        lines += [" ".join(values[i : i + width]) for i in range(0, len(values), width)]
    (FOLDER / f"{case}.txt").write_text("\n".join(lines) + "\n")


def numbers(shape, seed, scale=2.0):
    """Multiples of scale / 512 in [-scale, scale): a hash of the index, exact in f32."""
    n = 1
    for d in shape:
        n *= d
    values = [(((i + 1 + seed * 1000003) * 2654435761 % 2**32) >> 22) - 512 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape) * (scale / 512)


# --- optimizers and schedules ---
def optim_problem():
    w0, b0 = numbers((2, 3), 1, 1.0), numbers((3,), 2, 0.5)
    grad_w, grad_b = numbers((STEPS, 2, 3), 3, 1.0), numbers((STEPS, 3), 4, 0.25)
    grad_w[:, 0, 1] = 0.0  # a parameter that never gets a gradient: only weight decay moves it
    grad_w[10:20, 1, 2] = 0.0
    grad_b[7] = 0.0
    grad_w[30] *= 64  # one step with an exploding gradient
    grad_b[:, 2] /= 4096  # tiny ones: here eps of AdamW is not negligible any more
    return w0, b0, grad_w, grad_b


def follow(optimizer, w, b, grad_w, grad_b, after=lambda: None):
    ws, bs = [], []
    for k in range(STEPS):
        w.grad, b.grad = grad_w[k].clone(), grad_b[k].clone()
        optimizer.step()
        after()
        ws.append(w.detach().clone())
        bs.append(b.detach().clone())
    return {"w": torch.stack(ws), "b": torch.stack(bs)}


def trajectory(case, make, options, dtypes=(torch.float32, torch.float64)):
    for dtype in dtypes:
        w0, b0, grad_w, grad_b = (t.to(dtype) for t in optim_problem())
        w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
        optimizer = make([w, b], foreach=False, **options)
        values = follow(optimizer, w, b, grad_w, grad_b)
        group = optimizer.param_groups[0]
        used = {k: float(group[k]) for k in ("lr", "momentum", "weight_decay", "eps") if k in group}
        if "betas" in group:
            used["beta1"], used["beta2"] = group["betas"]
        if "etas" in group:
            used["eta_minus"], used["eta_plus"] = group["etas"]
            used["least_step"], used["largest_step"] = group["step_sizes"]
        used.update({k: float(v) for k, v in options.items() if not isinstance(v, tuple)})
        write(f"{case}_{NAMES[dtype]}", **used, **values)


# Rules whose file is f64 only: an f32 run is held against it too.
RULES = {
    "sgd_dampening": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    "sgd_nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "adam_default": ("Adam", {}),
    "adam_decay": ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1}),
    "adagrad_default": ("Adagrad", {}),
    "adagrad_decay": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.01, "initial_accumulator_value": 0.125},
    ),
    "rmsprop_default": ("RMSprop", {"alpha": 0.99}),
    "rmsprop_momentum": (
        "RMSprop",
        {"lr": 0.005, "alpha": 0.9, "momentum": 0.9, "weight_decay": 0.01},
    ),
    "rmsprop_centered": (
        "RMSprop",
        {"lr": 0.005, "alpha": 0.95, "eps": 1e-3, "momentum": 0.5, "centered": True},
    ),
    "adam_amsgrad": (
        "Adam",
        {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1, "amsgrad": True},
    ),
    "adamw_amsgrad": ("AdamW", {"lr": 0.02, "betas": (0.7, 0.8), "amsgrad": True}),
    "nadam_default": ("NAdam", {"lr": 2e-3}),
    "nadam_decay": (
        "NAdam",
        {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1, "momentum_decay": 0.1},
    ),
    "nadam_decoupled": (
        "NAdam",
        {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "adamax_default": ("Adamax", {"lr": 2e-3}),
    "adamax_decay": ("Adamax", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    "adadelta_default": ("Adadelta", {"rho": 0.9}),
    "adadelta_decay": ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1}),
    "rprop_default": ("Rprop", {}),
    "rprop_steps": ("Rprop", {"lr": 0.02, "etas": (0.25, 1.5), "step_sizes": (1e-3, 0.05)}),
    "radam_default": ("RAdam", {"lr": 1e-3}),
    "radam_decay": (
        "RAdam",
        {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1},
    ),
    "radam_decoupled": (
        "RAdam",
        {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
}


def muon(case, options, adamw):
    from torch.optim import _muon

    def zeropower(grad, coefficients, steps, eps):
        """torch's, whose products are in bf16, in the dtype of the gradient."""
        a, b, c = coefficients
        tall = grad.size(0) > grad.size(1)
        x = grad.T if tall else grad
        x = x / x.norm().clamp(min=eps)
        for _ in range(steps):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.T if tall else x

    w0, b0, grad_w, grad_b = optim_problem()
    if options.pop("tall", False):
        w0, grad_w = w0.T.contiguous(), grad_w.transpose(1, 2).contiguous()
    w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
    theirs, _muon._zeropower_via_newtonschulz = _muon._zeropower_via_newtonschulz, zeropower
    optimizers = torch.optim.Muon([w], **options), torch.optim.AdamW([b], foreach=False, **adamw)

    class Both:
        def step(self):
            for optimizer in optimizers:
                optimizer.step()

    values = follow(Both(), w, b, grad_w, grad_b)
    _muon._zeropower_via_newtonschulz = theirs
    write(case, **{k: float(v) for k, v in options.items()}, **values)


def muons():
    adamw = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-10, "weight_decay": 0.1}
    muon("muon_default", {"lr": 0.02, "weight_decay": 0.0}, adamw)
    decay = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.8, "nesterov": False}
    muon("muon_decay", dict(decay), adamw)
    muon("muon_tall", dict(decay, tall=True, ns_steps=4), adamw)


def rules():
    for case, (make, options) in RULES.items():
        # Of NAdam's states one is a scalar of the default dtype.
        torch.set_default_dtype(torch.float64)
        trajectory(case, getattr(torch.optim, make), options, (torch.float64,))
        torch.set_default_dtype(torch.float32)
    adamw_groups()
    adamw_ema()
    lbfgs("lbfgs_wolfe", {"max_iter": 2, "history_size": 5, "line_search_fn": "strong_wolfe"})
    lbfgs("lbfgs_fixed", {"lr": 0.25, "max_iter": 3, "history_size": 5})


def adamw_groups():
    w0, b0, grad_w, grad_b = optim_problem()
    w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
    groups = [{"params": [w]}, {"params": [b], "lr": 0.05, "betas": (0.5, 0.75), "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1, foreach=False)
    write("adamw_groups", **follow(optimizer, w, b, grad_w, grad_b))


def adamw_ema():
    w0, b0, grad_w, grad_b = optim_problem()
    w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
    net = torch.nn.ParameterList([w, b])
    average = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    average.update_parameters(net)  # the first one copies: the average starts at the weights
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, foreach=False)
    ema_w, ema_b = [], []

    def update():
        average.update_parameters(net)
        ema_w.append(average.module[0].detach().clone())
        ema_b.append(average.module[1].detach().clone())

    values = follow(optimizer, *net.parameters(), grad_w, grad_b, update)
    write("adamw_ema", decay=0.9, ema_w=torch.stack(ema_w), ema_b=torch.stack(ema_b), **values)


def lbfgs(case, options):
    """50 steps of a quartic over w and b, from the problem's start."""
    w0, b0, _, _ = optim_problem()
    w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([w, b], **options)
    x = numbers((4, 2), 7, 1.0)

    def loss_of():
        e = x @ w + b - 1
        return (e**2).sum() + ((w - 0.5) ** 4).sum() + (b**4).sum()

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    ws, bs, losses = [], [], []
    for _ in range(STEPS):
        losses.append(optimizer.step(closure).detach().clone())
        ws.append(w.detach().clone())
        bs.append(b.detach().clone())
    state = optimizer.state[w]
    write(
        case,
        lr=float(options.get("lr", 1)),
        max_iter=options["max_iter"],
        history_size=options["history_size"],
        x=x,
        iterations=int(state["n_iter"]),
        evaluations=int(state["func_evals"]),
        loss=torch.stack(losses),
        w=torch.stack(ws),
        b=torch.stack(bs),
    )


def optimizers():
    w0, b0, grad_w, grad_b = optim_problem()
    write("optim_problem", w0=w0, b0=b0, grad_w=grad_w, grad_b=grad_b)
    sgd, adamw = torch.optim.SGD, torch.optim.AdamW
    trajectory("sgd_plain", sgd, {"lr": 0.1})
    trajectory("sgd_momentum", sgd, {"lr": 0.05, "momentum": 0.9})
    trajectory("sgd_momentum_decay", sgd, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01})
    trajectory("adamw_default", adamw, {})
    trajectory("adamw_decay", adamw, {"lr": 0.02, "weight_decay": 0.1})
    trajectory(
        "adamw_betas", adamw, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.0}
    )


def clip_norm():
    # `below`: the norm is under max_norm, the factor is 1; torch divides by norm + 1e-6.
    for case, max_norm in (("clip_norm", 0.5), ("clip_norm_below", 100.0)):
        w, b = torch.zeros(2, 3).double().requires_grad_(), torch.zeros(3).double().requires_grad_()
        grad_w, grad_b = numbers((2, 3), 5), numbers((3,), 6)
        w.grad, b.grad = grad_w.clone(), grad_b.clone()
        norm = torch.nn.utils.clip_grad_norm_([w, b], max_norm)
        write(
            case,
            grad_w=grad_w,
            grad_b=grad_b,
            max_norm=max_norm,
            norm=norm,
            factor=w.grad[0, 0] / grad_w[0, 0],
            clipped_w=w.grad,
            clipped_b=b.grad,
        )


def clip_p_norms():
    grad_w, grad_b = numbers((2, 3), 5), numbers((3,), 6)
    found = {"grad_w": grad_w, "grad_b": grad_b, "max_norm": 0.5}
    for case, p in (("one", 1.0), ("three", 3.0), ("inf", float("inf"))):
        w, b = torch.zeros(2, 3).double().requires_grad_(), torch.zeros(3).double().requires_grad_()
        w.grad, b.grad = grad_w.clone(), grad_b.clone()
        found[f"norm_{case}"] = torch.nn.utils.clip_grad_norm_([w, b], 0.5, norm_type=p)
        found[f"w_{case}"], found[f"b_{case}"] = w.grad, b.grad
    write("clip_p_norms", **found)


def schedule(case, warmup, start_factor, cosine_steps, base_lr, min_lr):
    """Linear from start_factor to 1 over `warmup` steps, then half a cosine down to min_lr."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base_lr)
    schedulers = torch.optim.lr_scheduler
    plan = schedulers.CosineAnnealingLR(optimizer, T_max=cosine_steps, eta_min=min_lr)
    if warmup:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base_lr)
        first = schedulers.LinearLR(optimizer, start_factor=start_factor, total_iters=warmup)
        then = schedulers.CosineAnnealingLR(optimizer, T_max=cosine_steps, eta_min=min_lr)
        plan = schedulers.SequentialLR(optimizer, [first, then], milestones=[warmup])
    rates = []
    for _ in range(warmup + cosine_steps + 1):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        plan.step()
    write(
        case,
        warmup=warmup,
        start_factor=start_factor,
        cosine_steps=cosine_steps,
        base_lr=base_lr,
        min_lr=min_lr,
        lr=torch.tensor(rates, dtype=torch.float64),
    )


def schedule_rules():
    """The rates of 50 steps from a base of 0.5, as factors of it."""
    rules = torch.optim.lr_scheduler
    makers = {
        "step_lr": lambda o: rules.StepLR(o, 7, gamma=0.5),
        "multi_step": lambda o: rules.MultiStepLR(o, [5, 20, 20, 33], gamma=0.5),
        "exponential": lambda o: rules.ExponentialLR(o, 0.95),
        "polynomial": lambda o: rules.PolynomialLR(o, 40, power=1.5),
        "linear": lambda o: rules.LinearLR(o, 0.25, 0.75, total_iters=30),
        "warm_restarts": lambda o: rules.CosineAnnealingWarmRestarts(o, 10, eta_min=0.05),
        "warm_restarts_2": lambda o: rules.CosineAnnealingWarmRestarts(o, 6, T_mult=2),
        "one_cycle": lambda o: rules.OneCycleLR(o, 0.5, total_steps=51, cycle_momentum=False),
        "one_cycle_linear": lambda o: rules.OneCycleLR(
            o,
            0.5,
            total_steps=51,
            pct_start=0.4,
            anneal_strategy="linear",
            div_factor=10,
            final_div_factor=100,
            cycle_momentum=False,
        ),
        "one_cycle_three": lambda o: rules.OneCycleLR(
            o, 0.5, total_steps=51, three_phase=True, cycle_momentum=False
        ),
        "product": lambda o: rules.ChainedScheduler(
            [rules.LinearLR(o, 0.1, total_iters=10), rules.ExponentialLR(o, 0.9)]
        ),
        "sequential": lambda o: rules.SequentialLR(
            o, [rules.ConstantLR(o, 0.5, total_iters=99), rules.StepLR(o, 8)], milestones=[15]
        ),
    }
    found = {}
    for name, make in makers.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        plan, rates = make(optimizer), []
        for _ in range(STEPS):
            rates.append(float(optimizer.param_groups[0]["lr"]) / 0.5)
            optimizer.step()
            plan.step()
        found[name] = torch.tensor(rates, dtype=torch.float64)
    write("schedule_rules", **found)


def schedule_epochs():
    """The same for 8 epochs of 4 steps, by rules that step once an epoch, and one beside that steps
    with the optimizer."""
    rules, n = torch.optim.lr_scheduler, 4
    by_epoch = {
        "step_lr": lambda o: rules.StepLR(o, 3, gamma=0.5),
        "multi_step": lambda o: rules.MultiStepLR(o, [2, 5], gamma=0.5),
        "warmup_cosine": lambda o: rules.SequentialLR(
            o,
            [rules.LinearLR(o, 0.25, total_iters=2), rules.CosineAnnealingLR(o, 5)],
            milestones=[2],
        ),
        "steps_and_epochs": lambda o: rules.ExponentialLR(o, 0.5),
    }
    found = {"steps_per_epoch": n}
    for name, make in by_epoch.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        by_step = rules.LinearLR(optimizer, 0.1, total_iters=10) if "steps" in name else None
        plan, rates = make(optimizer), []
        for k in range(8 * n):
            rates.append(float(optimizer.param_groups[0]["lr"]) / 0.5)
            optimizer.step()
            if by_step:
                by_step.step()
            if k % n == n - 1:
                plan.step()
        found[name] = torch.tensor(rates, dtype=torch.float64)
    write("schedule_epochs", **found)


def plateau():
    metric = 1 / (1 + torch.arange(STEPS, dtype=torch.float64)) + numbers((STEPS,), 11, 0.125)
    metric[20:] = 0.25
    metric[31] = float("nan")
    found = {"metric": metric}
    for case, options in {
        "min": {"patience": 2, "factor": 0.5},
        "max": {"mode": "max", "patience": 1, "factor": 0.5, "cooldown": 3, "min_lr": 0.01},
        "abs": {"patience": 0, "threshold_mode": "abs", "threshold": 0.05, "min_lr": 1e-3},
    }.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        plan, rates = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options), []
        for m in metric.tolist():
            plan.step(m)
            rates.append(float(optimizer.param_groups[0]["lr"]))
        found[case] = torch.tensor(rates, dtype=torch.float64)
    write("schedule_plateau", **found)


def schedules():
    schedule("schedule_cosine", 0, 1.0, 50, 0.1, 0.0)
    schedule("schedule_cosine_floor", 0, 1.0, 50, 0.1, 0.01)
    schedule_rules()
    schedule_epochs()
    plateau()
    # lr[k] = base_lr (k + 1) / warmup would start at 1 / warmup but reach base_lr a step early;
    # torch's LinearLR reaches it at k = warmup, so 1 / (warmup + 1) gives equal increments.
    schedule("schedule_warmup_cosine", 10, 1.0 / 11, 50, 0.1, 0.001)
    schedule("schedule_warmup_tenth", 10, 0.1, 50, 0.1, 0.0)


# --- operators ---
def operator(case, function, inputs, given=None, seed=90, **written):
    """Runs function(**inputs, **given); `inputs` get gradients; `written` is kept too."""
    given = given or {}
    leaves = {name: t.clone().requires_grad_() for name, t in inputs.items()}
    out = function(**leaves, **given)
    grad_out = numbers(tuple(out.shape), seed)
    grads = torch.autograd.grad(out, list(leaves.values()), grad_out)
    write(
        case,
        **inputs,
        **given,
        **written,
        out=out,
        grad_out=grad_out,
        **{f"grad_{name}": grad for name, grad in zip(leaves, grads)},
    )


def pointwise():
    edges = torch.tensor(
        [0.0, -0.0, 0.5, -0.5, 3.0, -3.0, 6.0, -6.0, 12.0, -12.0, 40.0, -40.0], dtype=torch.float64
    )
    x = torch.cat([edges, numbers((12,), 10, 4.0)]).reshape(4, 6)
    operator("gelu_erf", lambda x: F.gelu(x), {"x": x})
    operator("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), {"x": x})

    # Both bounds are among the values: there the gradient passes.
    bounds = torch.tensor([-1.0, 1.0, -1.5, 1.5, 0.0, 0.25], dtype=torch.float64)
    x = torch.cat([bounds, numbers((12,), 11)]).reshape(3, 6)
    operator("clamp", lambda x: x.clamp(-1.0, 1.0), {"x": x}, min=-1.0, max=1.0)
    operator("clamp_min", lambda x: x.clamp(min=-1.0), {"x": x}, min=-1.0)
    operator("clamp_max", lambda x: x.clamp(max=1.0), {"x": x}, max=1.0)

    condition = numbers((3, 1), 12) > 0
    operator(
        "where",
        lambda a, b, condition: torch.where(condition, a, b),
        {"a": numbers((3, 4), 13), "b": numbers((4,), 14)},
        {"condition": condition},
    )

    base = numbers((2, 6), 15)
    base[0, 0] = 0.0
    for case, exponent in (("pow_2", 2.0), ("pow_3", 3.0), ("pow_0", 0.0), ("pow_1", 1.0)):
        operator(case, lambda x, e=exponent: x.pow(e), {"x": base}, exponent=exponent)
    positive = numbers((2, 6), 16).abs() + 0.25
    for case, exponent in (("pow_half", 0.5), ("pow_minus_1", -1.0), ("pow_2_7", 2.7)):
        operator(case, lambda x, e=exponent: x.pow(e), {"x": positive}, exponent=exponent)
    exponents = numbers((6,), 17)
    positive[0, 0], exponents[0] = 0.0, 2.5  # 0^2.5: a zero, and zero gradients, not nan
    operator("pow_tensor", lambda x, y: x.pow(y), {"x": positive, "y": exponents})


def softmaxes():
    x = numbers((2, 3, 5), 20, 4.0)
    x[0, 0] += 1000.0  # no overflow may come of it
    x[1, 1] -= 1000.0
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for dim in (1, 2):
            operator(f"{name}_dim{dim}", lambda x, f=function, d=dim: f(x, d), {"x": x}, dim=dim)

    logits = numbers((6, 7), 21, 4.0)
    labels = torch.tensor([0, 6, 3, 3, 1, 5])
    ignored = torch.tensor([0, -100, 3, 3, -100, 5])
    two = torch.tensor([0, 2, 3, 2, 1, 5])  # class 2 is the ignored one
    for case, target, options in (
        ("cross_entropy", labels, {}),
        ("cross_entropy_sum", labels, {"reduction": "sum"}),
        ("cross_entropy_none", labels, {"reduction": "none"}),
        ("cross_entropy_ignore", ignored, {"ignore_index": -100}),
        ("cross_entropy_ignore_2", two, {"ignore_index": 2}),
        ("cross_entropy_ignore_none", ignored, {"ignore_index": -100, "reduction": "none"}),
        ("cross_entropy_smooth", labels, {"label_smoothing": 0.1}),
        ("cross_entropy_smooth_ignore", ignored, {"ignore_index": -100, "label_smoothing": 0.2}),
    ):
        written = {k: v for k, v in options.items() if k != "reduction"}
        operator(
            case,
            lambda logits, target, o=options: F.cross_entropy(logits, target, **o),
            {"logits": logits},
            {"target": target},
            **written,
        )


def layers():
    x = numbers((2, 3, 8), 30)
    x[0, 0] = 0.75  # a constant row: variance 0, eps decides
    weight, bias = numbers((8,), 31) + 1.0, numbers((8,), 32)
    operator(
        "layer_norm",
        lambda x, weight, bias: F.layer_norm(x, (8,), weight, bias, 1e-5),
        {"x": x, "weight": weight, "bias": bias},
        eps=1e-5,
    )
    operator("layer_norm_plain", lambda x: F.layer_norm(x, (8,), eps=1e-3), {"x": x}, eps=1e-3)
    operator(
        "layer_norm_two_dims",
        lambda x, weight, bias: F.layer_norm(x, (3, 8), weight, bias, 1e-5),
        {"x": x, "weight": numbers((3, 8), 33), "bias": numbers((3, 8), 34)},
        eps=1e-5,
    )

    index = torch.tensor([[1, 5, 1, 0], [3, 1, 5, 5]])  # 2 and 4 never, 1 three times
    operator(
        "embedding",
        lambda weight, index: F.embedding(index, weight),
        {"weight": numbers((6, 3), 35)},
        {"index": index},
    )

    for case, left, right in (
        ("matmul", (3, 4), (4, 5)),
        ("matmul_batched", (2, 3, 4), (2, 4, 5)),
        ("matmul_broadcast", (2, 1, 3, 4), (5, 4, 2)),
        ("matmul_broadcast_left", (3, 4), (2, 4, 5)),
        ("matmul_dot", (4,), (4,)),
        ("matmul_matrix_vector", (2, 3, 4), (4,)),
        ("matmul_vector_matrix", (4,), (2, 4, 3)),
        ("matmul_empty_inner", (2, 0), (0, 3)),
    ):
        operator(case, torch.matmul, {"input": numbers(left, 36), "other": numbers(right, 37)})


def distribution(case, make, parameters, value, other):
    """What a distribution says of `value` and of itself, and its divergence from one of `other`;
    grad_*: of the sum of log_prob * weight, the entropy and the divergence."""
    leaves = {name: t.clone().requires_grad_() for name, t in parameters.items()}
    p = make(**leaves)
    said = {"log_prob": p.log_prob(value), "entropy": p.entropy()}
    if not isinstance(p, torch.distributions.Categorical):
        said |= {"mean": p.mean, "variance": p.variance}
    if hasattr(p, "cdf") and not value.dtype == torch.int64 and not hasattr(p, "probs"):
        said["cdf"] = p.cdf(value)
    total = said["entropy"].sum()
    if other is not None:
        said["kl"] = torch.distributions.kl_divergence(p, make(**other))
        total = total + said["kl"].sum()
    weight = numbers(tuple(said["log_prob"].shape), 77)
    grads = torch.autograd.grad(total + (said["log_prob"] * weight).sum(), list(leaves.values()))
    write(
        case,
        **parameters,
        value=value,
        weight=weight,
        **{f"other_{name}": t for name, t in (other or {}).items()},
        **said,
        **{f"grad_{name}": grad for name, grad in zip(leaves, grads)},
    )


def distributions():
    d = torch.distributions
    positive = lambda shape, seed: numbers(shape, seed).abs() + 0.25
    share = lambda shape, seed: numbers(shape, seed).abs() / 2.5 + 0.1
    loc, scale, value = numbers((3, 1), 60), positive((4,), 61), numbers((2, 3, 4), 62)
    other = {"loc": numbers((3, 1), 63), "scale": positive((4,), 64)}
    distribution("distributions_normal", d.Normal, {"loc": loc, "scale": scale}, value, other)
    distribution(
        "distributions_log_normal", d.LogNormal, {"loc": loc, "scale": scale}, value.abs() + 0.1, None
    )
    low, high = numbers((3, 1), 65), numbers((4,), 66) + 5
    distribution(
        "distributions_uniform",
        lambda low, high: d.Uniform(low, high, validate_args=False),
        {"low": low, "high": high},
        torch.stack([(low + high) / 2, low + 0.25 + 0 * high]),
        {"low": low - 1, "high": high + 2},
    )
    rates = {"rate": positive((5,), 67)}
    distribution(
        "distributions_exponential", d.Exponential, rates, positive((3, 5), 68), {"rate": rates["rate"] + 1}
    )
    truths = (numbers((3, 5), 69) > 0).double()
    for name, first, second in (
        ("probs", share((5,), 70), share((5,), 71)),
        ("logits", numbers((5,), 72, 6.0), numbers((5,), 73)),
    ):
        distribution(
            f"distributions_bernoulli_{name}", d.Bernoulli, {name: first}, truths, {name: second}
        )
    classes = torch.tensor([[0, 3, 1], [2, 2, 0]])
    for name, first, second in (
        ("probs", positive((3, 4), 74), positive((4,), 75)),
        ("logits", numbers((3, 4), 76, 6.0), numbers((3, 4), 77)),
    ):
        distribution(
            f"distributions_categorical_{name}", d.Categorical, {name: first}, classes, {name: second}
        )


def windows():
    made = {}
    for name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
        for periodic in (True, False):
            for n in (1, 2, 7, 8):
                f = getattr(torch, f"{name}_window")
                w = f(n, periodic=periodic, dtype=torch.float64)
                made[f"{name}_{'periodic' if periodic else 'symmetric'}_{n}"] = w
    made["hamming_others"] = torch.hamming_window(9, True, 0.6, 0.3, dtype=torch.float64)
    made["kaiser_others"] = torch.kaiser_window(9, False, 2.5, dtype=torch.float64)
    write("windows", **made)


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    optimizing = optimizers, rules, muons, clip_norm, clip_p_norms, schedules
    for group in (*optimizing, pointwise, softmaxes, layers, distributions, windows):
        group()
    files = sorted(FOLDER.glob("*.txt"))
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes in {FOLDER}")


main()

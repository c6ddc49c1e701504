"""Kernels by the names that `wt ops` and `wt bench kernels` use, and which of them are defaults."""
import re
import subprocess

TYPES = {"__nv_bfloat16": "bf16", "__half": "f16", "float": "f32", "double": "f64",
         "unsigned char": "u8", "unsigned short": "u16", "unsigned int": "u32",
         "unsigned long long": "u64", "long long": "i64",  # before the shorter ones
         "unsigned long": "u64", "long": "i64", "int": "i32"}
SCOPES = re.compile(r"\(anonymous namespace\)::|\b(?:wt|cuda|detail|pw|red)::")


def demangle(mangled):
    out = subprocess.run(["c++filt"], input="\n".join(mangled), text=True, check=True,
                         stdout=subprocess.PIPE).stdout
    return out.splitlines()


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _split(arguments):
    """At the commas outside brackets."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(arguments):
        depth += (c == "<") - (c == ">")
        if c == "," and depth == 0:
            parts.append(arguments[last:i])
            last = i + 1
    return parts + [arguments[last:]] if arguments else []


def _until_arguments(text):
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return text[:i]
    return text


# Of the entries of elementwise operators, those whose class is not called like the operator.
OPERATORS = {"is_nan": "isnan", "is_inf": "isinf", "is_finite": "isfinite"}


def short(demangled):
    """softmax_warp<f32,4,32> of `void wt::cuda::(anonymous namespace)::softmax_warp<float, 4,
    32>(...)`."""
    text = SCOPES.sub("", demangled)
    text = _until_arguments(text.removeprefix("void ")).replace("> >", ">>")
    for long, brief in TYPES.items():
        text = re.sub(rf"\b{long}\b", brief, text)
    text = re.sub(r"Typed<(\w+)>", r"\1", text).replace(", ", ",")
    head, _, rest = text.partition("<")
    arguments = _split(rest[:-1])
    if head in ("pointwise", "pointwise_naive"):
        entry = arguments[0]
        gradient = re.fullmatch(r"Grad<(\w+),(\d)>", entry)
        name = snake(gradient.group(1) if gradient else entry)
        name = OPERATORS.get(name, name)
        if gradient:
            name += "_backward" + ("_b" if gradient.group(2) == "1" else "")
        head, arguments = name + head.removeprefix("pointwise"), arguments[1:]
    elif head == "rule_kernel":
        head, arguments = snake(arguments[0].removesuffix("Rule")) + "_step", arguments[1:]
    elif head == "rule_cohorts_kernel":
        head, arguments = snake(arguments[0].removesuffix("Rule")) + "_step_cohorts", arguments[1:]
    elif head.startswith("reduce_"):
        arguments = [snake(arguments[0])] + arguments[1:]
    return head + (f"<{','.join(arguments)}>" if arguments else "")


def _dtype(name):
    match = re.search(r"\b(b?f16|[fiu](?:32|64)|u8|u16|bool|Floats|Integers|Bits)\b", name)
    return {"Floats": "f32"}.get(match.group(1), match.group(1)) if match else ""


# Of what the better rung is called otherwise.
RUNGS = {"layer_norm_backward_params": "layer_norm_columns"}


def defaults(names):
    """Without the naive rung of what a better one takes in the same dtype."""
    better = {}
    for name in names:
        if "naive" not in name:
            better.setdefault(_dtype(name), []).append(name)

    def wanted(name):
        if "naive" not in name:
            return True
        stem = name.partition("<")[0].replace("_naive", "").removesuffix("_kernel")
        stem = RUNGS.get(stem, stem)
        entry = re.search(r"reduce_naive<(\w+)", name)
        return not any(other.startswith(stem) and (not entry or f"<{entry.group(1)}," in other)
                       for other in better.get(_dtype(name), []))

    return [name for name in names if wanted(name)]

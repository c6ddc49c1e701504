"""What `wt bench model` says of the kernel behind a contract's variant, for docs/gpu_results.md."""

import re

# (contract, variant): the kernel's name in bench/sass/sm_90a.txt, {T} for the dtype; a pattern. Where
# a variant launches several kernels that all count, nothing is predicted.
KERNELS = {
    ("matmul", "tensor_core"): r"matmul_mma<{T},.*>",
    ("attention_forward", "tensor_core"): r"attention_mma<{T},\d+,1>",
    ("attention_forward", "pipelined"): r"attention_mma<{T},\d+,2>",
    ("conv_forward", "tensor_core"): r"conv_mma<{T},true,.*>",
    ("conv_forward", "tiled"): r"conv_tiled<{T},.*>",
    ("conv_forward", "channels"): r"conv_channels<{T},.*>",
    ("conv_backward_input", "tensor_core"): r"conv_mma<{T},true,.*>",
    ("conv_backward_input", "tiled"): r"conv_tiled<{T},.*>",
    ("conv_backward_input", "channels"): r"conv_input_channels<{T}>",
    ("conv_backward_weight", "tensor_core"): r"conv_weight_mma<{T},.*>",
    ("conv_backward_weight", "tiled"): r"conv_weight_tiled<{T}>",
    ("conv_backward_weight", "taps"): r"conv_weight_taps<{T}.*>",
    ("cross_entropy_forward", "warp"): r"cross_entropy_rows<{T},false>",
    ("cross_entropy_forward", "block"): r"cross_entropy_rows<{T},true>",
    ("cross_entropy_backward", "warp"): r"cross_entropy_backward_rows<{T},false>",
    ("cross_entropy_backward", "block"): r"cross_entropy_backward_rows<{T},true>",
    ("layer_norm_backward_params", "columns"): r"layer_norm_columns<{T},.*>",
    ("embedding_backward", "sorted"): r"embedding_backward_rows<{T},.*>",
    ("mse_forward", "vectorized"): r"mse_sum_packs<{T}.*>",
    ("mse_backward", "vectorized"): r"mse_gradient_packs<{T}.*>",
    ("resize", "taps"): r"resize_by_taps<{T}.*>",
    ("resize_backward", "taps"): r"resize_backward_by_taps<{T}.*>",
    ("random_fill", "counters"): r"random_fill_counters<{T}.*>",
    ("bitwise_left_shift", "vectorized"): r"shift_left<{T}>",
    ("bitwise_right_shift", "vectorized"): r"shift_right<{T}>",
}
# Rows in registers: one family of kernels for eight contracts.
ROWS = {
    "layer_norm_forward": "NormForward", "layer_norm_backward_input": "NormBackwardInput",
    "rms_norm_forward": "RmsForward", "rms_norm_backward_input": "RmsBackwardInput",
    "add_layer_norm_forward": "AddLayerNormForward", "add_layer_norm_backward_input": "AddLayerNormGradient",
    "add_rms_norm_forward": "AddRmsNormForward", "add_rms_norm_backward_input": "AddRmsNormGradient",
}  # fmt: skip
# Contracts whose kernels begin otherwise than they do.
STEMS = {
    "channel_norm_sums": "channel_sums", "channel_norm_backward": "channel_backward", "logaddexp": "log_add_exp",
    "logaddexp_backward_a": "log_add_exp_backward", "logaddexp_backward_b": "log_add_exp_backward_b",
    "muon_normalize": "normalize", "muon_polynomial": "polynomial", "muon_direction": "direction",
}  # fmt: skip
PLAIN = ("vectorized", "compact", "elements", "images", "boxes", "pixels")  # often not in the kernel's name

# Of an H100 SXM and an H200 (docs/gpu_model.md): what fractions of products are fractions of, TFLOP/s.
PEAK = {"f16": 989.0, "bf16": 989.0, "f32": 61.8}
COPY = {"H100 SXM": 3002, "H200": 4301}  # and of a copy, GB/s


def gpu_of(device):
    """The GPU's name in `wt bench model`, None for one that it does not know."""
    if "H200" in device and "GH200" not in device:
        return "H200"
    return "H100 SXM" if "H100" in device and "HBM3" in device else None


def patterns(contract, variant):
    """Of the kernel's name, the first that there is counts."""
    if (contract, variant) in KERNELS:
        return [KERNELS[contract, variant]]
    if contract in ROWS and variant in ("warp", "block"):
        return [rf"layer_norm_{variant}<{ROWS[contract]}<{{T}}>.*>"]
    stem = STEMS.get(contract, re.sub(r"_forward$", "", contract))
    names = [f"{stem}_{variant}"]
    if variant in PLAIN:
        names += [stem, re.sub(r"_a$", "", stem), f"{stem}_kernel"]
    return [rf"{re.escape(name)}<{{T}}(,.*)?>" for name in names]


def kernel_of(contract, variant, dtype, kernels):
    """kernels: {name: (load width, fraction)}. Of the forms of a kernel that for large aligned tensors:
    the widest loads, and of several such the slowest, as `wt bench model` does it."""
    for pattern in patterns(contract, variant):
        whole = re.compile(pattern.replace("{T}", dtype))
        fit = [k for k in kernels if whole.fullmatch(k) and not is_huge(k)]
        if fit:
            return min(fit, key=lambda k: (-kernels[k][0], kernels[k][1], k))
    return None


def is_huge(kernel):
    """The form for tensors of 2^31 elements and more."""
    return "IndexMap64" in kernel or ("pool" in kernel and ",i64>" in kernel)


def load_widths(table):
    """Kernel: bytes of its widest load, from the text of bench/sass/sm_90a.txt."""
    lines = [line.split() for line in table.splitlines() if line and not line.startswith("#")]
    at = lines[0].index("ld") if lines else 0
    return {cells[0]: number(cells[at]) for cells in lines[1:]}


def number(text):
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


def rows_to_keep(said, device, table):
    """What `wt bench model --json --all` says of this GPU, in few words."""
    gpu, widths = gpu_of(device), load_widths(table)
    return [
        {"kernel": r["bench"], "fraction": round(r["ratio"], 4), "bound": r.get("bound", ""),
         "of_product": r.get("of_product", 0), "ld": widths.get(r["bench"], 0.0), "gpu": gpu, "commit": r.get("commit")}
        for r in said if gpu and r.get("shape") == gpu and r.get("ratio")
    ]  # fmt: skip


class Model:
    """Predictions of one device."""

    def __init__(self, kept, rows):
        self.kept = {r["kernel"]: r for r in kept}
        self.kernels = {r["kernel"]: (r["ld"], r["fraction"]) for r in kept}
        self.products = {r["dtype"]: r["tflop_s"] for r in rows
                         if r.get("bench") == "ceiling_gemm" and r.get("tflop_s")}  # fmt: skip

    def of(self, row):
        """(kernel's row, measured fraction of the same whole) or None. A product's fraction is of the
        GPU's peak, and the row's of what cuBLASLt reaches."""
        kernel = kernel_of(row["bench"], row["impl"], row["dtype"], self.kernels)
        ratio = row.get("ratio")
        if not kernel or not ratio:
            return None
        said = self.kept[kernel]
        if bool(said["of_product"]) != (row.get("bound") == "gemm"):
            return None
        if said["of_product"]:
            peak, reached = PEAK.get(row["dtype"]), self.products.get(row["dtype"])
            if not peak or not reached:
                return None
            ratio *= reached / peak
        return said, ratio

"""The names of device functions that `wt look` takes are those of the kernels' sources, but for some.

Usage: kernel_names_test.py    (exit code 1, with what is lacking: tools/generators/kernel_names.py writes the table)
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
# No variant launches these with the benchmark's operands: they are of other reductions, indices, axes or
# several parts. `wt look` takes them by contract and variant, with --op.
LEFT_OUT = set("""
    advance_cohorts_kernel batch_cursor_kernel bincount_keys bincount_sorted channel_sums_join
    conv_bias_gradient cross_entropy_total_of_parts fft_stage_sum matmul_row_sums
    mse_sum_of_parts multinomial_times nll_sum_of_parts polynomial_bf16_kernel reduce_parts
    rule_cohorts_kernel scatter_add_atomics scatter_clear_winners scatter_find_winners
    scatter_naive scatter_put_winners scatter_tiles softmax_backward_column softmax_column
    token_batch_elements unfold_backward_packs
""".split())


def functions():
    found = set()
    for path in sorted((ROOT / "kernels").rglob("*.cu*")):
        text = re.sub(r"//.*|^[ \t]*#.*", "", path.read_text(), flags=re.M)
        for at in re.finditer(r"\b__global__\b", text):
            head = re.sub(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)", "", text[at.end():at.end() + 400])
            found.add(re.match(r"\s*(?:static\s+)?void\s+(\w+)\s*\(", head)[1])
    return found


def main():
    table = (ROOT / "tools/wt/look/kernel_names.inc").read_text()
    named, sources = set(re.findall(r'^{"(\w+)"', table, re.M)), functions()
    bad = [f"{f} is in the table, and in no source" for f in sorted(named - sources)]
    bad += [f"{f} is in neither table nor list" for f in sorted(sources - named - LEFT_OUT)]
    bad += [f"{f} is left out and need not be" for f in sorted(LEFT_OUT & named | LEFT_OUT - sources)]
    print("\n".join(bad))
    return 1 if bad or len(named) < 100 else 0


sys.exit(main())

#!/usr/bin/env bash
# Every script of tools/ and bench/: each is found in the tree, answers --help with what its head says, and
# does something small, or is what a test of its own is about. A script without a row in the table
# fails, and so does a row without a script. Usage: every_script_test.sh BUILD (its wt)
set -uo pipefail
root=$(cd "${0%/*}/../.." && pwd)
build=${1:?}
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-scripts-XXXXXX")
trap 'rm -rf "$here"' EXIT
cd "$root" || exit 1
export PYTHONDONTWRITEBYTECODE=1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
python=1
command -v python3 >/dev/null || { python=0; echo "no python3: scripts of Python are left out"; }

# What bench/learn.sh needs: data, and a wt that trains two steps.
. tests/support/tiny_fashion.sh
tiny_fashion "$here/DATA/fashion-mnist" 80 20
mkdir -p "$here/DATA/tinyshakespeare"
seq 3000 | tr '\n' ' ' >"$here/DATA/tinyshakespeare/input.txt"
cat >"$here/wt" <<END
#!/usr/bin/env bash
args=("\$@")
case "\$1 \${2:-}" in
  "train fashion") args=("\${@/#--epochs/--steps}" --set model=mlp) ;;
  "train charlm") args=("\${@/#1000/2}" --set layers=1 --set context=16) ;;
esac
exec "$build/wt" "\${args[@]}"
END
chmod +x "$here/wt"

# script | codes | arguments: the small form and how it may end; 77 is a skip that it says itself.
# script | tested | FILE: the test that runs it, which has its name.
# script | of | FILE: a part of that one, which starts it (ctest runs tools/attack.sh, part by part).
# script | needs MODULES: nothing small is to be had without them; compiled, and asked for its --help.
table="
tools/attack.sh            | tested | tests/tools/attack_test.sh
tools/build_cost.sh        | 2      | --base no-such-commit
tools/checks.sh            | of     | tools/setup.sh
tools/coverage.sh          | 0 77   | --show
tools/course.sh            | tested | tests/docs/course.py
tools/emulate              | 2      | --build $here no-such-program
tools/fetch_data.sh        | tested | tests/tools/fetch_data_test.sh
tools/fetch_files.sh       | of     | tools/fetch_data.sh
tools/fetch_weights.sh     | tested | tests/tools/fetch_weights_test.sh
tools/format.sh            | 2      | --no-such-option
tools/fuzz.sh              | of     | tools/attack.sh
tools/gpu_gate.sh          | tested | tests/tools/gate/gpu_gate_test.sh
tools/kill_harness.sh      | of     | tools/attack.sh
tools/mutate.sh            | tested | tests/mutants/mutate_test.sh
tools/nightly.sh           | 2      | no-such-part
tools/quickstart.sh        | tested | tests/tools/setup_test.sh
tools/sass_gate.sh         | 2      | --arch no-such-arch
tools/setup.sh             | tested | tests/tools/setup_test.sh
tools/soak.sh              | 2      | --build $here
tools/test.sh              | tested | tests/tools/setup_test.sh
tools/test_cost.sh         | tested | tests/tools/test_cost_test.sh
tools/tsan.sh              | of     | tools/attack.sh
tools/sass/get.sh          | 0 1    | --where
bench/learn.sh             | 1      | $here/wt $here/DATA fashion charlm
bench/peers/setup.sh       | 2      | --no-such-option
bench/peers/gate_test.sh   | of     | CMakeLists.txt
tools/benchmarks.py        | 0      | --check
tools/convert_pt.py        | tested | tests/tools/convert_pt_test.sh
tools/gdb_printers.py      | of     | cmake/targets.cmake
tools/gpu_results.py       | 0      | --check
tools/gate/gate.py         | of     | tools/gpu_gate.sh
tools/mutants/main.py      | of     | tools/mutate.sh
tools/sass/compile.py      | of     | tools/sass_gate.sh
tools/sass/gate.py         | of     | tools/sass_gate.sh
tools/generators/course_figures.py         | 0     | --check
tools/generators/course_listings.py        | 0 77  | --check
tools/generators/course_runs.py            | 2     |
tools/generators/kernel_names.py           | 2     |
tools/generators/fit_float_math.py         | needs | mpmath
tools/generators/make_bleu_reference.py    | needs | sacrebleu
tools/generators/make_data_reference.py    | needs | numpy sklearn
tools/generators/make_example_losses.py    | needs | torch
tools/generators/make_generate_reference.py | needs | torch transformers
tools/generators/make_gguf_reference.py    | needs | gguf torch transformers
tools/generators/make_image_reference.py   | needs | torchvision
tools/generators/make_models_reference.py  | needs | torchvision
tools/generators/make_nn_reference.py      | needs | torch
tools/generators/make_onnx_reference.py    | needs | onnx torch
tools/generators/make_reference.py         | needs | torch
tools/generators/make_simt_tuning.py       | 2     |
tools/generators/make_torch_cases.py       | needs | torch
tools/generators/make_weights_reference.py | needs | torch
tools/generators/reference.py              | tested | tests/docs/reference_test.py
bench/peers/gate.py        | tested | bench/peers/gate_test.py
bench/peers/gate_test.py   | of     | bench/peers/gate_test.sh
bench/peers/generate.py    | 2      |
bench/peers/gpu_steps.py   | tested | bench/peers/gpu_steps_test.py
bench/peers/gpu_steps_test.py | of  | bench/peers/gate_test.sh
bench/peers/image_folder.py | 2     |
bench/peers/model_steps.py | 2      |
bench/peers/onnx_check.py  | needs  | onnx onnxruntime
bench/peers/operators.py   | 2      |
bench/peers/peer_jax.py    | needs  | jax
bench/peers/peer_torch.py  | needs  | torch
bench/peers/torch_kernels.py | needs | torch
"

# A shell script, or a program of Python: one that no other file imports.
is_program() {
  case $1 in *.py) ;; *) return 0 ;; esac
  local module=${1##*/}
  module=${module%.py}
  ! git grep -qE "^ *(import|from) $module\b" -- "${1%/*}" tools/results tools/*.py ':!'"$1" ||
    grep -q '^if __name__ == "__main__"' "$1"
}
scripts() {
  git ls-files -co --exclude-standard tools bench | while read -r file; do
    case $file in *.sh | *.py) ;; *) [[ $(head -c 2 "$file" | tr -d '\0') == '#!' ]] || continue ;; esac
    [ -f "$file" ] && is_program "$file" && echo "$file"
  done
}
run() {  # FILE ARGS...
  local file=$1
  shift
  case $file in *.py) python3 "$file" "$@" ;; *) bash "$file" "$@" ;; esac
}

git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIPPED: no git checkout, so no list of the scripts"; exit 77; }
scripts >"$here/found"
ran=0
while read -r script; do
  row=$(grep -E "^${script//./[.]} *[|]" <<<"$table") || { fail "$script is new: it needs a row in $0"; continue; }
  IFS='|' read -r _ how what <<<"$row"
  how=$(xargs <<<"$how") what=$(sed 's/^ *//; s/ *$//' <<<"$what")
  case $script in *.py) [ $python = 1 ] || continue ;; esac
  ran=$((ran + 1))
  case $script in
    tools/checks.sh | tools/fetch_files.sh | tools/gdb_printers.py | *_test.*) ;;  # sourced, loaded by gdb, tests
    *)
      run "$script" --help >"$here/out" 2>"$here/err" </dev/null || fail "$script --help: exit code $?"
      [ -s "$here/out" ] && [ ! -s "$here/err" ] || fail "$script --help says: $(cat "$here/out" "$here/err")" ;;
  esac
  case $how in
    tested | of) grep -q "${script##*/}" "$what" || fail "$what does not have $script" ;;
    needs) python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$script" || fail "$script does not compile" ;;
    *)
      # shellcheck disable=SC2086  # words
      run "$script" $what >"$here/out" 2>&1 </dev/null
      rc=$?
      [[ " $how " == *" $rc "* ]] || fail "$script $what: exit code $rc, not $how: $(tail -5 "$here/out")" ;;
  esac
done <"$here/found"
while IFS='|' read -r script _; do
  script=$(xargs <<<"$script")
  [ -z "$script" ] || grep -qxF "$script" "$here/found" || fail "the table has $script, which is not there"
done <<<"$table"
echo "$ran scripts"
exit $bad

#!/usr/bin/env bash
# wt look: its page has the figures that a kernel's access patterns have, beside the lines of the
# source, and asks no network; its JSON has the page's figures; what is not known is told with the near
# names.
# Usage: wt_look_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-look-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
refused() {  # refused TEXT ARGUMENTS...: exit code 2, and these words
  local said rc=0
  said=$("$wt" look "${@:2}" --out "$here/refused.html" 2>&1) || rc=$?
  [ $rc -eq 2 ] || fail "wt look ${*:2}: exit code $rc: $said"
  grep -qF -- "$1" <<<"$said" || fail "wt look ${*:2}: no '$1' in: $said"
  [ ! -e "$here/refused.html" ] || fail "wt look ${*:2}: left a page"
}

refused "did you mean 'softmax_forward'" softmax_froward
refused "no kernel or operator is called 'softmax_blok'; did you mean 'softmax_block'" 'softmax_blok<float>'
said=$(PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/tools/wt/look/kernel_names_test.py") || fail "the names of kernels: $said"
if [ ! -x "${wt%/*}/wt_race" ]; then
  refused "WARPTAPE_FLAVOURS='plain;race'" softmax
  echo "SKIPPED: no wt_race: this build has no instrumented kernels"
  [ $bad -eq 0 ] && exit 77
  exit 1
fi
refused "did you mean 'naive'" softmax_forward:naiv
refused "softmax_forward has shapes 0 to" softmax --op 99
refused "which has the form of" softmax --op 3y4
refused "does not take" softmax_forward:warp --op 2x100000

# Rows of 304 floats: every lane of naive reads a row of its own, one sector for each of its 5 lanes.
said=$("$wt" look softmax_forward:naive --op 5x304 --source "$root" --out "$here/naive.html") ||
  fail "exit code $?"
grep -qF "$here/naive.html" <<<"$said" || fail "the page's path is not said: $said"
page=$(cat "$here/naive.html")
has() { grep -qF -- "$1" <<<"$page" || fail "no $1"; }
has '<td>device loads</td><td>912</td><td>5.0</td><td class="waste">5.00</td><td>1.00</td>'
has '<td>device stores</td><td>304</td><td>5.0</td><td class="waste">5.00</td><td>1.00</td>'
has '6080 bytes read and 6080 written'
has 'largest = max(largest, A(x[i]))'
has 'softmax_naive&lt;float&gt;'
grep -qE 'https?:|src=|url\(|@import|<script' <<<"$page" && fail "the page asks for something"


# The PTX with counts, where the emulator is: of this kernel alone, and of one launch of it: two
# warps, of which the first has the five lanes with a row.
if compgen -G "${wt%/*}/emulator/libcudart.so.*" >/dev/null; then
  has 'PTX of softmax_naive&lt;float&gt;'
  [ "$(grep -c '<h2>PTX of' <<<"$page")" -eq 1 ] || fail "PTX of other kernels"
  has '<td>special functions</td>'
  # Lanes that a branch has parted meet again when the emulator's seed has it so: at most five.
  grep -qE '<td>[0-9]+</td><td>[1-5](\.[0-9]+)?</td><td>[1-5](\.[0-9]+)?</td><td><code>(@!?%p[0-9]+ )?ld.global' <<<"$page" ||
    fail "no loads by at most five lanes: $(grep -oE '<td>[^<]*</td><td>[^<]*</td><td>[^<]*</td><td><code>ld.global[^<]*' <<<"$page")"
  grep -q '_param_' <<<"$page" && fail "parameters have the function's long name"
else
  has 'there is no emulator beside wt'
fi
"$wt" look softmax_forward:naive --op 5x304 --source "$root" --no-ptx --out "$here/bare.html" >/dev/null ||
  fail "exit code $?"
grep -q 'PTX' "$here/bare.html" && fail "--no-ptx has PTX"

# A kernel that the table of machine code has: its registers bound the occupancy.
"$wt" look softmax --op 64x256 --source "$root" --out "$here/warp.html" >/dev/null || fail "exit code $?"
page=$(cat "$here/warp.html")
has 'softmax_warp&lt;f32,'
has '<tr data-limit="registers">'
has 'H200, modelled'
has '<th scope="row">instructions of a turn, by pipe</th>'

# Asynchronous copies are loads and stores, at the line that asks for them.
"$wt" look matmul:pipelined --dtype f16 --op 64x64x64 --source "$root" --out "$here/copies.html" >/dev/null ||
  fail "exit code $?"
page=$(cat "$here/copies.html")
has '<td>shared stores</td>'
grep -qE 'shared atomics|\(null\)' <<<"$page" && fail "a copy is no atomic, and has a place"

# The same for programs: one JSON object and nothing else on standard output, with the page's numbers.
as_json() {  # as_json PAGE ARGUMENTS...
  "$wt" look "${@:2}" --source "$root" --json >"$here/look.json" 2>"$here/look.err" ||
    fail "wt look ${*:2} --json: exit code $?: $(cat "$here/look.err")"
  [ "$(wc -l <"$here/look.json")" -eq 1 ] || fail "wt look ${*:2} --json: not one line"
  said=$(PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/tools/wt/look/same_figures.py" "$here/look.json" "$1") ||
    fail "wt look ${*:2} --json: $said"
}
(cd "$here" && as_json naive.html softmax_forward:naive --op 5x304
  as_json warp.html softmax --op 64x256
  as_json copies.html matmul:pipelined --dtype f16 --op 64x64x64
  exit $bad) || bad=1
ls "$here"/*-*.html >/dev/null 2>&1 && fail "--json left a page"
is_in() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not ('"$1"'))' "$here/look.json" || fail "--json: not $1"; }
"$wt" look softmax:naive --op 5x304 --no-ptx --json --source "$here" >"$here/look.json" || fail "--no-ptx --json: exit code $?"
is_in 'd["contract"] == "softmax_forward" and d["also"] == ["softmax_backward"] and not d["chosen"]'
is_in '[(t["what"], t["requests"], t["units"], t["least_units"]) for t in d["kernels"][0]["totals"]] == [
  ("device loads", 912, 4560, 912), ("device stores", 304, 1520, 304)]'
is_in 'd["kernels"][0]["read_bytes"] == 6080 and d["kernels"][0]["machine_code"] is None'
is_in 'd["kernels"][0]["occupancy"]["registers_a_thread"] is None'
is_in 'all(a["first_sectors"][4] == {"offset": 4 * 1216, "bytes": 4, "lanes": [4]} for f in d["kernels"][0]["source"]
  for l in f["lines"] for a in l["accesses"])'
is_in 'd["ptx"] == [] and d["no_ptx"] is None'
said=$("$wt" look softmax --json --out "$here/both.html" 2>&1)
[ $? -eq 2 ] || fail "--json and --out: $said"
said=$("$wt" look softmax_froward --json 2>/dev/null)
[ $? -eq 2 ] && [ -z "$said" ] || fail "an error of --json is on standard output: $said"

# A device function by the names that reports have for it: a variant that launches it, with operands with which it does.
launches() {  # launches TEXT KERNEL ARGUMENTS...
  said=$("$wt" look "${@:2}" --no-ptx --out "$here/function.html") || fail "wt look ${*:2}: exit code $?"
  grep -qF -- "$1" <<<"$said" || fail "wt look ${*:2}: no '$1' in: $said"
}
launches "softmax_forward:block, " softmax_block
launches ", f32: 1 kernel" softmax_block
grep -qF 'softmax_block&lt;' "$here/function.html" || fail "softmax_block does not launch it"
launches "softmax_forward:block, " softmax_block_kernel
launches ", bf16: " "softmax_block<__nv_bfloat16, 256> [softmax]"
launches "3x700, bf16: " "softmax_block<bf16,256>" --op 3x700
launches "softmax_backward:warp, " wt::softmax_backward_warp
launches "add:" "pointwise<pw::Add, float>"
launches "abs_backward:" "abs_backward<bf16>"
launches "conv_forward:" conv_pack_weights
refused "launches reduce_rows<" reduce_columns --op "37x130 over columns"

# Convolutions of any size: 60 numbers of images, 54 of weights and 27 of results, each of which takes 18 products.
"$wt" look conv_forward:naive --op "1x2x5x6->3 k3 s2 p1 nhwc" --no-ptx --json >"$here/look.json" || fail "a convolution: exit code $?"
is_in 'd["shape"] == "1x2x5x6->3 k3 s2 p1 nhwc" and d["contract_bytes"] == 4 * (60 + 54 + 27) and d["contract_flops"] == 2 * 27 * 18'
"$wt" look conv_backward_weight:naive --op 1x2x5x6 --no-ptx --json >"$here/look.json" || fail "images alone: exit code $?"
is_in 'd["shape"] == "1x2x5x6->64 k3 s1 p1 nchw"'
"$wt" look conv_forward --op "1x4x6x5->3 k5 nhwc bias residual relu" --no-ptx --json >"$here/look.json" ||
  fail "with an epilogue: exit code $?"
is_in 'd["shape"] == "1x4x6x5->3 k5 s1 p2 nhwc bias residual relu"'
refused "is no shape of conv_forward" conv_forward --op "1x2x5x6->3 k3 bias"
refused "--op 1x2x3x3->3 k9 p0: " conv_forward --op "1x2x3x3->3 k9 p0"

# Without --out the file is called like the kernel.
(cd "$here" && "$wt" look softmax:naive --op 0 >/dev/null) || fail "in another folder: exit code $?"
grep -qF '<td>device loads</td>' "$here/softmax_forward-naive.html" || fail "no page by the kernel's name"

# A page that cannot be written leaves the old one.
said=$("$wt" look softmax --out "$here/none/page.html" 2>&1)
[ $? -eq 8 ] || fail "a folder that is not there: $said"
exit $bad

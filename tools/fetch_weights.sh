#!/usr/bin/env bash
# Downloads trained weights for the models of nn/models.h, for those who have the internet, and checks what came.
#
#   tools/fetch_weights.sh [--to FOLDER] [--list] MODEL... | all      FOLDER: weights
#
# A file gets its name only once its SHA-256 is right: what is under FOLDER is whole. Of a file whose name has its
# first eight digits (torchvision's have, and torch.hub checks these) they are checked where no more is known. What was
# cut short goes on where it ended. Files that are there and right are kept; one that is there and wrong is left alone
# and named. A .pth is turned into safetensors beside it by tools/convert_pt.py, which needs Python with torch:
# --no-convert leaves that out.
#
#   models::AnyModel net = models::load("resnet18", "weights/resnet18-f37072fd.safetensors");
#
# Exit codes: 0 all are there; 1 something could not be downloaded or converted, and what to do is said; 2 usage, or
# neither curl nor wget; 3 a file is not what it should be.
set -u

torch=https://download.pytorch.org/models
hub=https://huggingface.co
# model, URL, file, SHA-256 (or its first digits), bytes or "-". WT_FETCH_TABLE=FILE takes another table, and
# WT_TORCH_PYTHON another Python.
table="
resnet18 $torch/resnet18-f37072fd.pth resnet18-f37072fd.pth f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec 46830571
resnet34 $torch/resnet34-b627a593.pth resnet34-b627a593.pth b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f -
resnet50 $torch/resnet50-0676ba61.pth resnet50-0676ba61.pth 0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a 102530333
mobilenet_v2 $torch/mobilenet_v2-b0353104.pth mobilenet_v2-b0353104.pth b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889 -
mobilenet_v3_small $torch/mobilenet_v3_small-047dcff4.pth mobilenet_v3_small-047dcff4.pth 047dcff4 -
efficientnet_b0 $torch/efficientnet_b0_rwightman-7f5810bc.pth efficientnet_b0_rwightman-7f5810bc.pth 7f5810bc -
gpt2 $hub/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors gpt2.safetensors 248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707 548105171
"
if [ -n "${WT_FETCH_TABLE:-}" ]; then
  table=$(cat "$WT_FETCH_TABLE") || exit 2
fi

here=$(cd "$(dirname "$0")" && pwd)
to=weights
convert=yes
models=()
known=$(awk 'NF { print $1 }' <<<"$table")
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --list)
      awk 'NF { printf "%-20s %-40s %s\n", $1, $3, $2 }' <<<"$table"
      exit 0 ;;
    --no-convert) convert= ;;
    --to)
      [ $# -ge 2 ] || { echo "fetch_weights: --to needs a folder" >&2; exit 2; }
      to=$2
      shift ;;
    -*) echo "fetch_weights: unknown option $1 (tools/fetch_weights.sh --help)" >&2; exit 2 ;;
    *) models+=("$1") ;;
  esac
  shift
done
# shellcheck disable=SC2086  # words
[ ${#models[@]} -gt 0 ] || { echo "fetch_weights: which model? all, or" $known >&2; exit 2; }
for model in "${models[@]}"; do
  # shellcheck disable=SC2086
  [ "$model" = all ] || grep -qxF -- "$model" <<<"$known" ||
    { echo "fetch_weights: no weights of '$model'; there are all," $known >&2; exit 2; }
done
name=fetch_weights
# shellcheck source=tools/fetch_files.sh
. "$here/fetch_files.sh"

python() {
  local candidate
  for candidate in "${WT_TORCH_PYTHON:-}" "$here/../bench/peers/.venv/bin/python" python3; do
    [ -n "$candidate" ] && "$candidate" -c 'import numpy, torch' >/dev/null 2>&1 && echo "$candidate" && return
  done
}

# to_safetensors FILE: beside it, unless it is there.
to_safetensors() {
  local out=${1%.pth}.safetensors with
  if [ -e "$out" ]; then
    echo "$out: is there"
    return
  fi
  with=$(python)
  if [ -z "$with" ]; then
    echo "fetch_weights: $1 needs converting, and there is no Python with torch and numpy" >&2
    echo "  Then: tools/convert_pt.py $1" >&2
    worse 1
  elif ! "$with" "$here/convert_pt.py" "$1"; then
    worse 1
  fi
}

fetch() {
  local url file sha bytes
  read -r _ url file sha bytes < <(awk -v m="$1" '$1 == m' <<<"$table")
  if there "$to/$file" "$sha" "$bytes"; then
    [ -z "${wrong:-}" ] || return
  else
    download "$url" "$to/$file.part" "$to/$file" "$sha" "$bytes" || return
    settle "$to/$file.part" "$to/$file" "$sha"
  fi
  case $file in *.pth) [ -z "$convert" ] || to_safetensors "$to/$file" ;; esac
}

for model in "${models[@]}"; do
  if [ "$model" = all ]; then
    for each in $known; do fetch "$each"; done
  else
    fetch "$model"
  fi
done
exit $code

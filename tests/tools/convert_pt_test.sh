#!/usr/bin/env bash
# tools/convert_pt.py: what torch.save wrote, in every form that people have, comes out with its names,
# dtypes, shapes and bytes; what cannot be converted is refused by name and leaves nothing behind.
# Needs a Python with torch and numpy: WT_TORCH_PYTHON, that of bench/peers, or python3.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
convert=$root/tools/convert_pt.py
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
bad=0
fail() { echo "FAILED $*"; bad=1; }
# refused CODE WORDS FILE [OPTION...]: by `python`, with these words, and nothing is written.
refused() {
  local code=$1 words=$2 rc=0 before
  before=$(ls)
  "$python" "$convert" "${@:3}" >out 2>&1 || rc=$?
  [ $rc -eq "$code" ] || fail "$3: exit code $rc, wanted $code: $(cat out)"
  grep -qF -- "$words" out || fail "$3: '$words' is not among: $(cat out)"
  rm out
  [ "$(ls)" = "$before" ] || fail "$3: left something behind: $(ls)"
}

# Without torch: -S keeps the packages of this Python away.
cp "$root/tests/reference/weights/tiny.pt" .
cat >no_torch <<'END'
#!/bin/sh
exec python3 -S -I "$@"
END
chmod +x no_torch
python=./no_torch
refused 2 "pip install torch numpy" tiny.pt
rm no_torch

python=
for candidate in "${WT_TORCH_PYTHON:-}" "$root/bench/peers/.venv/bin/python" python3; do
  [ -n "$candidate" ] && "$candidate" -c 'import numpy, torch' >/dev/null 2>&1 && python=$candidate && break
done
if [ -z "$python" ]; then
  [ $bad -eq 0 ] || exit 1
  echo "SKIPPED: no Python with torch and numpy (bench/peers/setup.sh makes one)"
  exit 77
fi

cat >make.py <<'END'
import torch
from torch import nn

torch.manual_seed(1)
save = torch.save
plain = {
    "f64": torch.randn(3, dtype=torch.float64), "f16": torch.randn(5).half(),
    "bf16": torch.randn(2, 3).bfloat16(), "i64": torch.arange(4), "i32": torch.arange(3).int(),
    "i16": torch.arange(3).short(), "i8": torch.arange(-2, 2).char(), "u8": torch.arange(5).byte(),
    "bool": torch.tensor([True, False, True]), "f8": torch.randn(4).to(torch.float8_e4m3fn),
    "scalar": torch.tensor(7), "nothing": torch.zeros(0, 4), "transposed": torch.randn(3, 4).t(),
    "every_other": torch.arange(10.0)[::2], "expanded": torch.ones(1, 3).expand(2, 3),
    "nan": torch.tensor([float("nan"), float("inf"), -0.0]), "na\u00efve \"name\"": torch.ones(1),
}
shared = torch.randn(2, 2)
plain["tied.a"] = plain["tied.b"] = shared
plain["part"] = shared[1]
plain["parameter"] = nn.Parameter(torch.randn(2))
save(plain, "plain.pt")
# Of before 1.6; PyTorch 2.15 itself cannot read its views of shared memory back.
legacy = {k: plain[k].clone() for k in ("f64", "bf16", "i64", "bool", "scalar", "transposed", "nan")}
save(legacy, "legacy_new.pt")
save(legacy, "legacy.pt", _use_new_zipfile_serialization=False)
save({"epoch": 3, "step": torch.tensor(9), "state_dict": plain, "optimizer": {"lr": 0.1}}, "nested.pt")
save({"model": {"state_dict": {"module._orig_mod." + k: v for k, v in plain.items()}}}, "wrapped.pth")
save({"weights_of_mine": {"inner": plain}, "more": {}}, "named.bin")
save({"w": torch.ones(2), "_extra_state": {"version": 1}, "count": 5}, "extra.pt")
save(nn.Linear(2, 2), "whole.pt")
torch.jit.script(nn.Linear(2, 2)).save("script.pt")
save([torch.ones(2)], "list.pt")
save({"optimizer": {"lr": 0.1}}, "none.pt")
save({"c": torch.ones(2, dtype=torch.complex128)}, "complex.pt")
byte = torch.arange(12, dtype=torch.uint8).reshape(3, 4)
rare = {"c": torch.complex(torch.randn(3, 2), torch.randn(3, 2)),
        "conj": torch.complex(torch.randn(3), torch.randn(3)).conj(),
        **{n: byte.view(getattr(torch, d)) for n, d in
           (("f4", "float4_e2m1fn_x2"), ("e8m0", "float8_e8m0fnu"), ("e4m3fnuz", "float8_e4m3fnuz"),
            ("e5m2fnuz", "float8_e5m2fnuz")) if hasattr(torch, d)}}
save(rare, "rare.pt")
save({"s": torch.eye(3).to_sparse()}, "sparse.pt")
save({1: torch.ones(2)}, "number.pt")
END
cat >compare.py <<'END'
import json, struct, sys
import torch

names = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
         "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn"}
want = torch.load("plain.pt", weights_only=True)
raw = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
assert size % 8 == 0
header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
assert header.pop("__metadata__") == {"format": "pt"}
assert set(header) == set(want), set(header) ^ set(want)
at = 0
for name, e in header.items():
    begin, end = e["data_offsets"]
    assert begin == at, name
    at = end
    t = want[name].detach().contiguous()
    assert names[e["dtype"]] == str(t.dtype).removeprefix("torch."), name
    assert e["shape"] == list(t.shape), name
    assert data[begin:end] == t.reshape(-1).view(torch.uint8).numpy().tobytes(), name
    assert begin % t.element_size() == 0, name
assert at == len(data)
END
cat >compare_rare.py <<'END'
import json, struct, sys
import torch

want = torch.load("rare.pt", weights_only=True)
raw = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
header.pop("__metadata__")
assert set(header) == set(want), set(header) ^ set(want)
names = {"c": "C64", "conj": "C64", "f4": "F4", "e8m0": "F8_E8M0", "e4m3fnuz": "F8_E4M3FNUZ", "e5m2fnuz": "F8_E5M2FNUZ"}
for name, e in header.items():
    t = want[name].resolve_conj()
    assert e["dtype"] == names[name], name
    assert e["shape"] == ([3, 8] if name == "f4" else list(t.shape)), name
    assert data[slice(*e["data_offsets"])] == t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(), name
END
"$python" make.py 2>/dev/null || { echo "FAILED torch cannot make the files"; exit 1; }

for file in plain.pt nested.pt wrapped.pth; do
  "$python" "$convert" "$file" >out 2>err || fail "$file: $(cat err)"
  "$python" compare.py "${file%.*}.safetensors" || fail "$file: not what torch has"
done
grep -qF "'module._orig_mod.' is taken from every name" err || fail "the prefix is not reported"
grep -qF "from 'model.state_dict'" out || fail "the member is not reported: $(cat out)"
for file in legacy.pt legacy_new.pt; do "$python" "$convert" $file >out 2>&1 || fail "$file: $(cat out)"; done
cmp -s legacy.safetensors legacy_new.safetensors || fail "equal content gives other files"
"$python" "$convert" named.bin --key weights_of_mine.inner --output named.out >out 2>&1 || fail "--key: $(cat out)"
"$python" compare.py named.out || fail "--key: not what torch has"
"$python" "$convert" extra.pt 2>err >out || fail "extra.pt"
grep -qF "left out, no tensors: _extra_state, count" err || fail "what is left out is not named"
[ "$(stat -c %a extra.safetensors)" = "$(printf %o $((0666 & ~0$(umask))))" ] || fail "the mode is not the umask's"
"$python" "$convert" rare.pt 2>err >out || fail "rare.pt: $(cat err)"
grep -qF "warptape does not read: c (C64), conj (C64)" err || fail "what warptape does not read is not named: $(cat err)"
"$python" compare_rare.py rare.safetensors || fail "rare.pt: not what torch has"
rm -f out err

echo old >kept.safetensors
refused 2 "is there already (--force" plain.pt --output kept.safetensors
[ "$(cat kept.safetensors)" = old ] || fail "an output was overwritten"
"$python" "$convert" plain.pt --output kept.safetensors --force >/dev/null || fail "--force"
"$python" compare.py kept.safetensors || fail "--force: not what torch has"
refused 2 "the output is the input" plain.safetensors
refused 2 "has no 'state' (it has weights_of_mine, more)" named.bin --key state
refused 3 "no state dict is found in it; it has weights_of_mine, more (--key says which)" named.bin --output x
refused 3 "there is no such file" absent.pt
refused 3 "it holds more than tensors and plain values" whole.pt
refused 3 "is a TorchScript archive" script.pt
refused 3 "is a list, no state dict" list.pt
refused 3 "no state dict is found in it; it has optimizer" none.pt
refused 3 "tensor 'c' is complex128, which the format does not have" complex.pt
refused 3 "tensor 's' is sparse_coo" sparse.pt
refused 3 "a tensor is named 1, which is no text" number.pt
head -c 900 plain.pt >cut.pt
refused 3 "cut.pt: torch.load: " cut.pt
echo hello >junk.pt
refused 3 "is nothing that torch.save writes" junk.pt
refused 8 "cannot be written: No such file or directory" plain.pt --output no/such/folder.safetensors
rc=0
(ulimit -f 1 && "$python" "$convert" plain.pt --output large.safetensors --force) >out 2>&1 || rc=$?
[ $rc -eq 8 ] || fail "a write that fails half way: exit code $rc: $(cat out)"
[ -z "$(find . -name "*large*")" ] || fail "a write that fails half way left something behind"
rm out
mkdir folder
refused 8 "cannot be written: it is no regular file" plain.pt --output folder --force
mkfifo pipe
refused 8 "cannot be written: it is no regular file" plain.pt --output pipe --force
[ $bad -eq 0 ] && echo "convert_pt: all is well with $("$python" -c 'import torch; print("PyTorch", torch.__version__)')"
exit $bad

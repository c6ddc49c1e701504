#!/usr/bin/env bash
# tools/fetch_weights.sh against a server of its own on the loopback, one that can go on in the middle of a file: what
# is right gets its name, what is not gets none, parts are gone on with, and .pth files are turned into safetensors.
set -uo pipefail
root=$(cd "${0%/*}/../.." && pwd)
command -v curl >/dev/null || { echo "SKIPPED: no curl"; exit 77; }
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-weights-XXXXXX")
server=
trap '[ -z "$server" ] || kill $server; rm -rf "$here"' EXIT
cd "$here" || exit 1
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
# expect CODE TEXT ARGS...: exit code, and a part of what is said
expect() {
  local code=$1 text=$2 rc
  shift 2
  "$root/tools/fetch_weights.sh" "$@" >out 2>&1 </dev/null
  rc=$?
  [ $rc -eq "$code" ] || fail "fetch_weights $*: exit code $rc, expected $code: $(cat out)"
  grep -qF -- "$text" out || fail "fetch_weights $*: no '$text' in: $(cat out)"
}
sum() { sha256sum <"$1" | cut -d' ' -f1; }

# The table that is there: five columns, sums of 64 digits or the first eight, which a name has; no model twice.
expect 0 "resnet18-f37072fd.pth" --list
[ "$(wc -l <out)" -eq 7 ] || fail "the table has $(wc -l <out) rows"
expect 0 "Exit codes" --help
expect 2 "which model? all, or resnet18" --to x
expect 2 "no weights of 'resnet19'" resnet19
expect 2 "unknown option" --form
# Called by its name alone, from its own folder.
(cd "$root/tools" && WT_FETCH_TABLE=/dev/null bash fetch_weights.sh --to "$here/none" all) >out 2>&1 || fail "from tools/: $(cat out)"
sed -n '/^table="/,/^"$/p' "$root/tools/fetch_weights.sh" | grep -v '^table="\|^"$' >rows
awk 'NF != 5 || $4 ~ /[^0-9a-f]/ || (length($4) != 64 && length($4) != 8)' rows | grep -q . && fail "a row is not as the others"
while read -r model _ file sha _; do
  case $file in *.pth) case $file in *-"${sha:0:8}".pth) ;; *) fail "$model: the name of $file is not its sum's" ;; esac ;; esac
done <rows
[ -z "$(cut -d' ' -f1 rows | sort | uniq -d)" ] || fail "a model twice"

cat >serve.py <<'END'
import http.server, os, re

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = "server" + self.path
        if not os.path.isfile(path):
            return self.send_error(404)
        body = open(path, "rb").read()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(asked[1]) if asked else 0
        with open("asked", "a") as log:
            print(self.path, first, file=log)
        if asked and first >= len(body):
            self.send_response(416)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        self.wfile.write(body[first:])

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open("port.tmp", "w") as file:
    file.write(str(server.server_port))
os.rename("port.tmp", "port")
server.serve_forever()
END
mkdir server
python3 serve.py 2>server.log &
server=$!
for _ in $(seq 200); do [ -e port ] && break; sleep 0.1; done
[ -e port ] || { echo "SKIPPED: no server on the loopback: $(cat server.log)"; exit 77; }
url=http://127.0.0.1:$(cat port)

seq 50000 >server/a.safetensors
seq 300 >server/b.safetensors
cp "$root/tests/reference/weights/tiny.pt" server/tiny.pth
a=$(sum server/a.safetensors) b=$(sum server/b.safetensors) t=$(sum server/tiny.pth)
cat >table <<T
a $url/a.safetensors a.safetensors $a $(stat -c %s server/a.safetensors)
b $url/b.safetensors b-named.safetensors ${b:0:8} -
tiny $url/tiny.pth tiny-${t:0:8}.pth $t -
T
export WT_FETCH_TABLE=$here/table
expect 0 "a.safetensors: right" --to d --no-convert all
cmp -s server/a.safetensors d/a.safetensors && cmp -s server/b.safetensors d/b-named.safetensors || fail "other content"
[ "$(cd d && echo *)" = "a.safetensors b-named.safetensors tiny-${t:0:8}.pth" ] || fail "there are $(ls -A d)"
grep -q "b-named.safetensors: its SHA-256 begins with ${b:0:8}" out || fail "nothing is said of b: $(cat out)"
rm asked
expect 0 "a.safetensors: is there, and right" --to d --no-convert all
[ ! -e asked ] || fail "what is there was fetched again"

# What was begun is gone on with, from where it ended; one of other content is fetched anew.
mkdir e f
head -c 100000 server/a.safetensors >e/a.safetensors.part
expect 0 "a.safetensors: right" --to e a
cmp -s server/a.safetensors e/a.safetensors || fail "other content when gone on with"
[ "$(cat asked)" = "/a.safetensors 100000" ] || fail "the server was asked for: $(cat asked)"
head -c 100000 /dev/zero >f/a.safetensors.part
expect 0 "a.safetensors: right" --to f a
cmp -s server/a.safetensors f/a.safetensors || fail "other content when fetched anew"

# Wrong content gets no name, and what is there is left alone.
seq 2 50001 >server/a.safetensors
expect 3 "is refused: it has" --to g a
[ -z "$(ls -A g)" ] || fail "left: $(ls -A g)"
sed -i 's/ [0-9]*$/ -/' table
expect 3 "is refused: its SHA-256 is" --to g a
[ -z "$(ls -A g)" ] || fail "left: $(ls -A g)"
echo 301 >>server/b.safetensors
expect 3 "is refused: its SHA-256 is $(sum server/b.safetensors), expected ${b:0:8}" --to g b
echo mine >g/a.safetensors
expect 3 "is there and is not what it should be" --to g a
[ "$(cat g/a.safetensors)" = mine ] || fail "the user's file was changed"

# Without the file, and without the server: what is begun stays, and it is said where to put which file.
rm server/a.safetensors
expect 1 "put it at h/a.safetensors" --to h a
kill $server
wait $server 2>/dev/null
server=
mkdir -p h
head -c 1000 /dev/zero >h/a.safetensors.part
expect 1 "put it at h/a.safetensors" --to h a
[ "$(stat -c %s h/a.safetensors.part)" = 1000 ] && [ ! -e h/a.safetensors ] || fail "what was begun is gone"

# A .pth and the same as safetensors.
python=
for candidate in "${WT_TORCH_PYTHON:-}" "$root/bench/peers/.venv/bin/python" python3; do
  [ -n "$candidate" ] && "$candidate" -c 'import numpy, torch' >/dev/null 2>&1 && python=$candidate && break
done
if [ -n "$python" ]; then
  expect 0 "1 tensors, 12 bytes" --to d tiny
  [ -s "d/tiny-${t:0:8}.safetensors" ] || fail "nothing was converted: $(cat out)"
  expect 0 "tiny-${t:0:8}.safetensors: is there" --to d tiny
else
  echo "no Python with torch: what is converted is left out"
  expect 1 "Then: tools/convert_pt.py d/tiny-${t:0:8}.pth" --to d tiny
fi
[ $bad -eq 0 ] && echo "fetch_weights: all is well"
exit $bad

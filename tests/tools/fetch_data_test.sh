#!/usr/bin/env bash
# tools/fetch_data.sh on made tables of file:// URLs: what is right gets its name, what is not gets
# none; parts are gone on with; without a server it says where to put which file.
set -uo pipefail
root=$(cd "${0%/*}/../.." && pwd)
command -v curl >/dev/null || { echo "SKIPPED: no curl, and wget has no file://"; exit 77; }
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-fetch-XXXXXX")
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
# expect CODE TEXT ARGS...: exit code, and a part of what is said
expect() {
  local code=$1 text=$2 rc
  shift 2
  "$root/tools/fetch_data.sh" "$@" >out 2>&1 </dev/null
  rc=$?
  [ $rc -eq "$code" ] || fail "fetch_data $*: exit code $rc, expected $code: $(cat out)"
  grep -qF -- "$text" out || fail "fetch_data $*: no '$text' in: $(cat out)"
}
sum() { sha256sum <"$1" | cut -d' ' -f1; }

# The table that is there: five columns, sums of 64 digits, no file twice.
expect 0 "cifar-100-binary.tar.gz" --list
[ "$(wc -l <out)" -eq 19 ] || fail "the table has $(wc -l <out) rows"
expect 0 "Exit codes" --help
expect 2 "which set? all, or cifar10" --to x
expect 2 "no set 'cifar'" cifar
expect 2 "unknown option" --form
# Called by its name alone, from its own folder.
(cd "$root/tools" && WT_FETCH_TABLE=/dev/null bash fetch_data.sh --to "$here/none" all) >out 2>&1 || fail "from tools/: $(cat out)"
awk '/^table="/,/^"$/' "$root/tools/fetch_data.sh" | grep -v '^table="\|^"$' >rows
awk 'NF != 5 || ($4 != "-" && ($4 ~ /[^0-9a-f]/ || length($4) != 64)) || $5 !~ /^[0-9]+$/' rows | grep -q . && fail "a row is not as the others"
[ "$(awk '{ print $1, $3 }' rows | sort | uniq -d | wc -l)" -eq 0 ] || fail "a file twice"
# The sums are those of the real files, where they are.
real=$root/../shared/data
if [ -d "$real" ]; then
  while read -r set _ file sha bytes; do
    [ -e "$real/$set/$file" ] || continue
    [ "$(sum "$real/$set/$file") $(stat -c %s "$real/$set/$file")" = "$sha $bytes" ] || fail "$set/$file"
  done <rows
fi

mkdir server
seq 50000 >server/a.txt
seq 10 >server/b.txt
mkdir server/inside && seq 300 >server/inside/x.bin && seq 400 >server/inside/y.bin
tar -czf server/set.tar.gz -C server inside
url=file://$here/server
cat >table <<T
one $url/a.txt a.txt $(sum server/a.txt) $(stat -c %s server/a.txt)
one $url/b.txt b.txt - 21
two $url/set.tar.gz inside/x.bin $(sum server/inside/x.bin) -
two $url/set.tar.gz inside/y.bin - $(stat -c %s server/inside/y.bin)
T
export WT_FETCH_TABLE=$here/table
expect 0 "a.txt: right" --to d all
cmp -s server/a.txt d/one/a.txt && cmp -s server/inside/y.bin d/two/y.bin || fail "other content"
[ "$(cd d && echo */*)" = "one/a.txt one/b.txt two/x.bin two/y.bin" ] || fail "there are $(ls -A d/*)"
[ -z "$(find d -name '.*' ! -name .)" ] || fail "hidden files are left"
grep -q "b.txt: its size is right; no check sum of it is known" out || fail "nothing is said of b.txt"
expect 0 "a.txt: is there, and right" --to d all

# A part that was begun is gone on with; one of other content is fetched anew.
mkdir -p e/one f/one
head -c 100000 server/a.txt >e/one/a.txt.part
expect 0 "a.txt: right" --to e one
head -c 100000 /dev/zero >f/one/a.txt.part
expect 0 "a.txt: right" --to f one
cp server/a.txt e/one/a.txt.part && rm e/one/a.txt
mv server/a.txt server/away
expect 0 "a.txt: right" --to e one  # it was whole already
# Without a server: where to put which file, and what was begun stays.
head -c 1000 server/away >f/one/a.txt.part && rm f/one/a.txt
expect 1 "put it at f/one/a.txt" --to f one
[ ! -e f/one/a.txt ] || fail "a file that could not be had"
mv server/away server/a.txt

# Wrong content is refused, gets no name, and what is there is left alone.
rm -rf d
sed -i 's/2/3/' server/a.txt
expect 3 "is refused: its SHA-256 is" --to d one
[ ! -e d/one/a.txt ] && [ ! -e d/one/a.txt.part ] || fail "a wrong file was kept"
[ -e d/one/b.txt ] || fail "the other file was not fetched"
echo "mine" >d/one/a.txt
expect 3 "is there and is not what it should be" --to d one
[ "$(cat d/one/a.txt)" = mine ] || fail "the user's file was changed"
echo 1 >>server/inside/x.bin && tar -czf server/set.tar.gz -C server inside
expect 3 "inside/x.bin: its SHA-256 is" --to d two
[ -z "$(ls -A d/two)" ] || fail "left: $(ls -A d/two)"
head -c 100 server/set.tar.gz >server/cut && mv server/cut server/set.tar.gz
expect 3 "or is damaged" --to d two
ln -sf /etc/passwd server/inside/y.bin && seq 300 >server/inside/x.bin
tar -czf server/set.tar.gz -C server inside
expect 3 "inside/y.bin is no regular file" --to d two
exit $bad

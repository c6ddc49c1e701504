#!/usr/bin/env bash
# `wt data info | pack | verify` from outside: formats, JSON, damage, interrupts, disks that are
# full, and that a pack is there whole or not at all. Usage: wt_data_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-data-XXXXXX")
trap 'rm -rf "$here"' EXIT
. "$root/tests/support/tiny_fashion.sh"
bad=0
fail() { echo "FAILED: $*"; bad=1; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" | head -n 1; }
# expect CODE TEXT ARGS...: exit code, and a part of what is said
expect() {
  local code=$1 text=$2 rc
  shift 2
  "$wt" data "$@" >"$here/out" 2>"$here/err" </dev/null
  rc=$?
  [ $rc -eq "$code" ] || fail "wt data $*: exit code $rc, expected $code: $(cat "$here/out" "$here/err")"
  grep -qF -- "$text" "$here/out" "$here/err" || fail "wt data $*: no '$text' in: $(cat "$here/out" "$here/err")"
}
cd "$here" || exit 1

# --- What things are ---
tiny_fashion "$here/fashion" 80 20
mkdir images images/cats images/dogs
for i in 1 2 3; do printf 'P5 2 1 255\na%d' $i >images/cats/$i.pgm; done
printf 'P6 1 1 255\nabc' >images/dogs/x.ppm
echo "nothing" >images/dogs/readme.txt
printf 'a,b\n1,x\n2,y\n' >t.csv
printf 'v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n' >t.obj
printf 'one\ntwo\nthree' >t.txt
head -c 6146 /dev/zero >cifar.dat
head -c 6148 /dev/zero >cifar100.dat
head -c 3001 /dev/urandom >junk
printf '\xff\x00\x01\xfe\xfd' >short
: >empty
expect 0 "IDX files, 76 KiB, 100 samples, 10 classes" info fashion
expect 0 "folder of images" info images
grep -q "cats .*3 images" out && grep -q "1 other files" out || fail "images: $(cat out)"
expect 0 "CSV" info t.csv
grep -Eq "^  a +number +2 different" out && grep -Eq "^  b +words" out || fail "csv: $(cat out)"
expect 0 "faces     i64  [1, 3]" info t.obj
expect 0 "text, 13 bytes, 3 lines" info t.txt
printf 'P5abc\n' >p5.txt
expect 0 "text, 6 bytes, 1 lines" info p5.txt
cp -r fashion dotted  # as some copies of MNIST have it
for f in dotted/*-idx*; do mv "$f" "${f/-idx/.idx}"; done
expect 0 "IDX files, 76 KiB, 100 samples, 10 classes" info dotted
expect 0 "12 of Fashion-MNIST: 80 images" show dotted --count 12 --out dotted.html
expect 0 "CIFAR-10, 6 KiB, 2 samples, 10 classes" info cifar.dat
expect 0 "CIFAR-100, 6 KiB, 2 samples, 100 classes" info cifar100.dat
expect 3 "nothing that is known: it begins with" info junk
grep -q "known are IDX" err || fail "no list of what is known"
expect 3 "the file is empty" info empty
expect 3 "No such file" info none t.txt
grep -q "^t.txt: text" out || fail "the second path was not looked at"
expect 2 "paths" info
[ "$("$wt" data info t.txt t.csv --json | wc -l)" -eq 2 ] || fail "not a line a path"
[ "$("$wt" data info fashion --json | field samples)" = 100 ] || fail "json of info"

# --- Packs ---
expect 0 "80 records" pack fashion --out p --shard-bytes 20KB
[ ! -e p.partial ] || fail "p.partial was left"
expect 0 "x  u8   [1, 28, 28]" info p
expect 0 "they are read (wt data verify)" info p
expect 2 "is there already" pack fashion --out p
expect 0 '"records":20' pack fashion --out p --split test --force --json
expect 0 '"records":100' pack fashion --out p --split all --force --shard-bytes 20KB --json
[ "$(ls)" = "$(ls | grep -v 'p\.')" ] || fail "something was left beside p: $(ls)"
expect 2 "no pack: --force replaces packs alone" pack fashion --out images --force
expect 0 "4 records" pack images --out q
expect 0 "name   string" info q
expect 2 "one pack has one kind of record" pack fashion images --out r
expect 0 "160 records" pack fashion fashion --out r
expect 0 "3 records" pack t.txt --out s
expect 0 "4 records" pack cifar.dat cifar.dat --out u
expect 2 "is mesh, which cannot be packed" pack t.obj --out v
expect 2 "is no number of bytes" pack t.txt --out v --shard-bytes much
expect 0 "100 records" pack p --out again --shard-bytes 1MiB
expect 3 "No such file" pack none --out v
[ ! -e v ] && [ ! -e v.partial ] || fail "a pack that failed left something"
expect 8 "v" pack t.txt --out t.txt/v
expect 8 "v" pack t.txt --out /proc/v

# --- Check sums ---
expect 0 "whole: shards, 4 files, 100 records" verify p
expect 0 "verified: they are mapped" info p
expect 0 "whole" verify p/00001.wtshard q
expect 2 "which has no check sums" verify t.txt
cp -r p damaged
printf 'X' | dd of=damaged/00001.wtshard bs=1 seek=2000 conv=notrunc status=none
expect 3 "00001.wtshard: record 2 at byte" verify damaged p
grep -q "^p: whole" out || fail "the second pack was not checked"
"$wt" data verify damaged --json >out 2>err && fail "damage is exit code 0"
[ "$(field record <out)" = 2 ] && [ "$(field damaged <out)" = 1 ] || fail "json: $(cat out)"
[ ! -e damaged/VERIFIED ] || fail "a damaged pack has a stamp"
touch p/00000.wtshard
expect 0 "they are read (wt data verify)" info p

# --- TFRecord, where the files are ---
real=$root/../shared/data/tfrecord
if [ -d "$real" ]; then
  records=("$real"/toy.nocompress-tfe-tfrecord-0000?-of-00002)
  expect 0 "whole: TFRecord, 1 file, 3 records" verify "${records[0]}"
  expect 0 "TFRecord" verify "$real/toy.tfe-tfrecord-00000-of-00002"  # gzip
  expect 0 "4 records" pack "${records[@]}" --raw --out tf
  expect 0 "record  bytes" info tf
  cp "${records[0]}" bad.tfrecord
  printf 'X' | dd of=bad.tfrecord bs=1 seek=300 conv=notrunc status=none
  expect 3 "damaged: bad.tfrecord: record 1 at byte" verify bad.tfrecord
fi

# --- LMDB, where this build has it ---
if "$wt" info | grep -Eq "^  lmdb +on"; then
  expect 0 "80 records" pack fashion --to lmdb --out l
  expect 0 "x  u8   [1, 28, 28]" info l
  expect 0 "whole: LMDB, 1 file, 80 records" verify l
  expect 2 "is there already" pack fashion --to lmdb --out l
  expect 0 '"records":20' pack fashion --to lmdb --out l --split test --force --json
  expect 0 "20 records" pack l --out from_l
  expect 0 "x  u8   [1, 28, 28]" info from_l
  cp l/data.mdb cut.mdb && truncate -s 20000 cut.mdb
  expect 3 "truncated download?" info cut.mdb
  expect 3 "truncated download?" verify cut.mdb
  cp l/data.mdb flipped.mdb
  printf 'XY' | dd of=flipped.mdb bs=1 seek=14000 conv=notrunc status=none
  expect 3 "is damaged: its CRC is another" verify flipped.mdb
  theirs=$root/../shared/data/lmdb/ref_env_64
  if [ -d "$theirs" ]; then
    expect 0 "subdb  50 entries" info "$theirs"
    expect 0 "whole: LMDB, without check sums, 1 file, 50 records" verify "$theirs"
    expect 0 "50 records" pack "$theirs" --raw --database subdb --out theirs
    expect 3 "LmdbWriter has not written it" pack "$theirs" --out none
  fi
else
  expect 2 "this build has no liblmdb" pack fashion --to lmdb --out l
fi

# --- Interrupts: the old pack or none ---
seq 3000000 >big.txt
before=$(cat p/*.wtshard | cksum)
for out in p fresh; do
  "$wt" data pack big.txt --out $out --force >out 2>err &
  pid=$!
  until [ -e $out.new.partial ] || [ -e $out.partial ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
  kill -INT $pid
  wait $pid
  rc=$?
  [ $rc -eq 130 ] || fail "interrupted: exit code $rc: $(cat err)"
  grep -q "wt: interrupted" err || fail "nothing is said of the interrupt: $(cat err)"
done
[ ! -e fresh ] && [ ! -e fresh.partial ] && [ ! -e p.new ] && [ ! -e p.new.partial ] || fail "left: $(ls)"
[ "$(cat p/*.wtshard | cksum)" = "$before" ] || fail "the old pack was changed"

# --- A disk that is full ---
(ulimit -f 100; "$wt" data pack big.txt --out p --force >out 2>err)
rc=$?
[ $rc -eq 8 ] || fail "full disk: exit code $rc: $(cat err)"
[ "$(cat p/*.wtshard | cksum)" = "$before" ] || fail "a full disk changed the old pack"
[ ! -e p.new ] && [ ! -e p.new.partial ] || fail "a full disk left: $(ls)"
exit $bad

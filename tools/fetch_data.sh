#!/usr/bin/env bash
# Downloads public data sets, for those who have the internet, and checks what came.
#
#   tools/fetch_data.sh [--to FOLDER] [--list] SET... | all      FOLDER: data
#
# A file gets its name only once its check sum (or, where none is known, its size) is right: what is
# under FOLDER/SET is whole. What was cut short goes on where it ended. Files that are there and
# right are kept; one that is there and wrong is left alone and named.
#
# Exit codes: 0 all are there; 1 something could not be downloaded, and where to put it is said;
# 2 usage, or neither curl nor wget; 3 a file is not what it should be.
set -u

fashion=https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion
kriz=https://www.cs.toronto.edu/~kriz
shakespeare=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare
multi30k=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw
# set, URL, file (of an archive: the member's path), SHA-256 or "-" where none is known, bytes or "-".
# CIFAR's sums are those of the unpacked files. WT_FETCH_TABLE=FILE takes another table.
table="
fashion-mnist $fashion/train-images-idx3-ubyte.gz train-images-idx3-ubyte.gz 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 26421880
fashion-mnist $fashion/train-labels-idx1-ubyte.gz train-labels-idx1-ubyte.gz a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 29515
fashion-mnist $fashion/t10k-images-idx3-ubyte.gz t10k-images-idx3-ubyte.gz 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 4422102
fashion-mnist $fashion/t10k-labels-idx1-ubyte.gz t10k-labels-idx1-ubyte.gz 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 5148
cifar10 $kriz/cifar-10-binary.tar.gz cifar-10-batches-bin/data_batch_1.bin cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 30730000
cifar10 $kriz/cifar-10-binary.tar.gz cifar-10-batches-bin/data_batch_2.bin a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed 30730000
cifar10 $kriz/cifar-10-binary.tar.gz cifar-10-batches-bin/data_batch_3.bin bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67 30730000
cifar10 $kriz/cifar-10-binary.tar.gz cifar-10-batches-bin/data_batch_4.bin 014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48 30730000
cifar10 $kriz/cifar-10-binary.tar.gz cifar-10-batches-bin/data_batch_5.bin 755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add 30730000
cifar10 $kriz/cifar-10-binary.tar.gz cifar-10-batches-bin/test_batch.bin 8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b 30730000
cifar100 $kriz/cifar-100-binary.tar.gz cifar-100-binary/train.bin - 153700000
cifar100 $kriz/cifar-100-binary.tar.gz cifar-100-binary/test.bin - 30740000
tinyshakespeare $shakespeare/input.txt input.txt 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed 1115394
multi30k $multi30k/train.en.gz train.en.gz d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f 568929
multi30k $multi30k/train.de.gz train.de.gz 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6 637044
multi30k $multi30k/val.en.gz val.en.gz 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28 21650
multi30k $multi30k/val.de.gz val.de.gz f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a 24681
multi30k $multi30k/test_2016_flickr.en.gz test_2016_flickr.en.gz 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9 21077
multi30k $multi30k/test_2016_flickr.de.gz test_2016_flickr.de.gz 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8 22890
"
if [ -n "${WT_FETCH_TABLE:-}" ]; then
  table=$(cat "$WT_FETCH_TABLE") || exit 2
fi

to=data
sets=()
known=$(awk 'NF { print $1 }' <<<"$table" | sort -u)
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --list)
      awk 'NF { n = split($3, part, "/"); printf "%-16s %-28s %s\n", $1, part[n], $2 }' <<<"$table"
      exit 0 ;;
    --to)
      [ $# -ge 2 ] || { echo "fetch_data: --to needs a folder" >&2; exit 2; }
      to=$2
      shift ;;
    -*) echo "fetch_data: unknown option $1 (tools/fetch_data.sh --help)" >&2; exit 2 ;;
    *) sets+=("$1") ;;
  esac
  shift
done
[ ${#sets[@]} -gt 0 ] || { echo "fetch_data: which set? all, or" $known >&2; exit 2; }
for set in "${sets[@]}"; do
  [ "$set" = all ] || grep -qxF -- "$set" <<<"$known" ||
    { echo "fetch_data: no set '$set'; there are all," $known >&2; exit 2; }
done
name=fetch_data
. "$(cd "$(dirname "$0")" && pwd)/fetch_files.sh"

# An archive and those of its files that are missing; members come out by their names alone.
unpack() {
  local set=$1 url=$2 archive work member sha bytes
  archive=$to/$set/${url##*/}
  work=$to/$set/.unpacking-$$
  local wanted=()
  while read -r member sha bytes; do
    there "$to/$set/${member##*/}" "$sha" "$bytes" || wanted+=("$member $sha $bytes")
  done < <(awk -v s="$set" -v u="$url" '$1 == s && $2 == u { print $3, $4, $5 }' <<<"$table")
  [ ${#wanted[@]} -gt 0 ] || return
  if [ ! -e "$archive" ]; then
    download "$url" "$archive.part" "$archive" - - || return
    mv -f "$archive.part" "$archive"
  fi
  mkdir -p "$work"
  local row
  for row in "${wanted[@]}"; do
    read -r member sha bytes <<<"$row"
    if ! tar -xzf "$archive" -C "$work" --no-same-owner -- "$member" 2>/dev/null; then
      why="it has no $member, or is damaged"
    elif [ ! -f "$work/$member" ] || [ -L "$work/$member" ]; then
      why="$member is no regular file"
    elif right "$work/$member" "$sha" "$bytes"; then
      settle "$work/$member" "$to/$set/${member##*/}" "$sha"
      continue
    else
      why="$member: $why"
    fi
    echo "fetch_data: $archive is refused: $why" >&2
    rm -f "$archive"
    worse 3
    break
  done
  rm -rf "$work"
  [ $code -eq 3 ] || rm -f "$archive"
}

fetch() {
  local set=$1 url file sha bytes done_archives=
  while read -r _ url file sha bytes; do
    case $url in
      *.tar.gz)
        case $done_archives in *"<$url>"*) continue ;; esac
        done_archives+="<$url>"
        unpack "$set" "$url" ;;
      *)
        there "$to/$set/$file" "$sha" "$bytes" && continue
        download "$url" "$to/$set/$file.part" "$to/$set/$file" "$sha" "$bytes" &&
          settle "$to/$set/$file.part" "$to/$set/$file" "$sha" ;;
    esac
  done < <(awk -v s="$set" '$1 == s' <<<"$table")
}

for set in "${sets[@]}"; do
  if [ "$set" = all ]; then
    for each in $known; do fetch "$each"; done
  else
    fetch "$set"
  fi
done
exit $code

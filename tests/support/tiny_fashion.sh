# tiny_fashion FOLDER TRAIN TEST: IDX files of so many images, a bright band where the class says
tiny_fashion() {
  local prefix n
  mkdir -p "$1"
  for prefix in train t10k; do
    n=$([ $prefix = train ] && echo "$2" || echo "$3")
    LC_ALL=C awk -v n="$n" -v labels="$1/$prefix-labels-idx1-ubyte" '
      function word(v) { return sprintf("\\%03o\\%03o\\%03o\\%03o", int(v / 16777216) % 256,
                                        int(v / 65536) % 256, int(v / 256) % 256, v % 256) }
      function next_random() { seed = (seed * 16807) % 2147483647; return int(seed / 65536) }
      BEGIN {
        seed = n
        printf "\\000\\000\\010\\003%s%s%s", word(n), word(28), word(28)
        printf "\\000\\000\\010\\001%s", word(n) >labels
        for (i = 0; i < n; ++i) {
          label = next_random() % 10
          printf "\\%03o", label >labels
          for (p = 0; p < 784; ++p)
            printf "\\%03o", next_random() % 96 + (int(p / 79) == label ? 128 : 0)
        }
      }' >"$1/$prefix-images-idx3-ubyte"
    for f in images-idx3 labels-idx1; do  # the escapes become bytes
      printf "$(cat "$1/$prefix-$f-ubyte")" >"$1/bytes" && mv "$1/bytes" "$1/$prefix-$f-ubyte"
    done
  done
}

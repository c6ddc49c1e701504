// Data sets of a few samples for tests of the recipes: written by the test, the same everywhere.
#pragma once
#include <string>

#include "warptape/core/types.h"
#include "warptape/tests/support/temp_dir.h"

namespace wt_test {

inline std::string big_endian(wt::u32 v) {
  return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)};
}

// IDX files under the names of Fashion-MNIST: `train` and `test` images of 28 x 28, a bright band
// where the class says, noise elsewhere.
inline void write_tiny_fashion(const TempDir& dir, wt::u32 train, wt::u32 test) {
  wt::u64 random = 1;
  const auto next = [&] {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return wt::u32(random >> 33);
  };
  const auto write = [&](const std::string& prefix, wt::u32 n) {
    std::string images =
        std::string("\0\0\x08\x03", 4) + big_endian(n) + big_endian(28) + big_endian(28);
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(n);
    for (wt::u32 i = 0; i < n; ++i) {
      const wt::u32 label = next() % 10;
      labels += char(label);
      for (wt::u32 p = 0; p < 784; ++p) images += char(next() % 96 + (p / 79 == label ? 128 : 0));
    }
    spit(dir / (prefix + "-images-idx3-ubyte"), images);
    spit(dir / (prefix + "-labels-idx1-ubyte"), labels);
  };
  write("train", train);
  write("t10k", test);
}

// Some lines of text that a byte model can learn from.
inline void write_tiny_text(const std::string& path, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += "line " + std::to_string(i * 7919 % 1000) + " of the tape, which is read backwards\n";
  spit(path, text);
}

}  // namespace wt_test

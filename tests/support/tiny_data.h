// Data sets of a few samples for tests of the recipes: written by the test, the same everywhere.
#pragma once
#include <string>

#include "warptape/core/types.h"
#include "warptape/tests/support/temp_dir.h"

namespace wt_test {

inline std::string big_endian(wt::u32 v) {
  return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)};
}

struct TinyNoise {
  wt::u64 state = 1;
  wt::u32 next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return wt::u32(state >> 33);
  }
};

// A picture of one byte a pixel: a bright band where the class says, noise elsewhere.
inline std::string tiny_picture(TinyNoise& noise, wt::u32 pixels, wt::u32 label) {
  std::string s;
  for (wt::u32 p = 0; p < pixels; ++p)
    s += char(noise.next() % 96 + (p / (pixels / 10 + 1) == label ? 128 : 0));
  return s;
}

// IDX files under the names of Fashion-MNIST: `train` and `test` images of 28 x 28.
inline void write_tiny_fashion(const TempDir& dir, wt::u32 train, wt::u32 test) {
  TinyNoise noise;
  const auto write = [&](const std::string& prefix, wt::u32 n) {
    std::string images =
        std::string("\0\0\x08\x03", 4) + big_endian(n) + big_endian(28) + big_endian(28);
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(n);
    for (wt::u32 i = 0; i < n; ++i) {
      const wt::u32 label = noise.next() % 10;
      labels += char(label);
      images += tiny_picture(noise, 784, label);
    }
    spit(dir / (prefix + "-images-idx3-ubyte"), images);
    spit(dir / (prefix + "-labels-idx1-ubyte"), labels);
  };
  write("train", train);
  write("t10k", test);
}

// The files of CIFAR-10, each of `n` images.
inline void write_tiny_cifar(const TempDir& dir, wt::u32 n) {
  TinyNoise noise;
  const auto write = [&](const std::string& name) {
    std::string records;
    for (wt::u32 i = 0; i < n; ++i) {
      const wt::u32 label = noise.next() % 10;
      records += char(label);
      for (int channel = 0; channel < 3; ++channel) records += tiny_picture(noise, 1024, label);
    }
    spit(dir / (name + ".bin"), records);
  };
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i));
  write("test_batch");
}

// Some lines of text that a byte model can learn from.
inline void write_tiny_text(const std::string& path, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += "line " + std::to_string(i * 7919 % 1000) + " of the tape, which is read backwards\n";
  spit(path, text);
}

}  // namespace wt_test

// Files of CIFAR-10's form with made-up pictures, so that an example reads a data set as it would
// read the real one (tools/fetch_data.sh gets that) and needs none.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "warptape/warptape.h"

class MadeUpCifar10 {
 public:
  // A folder of its own, with so many pictures in each of the five files and in the test's.
  explicit MadeUpCifar10(wt::i64 pictures) {
    std::string name = std::filesystem::temp_directory_path() / "made_up_cifar10.XXXXXX";
    if (!mkdtemp(name.data())) throw wt::CheckpointError("no folder " + name);
    root_ = name;
    for (int i = 1; i <= 5; ++i)
      write("data_batch_" + std::to_string(i) + ".bin", pictures, (i - 1) * pictures);
    write("test_batch.bin", pictures, 5 * pictures);
  }
  ~MadeUpCifar10() { std::filesystem::remove_all(root_); }
  MadeUpCifar10(const MadeUpCifar10&) = delete;
  MadeUpCifar10& operator=(const MadeUpCifar10&) = delete;
  const std::string& root() const { return root_; }

 private:
  // A byte for the class, then the planes of red, green and blue.
  void write(const std::string& name, wt::i64 pictures, wt::i64 first) const {
    const wt::data::SyntheticImages made{{.samples = pictures,
                                          .channels = 3,
                                          .height = 32,
                                          .width = 32,
                                          .noise = 0.3,
                                          .seed = 1,
                                          .first = first}};
    std::vector<wt::i64> all(size_t(pictures), 0);
    std::iota(all.begin(), all.end(), 0);
    const wt::data::Batch batch = made.batch(all);
    const std::vector<wt::u8> pixels =
        clamp(batch.x * 50.0 + 128.0, 0, 255).to(wt::DType::u8).to_vector<wt::u8>();
    const std::vector<wt::u8> classes = batch.y.to_vector<wt::u8>();
    std::ofstream file(root_ + "/" + name, std::ios::binary);
    for (size_t i = 0; i < classes.size(); ++i) {
      file.put(char(classes[i]));
      file.write(reinterpret_cast<const char*>(pixels.data()) + i * 3072, 3072);
    }
  }
  std::string root_;
};

// What a loader alone costs: the rows of `wt bench loader`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::bench {

struct LoaderRow {
  std::string data;  // "FashionMnist": u8, made f32 a batch at a time; "TensorDataset": f32 already
  std::string shape;
  int workers = 0;
  double median_us = 0, p10_us = 0, p90_us = 0, min_us = 0;  // an epoch
  double bytes = 0;                                          // of the batches of an epoch
  double check = 0;  // mean of x^2 + mean of y over an epoch: the same for every loader
};

struct LoaderBenchOptions {
  std::string root;  // of Fashion-MNIST's IDX files
  i64 batch = 64;
  std::vector<int> workers{0, 1, 2};
  int epochs = 7;
};

// Throws DataError.
std::vector<LoaderRow> loader(const LoaderBenchOptions& o);

// Sets the row's times, of `epochs` calls that each go through an epoch and give its samples.
void time_epochs(LoaderRow& row, int epochs, i64 samples, const std::function<i64()>& epoch);

}  // namespace wt::bench

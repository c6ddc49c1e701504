#include "warptape/bench/loader.h"

#include <chrono>
#include <numeric>

#include "warptape/bench/overhead_rows.h"
#include "warptape/data/loader.h"

namespace wt::bench {
namespace {

double check_of(auto& loader) {
  double squares = 0, labels = 0, n = 0;
  for (auto& [x, y] : loader) {
    const float* v = x.template data<float>();
    const i64* l = y.template data<i64>();
    for (i64 i = 0; i < x.numel(); ++i) squares += double(v[i]) * double(v[i]);
    for (i64 i = 0; i < y.numel(); ++i) labels += double(l[i]);
    n += double(y.numel());
  }
  return squares / (n * 28 * 28) + labels / n;
}

template <class D>
LoaderRow row_of(const LoaderBenchOptions& o, const char* data, const D& dataset, int workers) {
  wt::data::Loader<D> loader(dataset,
                             {.batch = o.batch, .shuffle = true, .seed = 1, .workers = workers});
  LoaderRow row{.data = data, .shape = str(dataset.size(), " 1x28x28 b", o.batch)};
  row.workers = workers;
  row.check = check_of(loader);  // also the warm-up
  time_epochs(row, o.epochs, dataset.size(), [&] {
    i64 seen = 0;
    for (auto& batch : loader) seen += batch.size();
    return seen;
  });
  row.bytes = double(dataset.size()) * (28 * 28 * 4 + 8);
  return row;
}

}  // namespace

void time_epochs(LoaderRow& row, int epochs, i64 samples, const std::function<i64()>& epoch) {
  std::vector<double> us;
  for (int e = 0; e < epochs; ++e) {
    const auto start = std::chrono::steady_clock::now();
    const i64 seen = epoch();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                     .count());
    WT_INTERNAL_ASSERT(seen == samples);
  }
  row.median_us = quantile(us, 0.5);
  row.p10_us = quantile(us, 0.1);
  row.p90_us = quantile(us, 0.9);
  row.min_us = quantile(us, 0);
}

std::vector<LoaderRow> loader(const LoaderBenchOptions& o) {
  const wt::data::FashionMnist images(o.root);
  std::vector<i64> all(size_t(images.size()));
  std::iota(all.begin(), all.end(), 0);
  wt::data::Batch whole = images.batch(all);
  const wt::data::TensorDataset tensors(std::move(whole.x), std::move(whole.y));
  std::vector<LoaderRow> rows;
  for (int workers : o.workers) {
    rows.push_back(row_of(o, "FashionMnist", images, workers));
    rows.push_back(row_of(o, "TensorDataset", tensors, workers));
  }
  return rows;
}

}  // namespace wt::bench

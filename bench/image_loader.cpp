#include "warptape/bench/image_loader.h"

#include "warptape/data/image_folder.h"
#include "warptape/data/loader.h"

namespace wt::bench {
namespace {

using Images = wt::data::Loader<wt::data::ImageFolder>;

double check_of(Images& loader) {
  double levels = 0, labels = 0, values = 0, n = 0;
  for (auto& [x, y] : loader) {
    const u8* const v = x.data<u8>();
    const i64* const l = y.data<i64>();
    for (i64 i = 0; i < x.numel(); ++i) levels += v[i];
    for (i64 i = 0; i < y.numel(); ++i) labels += double(l[i]);
    values += double(x.numel()), n += double(y.numel());
  }
  return levels / values + labels / n;
}

}  // namespace

std::vector<LoaderRow> image_loader(const ImageLoaderOptions& o) {
  const wt::data::ImageFolder folder(
      o.root, {.size = o.size, .keep_encoded = o.keep_encoded, .fast_downscale = o.fast_downscale});
  std::vector<LoaderRow> rows;
  for (const int workers : o.workers) {
    Images loader(folder, {.batch = o.batch, .shuffle = true, .seed = 1, .workers = workers});
    LoaderRow row{.data = str("ImageFolder", o.fast_downscale ? " fast" : ""),
                  .shape = str(folder.size(), " 3x", o.size, "x", o.size, " b", o.batch)};
    row.workers = workers;
    row.check = check_of(loader);  // also the warm-up
    time_epochs(row, o.epochs, folder.size(), [&] {
      i64 seen = 0;
      for (auto& batch : loader) seen += batch.size();
      return seen;
    });
    row.bytes = double(folder.size()) * double(3 * o.size * o.size + 8);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace wt::bench

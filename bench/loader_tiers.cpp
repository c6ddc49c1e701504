#include "warptape/bench/loader_tiers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>

#include "warptape/autograd/ops/loss.h"
#include "warptape/bench/copied_bytes.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/profiler.h"
#include "warptape/core/random.h"
#include "warptape/data/loader.h"
#include "warptape/data/resident_loader.h"
#include "warptape/data/shard.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/train_step.h"
#include "warptape/tools/wt/data/pack_source.h"

namespace wt::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr u64 kSeed = 1;

double elapsed(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// The set as shards, a record an image, for as long as this lives.
class Pack {
 public:
  explicit Pack(const std::string& root) {
    std::string pattern = fs::temp_directory_path() / "wt-tiers-XXXXXX";
    if (!::mkdtemp(pattern.data()))
      throw CheckpointError("[bench] no folder can be made as " + pattern);
    folder_ = pattern;
    try {
      write(root);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~Pack() { remove(); }
  Pack(const Pack&) = delete;
  Pack& operator=(const Pack&) = delete;

  std::string path() const { return folder_ + "/train"; }
  // So that the next round reads from the disk. Pages of a file system in memory stay.
  void forget() const {
    for (const auto& file : fs::directory_iterator(path())) {
      const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }

 private:
  void write(const std::string& root) const {
    const tools::PackSource source = tools::open_source(root, {});
    wt::data::ShardWriter w(path(), source.fields);
    for (i64 i = 0; i < source.records; ++i) w.add(source.record(i));
    w.finish();
    (void)wt::data::verify_shards(path());  // its stamp, without which nothing is mapped
  }
  void remove() const {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string folder_;
};

// What FashionMnist gives, out of a pack.
class PackedFashion {
 public:
  PackedFashion(const std::string& path, bool map) : shards_(path, {.map = map}) {}
  i64 size() const { return shards_.size(); }
  wt::data::Batch batch(std::span<const i64> indices) const {
    wt::data::Batch b = shards_.batch(indices);
    return {wt::data::FashionMnist::prepare(b.x), std::move(b.y)};
  }

 private:
  wt::data::Shards shards_;
};

// Counts a device's kernels.
struct Launches : profiler::Observer {
  explicit Launches(Device d) : device(d) {}
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind == profiler::Kind::kernel && r.device == device) ++count;
  }
  Device device;
  std::atomic<i64> count{0};
};

// A tier's batches, from the epoch's first one on.
struct Source {
  std::string tier;
  int workers;
  i64 ahead;  // batches sent beyond the one that was asked for, where the epoch has them
  std::function<void()> restart;
  std::function<bool(wt::data::Batch&)> next;  // false at the epoch's end
};

template <class L>
Source source_of(const char* tier, int workers, i64 ahead, L& loader,
                 std::function<void()> before) {
  return {tier, workers, ahead,
          [&loader, before] {
            if (before) before();
            loader.set_state({});
          },
          [&loader](wt::data::Batch& b) { return loader.next(b); }};
}

class Measure {
 public:
  Measure(const TierOptions& o, i64 samples)
      : o_(o), epoch_((samples + o.batch - 1) / o.batch), batches_(epoch_), samples_(samples) {
    if (o.batches > 0) batches_ = std::min(epoch_, o.batches);
    manual_seed(kSeed);
    net_.to(o.device);
  }

  TierRow row(Source& s) {
    TierRow r{.tier = s.tier,
              .shape = str(samples_, " 1x28x28 b", o_.batch, ", ", batches_, " batches")};
    r.workers = s.workers;
    r.check = check(s);  // also the warm-up
    for (int round = 0; round < o_.rounds; ++round) {
      alone(s, r);
      train(s, r);
    }
    return r;
  }

 private:
  double check(Source& s) const {
    double squares = 0, labels = 0, pixels = 0, images = 0;
    wt::data::Batch b;
    s.restart();
    for (i64 i = 0; i < batches_ && s.next(b); ++i) {
      const Tensor x = b.x.to(Device::cpu()), y = b.y.to(Device::cpu());
      for (const float v : x.to_vector<float>()) squares += double(v) * double(v);
      for (const i64 v : y.to_vector<i64>()) labels += double(v);
      pixels += double(x.numel());
      images += double(y.numel());
    }
    return squares / pixels + labels / images;
  }
  void alone(Source& s, TierRow& r) const {
    Launches launches(o_.device);
    wt::data::Batch b;
    s.restart();
    i64 images = 0, made = 0;
    const i64 sent = copied_to_device();
    const auto start = Clock::now();
    {
      const profiler::ObserverScope watch(launches);
      for (; made < batches_ && s.next(b); ++made) images += b.size();
      synchronize(o_.device);
    }
    r.images_s = std::max(r.images_s, double(images) / elapsed(start));
    r.bytes_a_step = double(copied_to_device() - sent) / double(std::min(epoch_, made + s.ahead));
    r.launches = double(launches.count) / double(made);
  }
  // With a step of a small model after each batch.
  void train(Source& s, TierRow& r) {
    wt::data::Batch b;
    s.restart();
    double waited = 0;
    i64 steps = 0;
    const auto start = Clock::now();
    for (; steps < batches_; ++steps) {
      const auto asked = Clock::now();
      if (!s.next(b)) break;
      waited += elapsed(asked);
      step_(b, [&](const wt::data::Batch& part) {
        return cross_entropy(net_(part.x.flatten(1)), part.y);
      });
    }
    synchronize(o_.device);
    const double all = elapsed(start);
    if (r.step_us > 0 && all / double(steps) * 1e6 >= r.step_us) return;
    r.step_us = all / double(steps) * 1e6;
    r.stall_share = waited / all;
  }

  const TierOptions& o_;
  i64 epoch_, batches_, samples_;
  nn::Sequential net_{nn::Linear{784, 128}, nn::ReLU{}, nn::Linear{128, 10}};
  optim::Sgd opt_{net_, {.lr = 1e-3}};
  TrainStep step_{net_, opt_};
};

}  // namespace

std::vector<TierRow> loader_tiers(const TierOptions& o) {
  count_copies(o.device);
  const wt::data::FashionMnist set(o.root);
  const Pack pack(o.root);
  const wt::data::LoaderOptions plain{.batch = o.batch, .shuffle = true, .seed = kSeed};
  wt::data::LoaderOptions sent = plain;
  sent.device = o.device;
  wt::data::LoaderOptions threads = sent;
  threads.workers = wt::data::kAuto;
  wt::data::Loader disk(PackedFashion(pack.path(), false), threads);
  wt::data::Loader mapped(PackedFashion(pack.path(), true), threads);
  wt::data::Loader host(set, sent);
  wt::data::ResidentLoader resident(set.resident(o.device), plain);

  const auto forget = [&] { pack.forget(); };
  Source sources[] = {source_of("disk", disk.workers(), 1, disk, forget),
                      source_of("mapped", mapped.workers(), 1, mapped, forget),
                      source_of("pinned", 0, 1, host, {}),
                      source_of("resident", 0, 0, resident, {})};
  Measure measure(o, set.size());
  std::vector<TierRow> rows;
  for (Source& s : sources) rows.push_back(measure.row(s));
  return rows;
}

}  // namespace wt::bench

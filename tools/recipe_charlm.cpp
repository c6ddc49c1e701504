// charlm: the next byte from the bytes before it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "warptape/autograd/ops_loss.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/core/factories.h"
#include "warptape/data/bytes.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/recipes.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

constexpr i64 kContext = 16, kChannels = 32, kHidden = 256, kBytes = 256;
constexpr double kTrainPart = 0.9;
constexpr i64 kEvalItems = 8192;  // evenly spaced over the held-out text

struct ByteMlp : nn::Module<ByteMlp> {
  nn::Embedding embed = add("embed", nn::Embedding{kBytes, kChannels});
  nn::Linear hidden = add("hidden", nn::Linear{kContext * kChannels, kHidden});
  nn::Dropout drop = add("drop", nn::Dropout{0.1});
  nn::Linear head = add("head", nn::Linear{kHidden, kBytes});
  ByteMlp() { set_type("ByteMlp"); }
  // x [B, context] i64 -> logits [B, 256]
  Tensor forward(Tensor x) {
    Tensor h = flatten(embed(std::move(x)), 1);
    h = gelu(hidden(std::move(h)));
    return head(drop(std::move(h)));
  }
};

// The checkout: WT_SOURCE_DIR, or the first folder that looks like it above the program or above
// the current folder.
fs::path source_root() {
  if (const char* given = std::getenv("WT_SOURCE_DIR")) return given;
  std::error_code ec;
  for (const fs::path& start : {fs::read_symlink("/proc/self/exe", ec), fs::current_path(ec) / "x"})
    for (fs::path at = start.parent_path(); !at.empty(); at = at.parent_path()) {
      if (fs::exists(at / "core/tensor.h", ec) && fs::exists(at / "tools/wt.cpp", ec)) return at;
      if (at == at.root_path()) break;
    }
  throw DataError("warptape's sources are not above this program or folder\n  Try --data FILE");
}

// The project's own texts, in a fixed order.
std::vector<std::string> own_sources() {
  std::vector<std::string> files;
  const fs::path root = source_root();
  for (const char* folder :
       {"core", "kernels", "autograd", "nn", "optim", "data", "tools", "docs"}) {
    std::error_code ec;
    for (fs::recursive_directory_iterator it(root / folder, ec), end; !ec && it != end;
         it.increment(ec)) {
      const std::string tail = it->path().extension().string();
      if (tail == ".h" || tail == ".cpp" || tail == ".cu" || tail == ".cuh" || tail == ".md")
        files.push_back(it->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> text_files(const std::string& data) {
  if (data.empty()) return own_sources();
  std::error_code ec;
  if (!fs::is_directory(data, ec)) return {data};
  std::vector<std::string> files;
  for (const auto& e : fs::directory_iterator(data, ec))
    if (e.is_regular_file()) files.push_back(e.path().string());
  if (files.empty()) throw DataError(data + ": the folder has no files");
  std::sort(files.begin(), files.end());
  return files;
}

class CharLm : public Recipe {
 public:
  explicit CharLm(const RecipeOptions& o) : files_(text_files(o.data)) {
    batch_ = o.batch ? o.batch : defaults().batch;
    if (o.shapes_only) {
      data_bytes_ = count_bytes();
      return;
    }
    const data::TextBytes train(files_, {.context = kContext, .end = kTrainPart});
    loader_.emplace(
        train,
        data::LoaderOptions{.batch = batch_, .shuffle = true, .seed = o.seed, .drop_last = true});
    held_out_.emplace(files_, data::TextBytesOptions{.context = kContext, .begin = kTrainPart});
  }

  nn::ModuleBase& model() override { return net_; }
  Loss loss(const data::Batch& b) override { return cross_entropy(net_(b.x), b.y); }
  bool next(data::Batch& b) override { return loader_->next(b); }
  i64 batches_per_epoch() const override { return loader_->size(); }
  data::LoaderState position() const override { return loader_->state(); }
  void set_position(const data::LoaderState& s) override { loader_->set_state(s); }
  data::Batch shape_batch() const override {
    const TensorOptions meta{.dtype = DType::i64, .device = Device::meta()};
    return {empty({batch_, kContext}, meta), empty({batch_}, meta)};
  }
  i64 dataset_bytes() const override { return data_bytes_; }

  EvalResult evaluate(Device d) override {
    const nn::EvalScope eval(net_);
    const NoGrad no_grad;
    const i64 n = std::min(kEvalItems, held_out_->size());
    double sum = 0, right = 0;
    for (i64 at = 0; at < n; at += 512) {
      std::vector<i64> pick;
      for (i64 i = at; i < std::min(at + 512, n); ++i) pick.push_back(i * held_out_->size() / n);
      const data::Batch b = held_out_->batch(pick).to(d);
      const Tensor logits = net_(b.x);
      const std::vector<i64> guess = argmax(logits, 1).to_vector<i64>(),
                             want = b.y.to_vector<i64>();
      for (size_t i = 0; i < guess.size(); ++i) right += guess[i] == want[i];
      sum += cross_entropy(logits, b.y).sum.item();
    }
    return {sum / double(n), right / double(n)};
  }

  Defaults defaults() const override {
    return {
        .batch = 64, .steps = 2000, .lr = 2e-3, .weight_decay = 0.01, .warmup = 50, .evals = 25};
  }
  const char* item() const override { return "bytes"; }
  std::optional<Baseline> baseline() const override {
    return Baseline{"unigram entropy of the held-out text",
                    data::unigram_entropy(held_out_->bytes())};
  }

 private:
  i64 count_bytes() const {
    i64 n = 0;
    for (const std::string& f : files_) n += i64(data::content_size(f));
    return 2 * n;  // the training and the held-out part each hold the text
  }

  std::vector<std::string> files_;
  i64 data_bytes_ = 0;
  i64 batch_;
  ByteMlp net_;
  std::optional<data::Loader<data::TextBytes>> loader_;
  std::optional<data::TextBytes> held_out_;
};

}  // namespace

std::unique_ptr<Recipe> make_charlm(const RecipeOptions& o) { return std::make_unique<CharLm>(o); }

}  // namespace wt::tools

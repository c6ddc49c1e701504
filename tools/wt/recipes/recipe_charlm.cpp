// charlm: a small GPT on bytes.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/data/bytes.h"
#include "warptape/data/resident.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

constexpr i64 kBytes = 256;
constexpr double kTrainPart = 0.9;
constexpr i64 kMostWindows =
    2048;  // of the held-out text, evenly spaced; all of it if it has fewer

struct GptShape {
  i64 layers, heads, channels, context;
  double dropout;
  bool rotary;      // positions turn queries and keys (Su et al. 2021); else they are learned
  bool checkpoint;  // backward computes each block's activations again instead of keeping them
};

// One pre-norm block: causal attention, then an MLP (Radford et al. 2019).
struct GptBlock : nn::Module<GptBlock> {
  nn::LayerNorm norm1, norm2;
  nn::Linear qkv, out, up, down;
  nn::Dropout drop;
  i64 heads;
  bool rotary;

  explicit GptBlock(const GptShape& s)
      : norm1(add("norm1", nn::LayerNorm{s.channels})),
        norm2(add("norm2", nn::LayerNorm{s.channels})),
        qkv(add("qkv", nn::Linear{s.channels, 3 * s.channels})),
        out(add("out", nn::Linear{s.channels, s.channels})),
        up(add("up", nn::Linear{s.channels, 4 * s.channels})),
        down(add("down", nn::Linear{4 * s.channels, s.channels})),
        drop(add("drop", nn::Dropout{s.dropout})),
        heads(s.heads),
        rotary(s.rotary) {
    set_type("GptBlock");
  }

  Tensor forward(Tensor x) {  // [N, T, C]
    const i64 n = x.size(0), t = x.size(1), c = x.size(2);
    const Tensor all = qkv(norm1(x));
    // [N, heads, T, E] of some of the channels
    const auto split = [&](i64 from, i64 to) {
      const Tensor part = slice(all, -1, {from, to});
      return transpose(reshape(part, {n, t, (to - from) * heads / c, c / heads}), 1, 2);
    };
    Tensor qk = split(0, 2 * c);
    if (rotary) qk = rotary_embedding(std::move(qk));
    Tensor y =
        scaled_dot_product_attention(slice(qk, 1, {0, heads}), slice(qk, 1, {heads, 2 * heads}),
                                     split(2 * c, 3 * c), {.causal = true});
    AddNormResult r = norm2.of_sum(drop(out(reshape(transpose(std::move(y), 1, 2), {n, t, c}))), x);
    return drop(down(gelu(up(std::move(r.y))))) + r.sum;
  }
};

struct Gpt : nn::Module<Gpt> {
  nn::Embedding token;
  std::optional<nn::Embedding> place;
  nn::Dropout drop;
  std::vector<GptBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  bool checkpointed;

  explicit Gpt(const GptShape& s)
      : token(add("token", nn::Embedding{kBytes, s.channels})),
        drop(add("drop", nn::Dropout{s.dropout})),
        norm(add("norm", nn::LayerNorm{s.channels})),
        head(add("head", nn::Linear{s.channels, kBytes})),
        checkpointed(s.checkpoint) {
    set_type("Gpt");
    if (!s.rotary) place = add("place", nn::Embedding{s.context, s.channels});
    for (i64 i = 0; i < s.layers; ++i)
      blocks.push_back(add("block" + std::to_string(i), GptBlock{s}));
  }

  Tensor forward(Tensor x) {  // [N, T] bytes as i64 -> logits [N, T, 256]
    Tensor h = token(x);
    if (place) h = h + (*place)(arange(x.size(1), {.dtype = DType::i64, .device = x.device()}));
    h = drop(std::move(h));
    for (GptBlock& b : blocks)
      h = checkpointed ? checkpoint([b](const Tensor& in) mutable { return b(in); }, h)
                       : b(std::move(h));
    return head(norm(std::move(h)));
  }
};

// The checkout: WT_SOURCE_DIR, or the first folder that looks like it above the program or above
// the current folder.
fs::path source_root() {
  if (const char* given = std::getenv("WT_SOURCE_DIR")) return given;
  std::error_code ec;
  for (const fs::path& start : {fs::read_symlink("/proc/self/exe", ec), fs::current_path(ec) / "x"})
    for (fs::path at = start.parent_path(); !at.empty(); at = at.parent_path()) {
      if (fs::exists(at / "core/tensor.h", ec) && fs::exists(at / "tools/wt/wt.cpp", ec)) return at;
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
  const auto check = [&](const fs::path& path) {
    if (ec) throw DataError(printable_path(path.string()) + ": cannot be read: " + ec.message());
  };
  std::vector<std::string> files;
  fs::directory_iterator it(data, ec);
  check(data);
  for (const fs::directory_iterator end; it != end; it.increment(ec), check(data)) {
    // A link that leads nowhere is none of the files; one that leads in a circle hides one.
    const fs::file_status status = it->status(ec);
    if (status.type() == fs::file_type::not_found) ec.clear();
    check(it->path());
    if (fs::is_regular_file(status)) files.push_back(it->path().string());
  }
  if (files.empty()) throw DataError(printable_path(data) + ": the folder has no files");
  std::sort(files.begin(), files.end());
  return files;
}

// --data synthetic: chains of bytes in which each is drawn by the one before it.
data::TextBytes synthetic_text(const data::TextBytesOptions& o) {
  constexpr i64 kChains = 512, kLength = 256;
  const data::SyntheticTokens chains{{.samples = kChains, .context = kLength, .vocabulary = 64}};
  std::vector<i64> all(static_cast<size_t>(kChains));
  std::iota(all.begin(), all.end(), 0);
  std::vector<u8> bytes;
  for (const i64 token : chains.batch(all).x.to_vector<i64>()) bytes.push_back(u8('0' + token));
  return data::TextBytes(std::move(bytes), o);
}

data::TextBytes text_of(const std::string& data, const data::TextBytesOptions& o) {
  return data == kSyntheticData ? synthetic_text(o) : data::TextBytes(text_files(data), o);
}

GptShape shape_of(Settings& s) {
  GptShape g{};
  g.layers = s.integer("layers", 4, 1, 64);
  g.heads = s.integer("heads", 4, 1, 64);
  g.channels = s.integer("channels", 128, 1, 8192);
  g.context = s.integer("context", 128, 1, 8192);
  g.dropout = s.real("dropout", 0, 0, 0.9);
  g.rotary = s.choice("positions", {"rotary", "learned"}) == "rotary";
  g.checkpoint = s.flag("checkpoint", false);
  if (g.channels % g.heads != 0)
    throw UsageError(str("--set channels=", g.channels, " is no multiple of heads=", g.heads));
  if (g.rotary && g.channels / g.heads % 2 != 0)
    throw UsageError(str("positions=rotary turns pairs of channels, a head has ",
                         g.channels / g.heads, "\n  Try --set positions=learned"));
  return g;
}

class CharLm : public Recipe {
 public:
  explicit CharLm(Settings s) : shape_(shape_of(s)), net_(shape_) { set_settings(s, "charlm"); }

  nn::ModuleBase& model() override { return net_; }
  Tensor logits(const Tensor& x) override { return net_(x); }

  RecipeData load(const std::string& data) const override {
    const i64 context = shape_.context;
    const data::TextBytes train =
        text_of(data, {.context = context, .end = kTrainPart, .every_position = true});
    // Windows side by side, so that each held-out byte is asked for once.
    data::TextBytesOptions held{
        .context = context, .begin = kTrainPart, .stride = context, .every_position = true};
    const i64 length = i64(train.with(held).bytes().size());
    held.stride = std::max(context, length / kMostWindows);
    const data::TextBytes held_out = train.with(held);
    return {
        train, held_out,
        Baseline{"unigram entropy of the held-out text", data::unigram_entropy(held_out.bytes())},
        [train, context](Device d) {
          const Tensor bytes = tensor(train.bytes(), {.device = Device::cpu()});
          return data::AnyDataset(data::ResidentTokens(bytes, d, {.context = context}));
        }};
  }
  i64 dataset_bytes(const std::string& data) const override {
    if (data == kSyntheticData) return i64(synthetic_text({}).bytes().size());
    i64 n = 0;
    for (const std::string& f : text_files(data)) n += i64(data::content_size(f));
    return n;
  }
  i64 resident_bytes(const std::string& data) const override {
    return i64(kTrainPart * double(dataset_bytes(data)));
  }
  data::Batch shape_batch(i64 batch) const override {
    const TensorOptions meta{.dtype = DType::i64, .device = Device::meta()};
    const Shape shape{batch, shape_.context};
    return {empty(shape, meta), empty(shape, meta)};
  }

  RecipeDefaults defaults() const override {
    return {.batch = 16,
            .eval_batch = 32,
            .steps = 1000,
            .lr = 3e-3,
            .weight_decay = 0.1,
            .warmup = 50,
            .drop_last = true};
  }
  const char* item() const override { return "bytes"; }
  i64 items_per_sample() const override { return shape_.context; }
  i64 context() const override { return shape_.context; }

 private:
  GptShape shape_;
  Gpt net_;
};

}  // namespace

std::unique_ptr<Recipe> make_charlm(Settings s) { return std::make_unique<CharLm>(std::move(s)); }

}  // namespace wt::tools

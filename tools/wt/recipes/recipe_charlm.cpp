// charlm: a small GPT on bytes.
#include <algorithm>
#include <numeric>
#include <optional>

#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/data/resident.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/generate.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/recipes/text_files.h"

namespace wt::tools {
namespace {

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

  // [N, T, C]. With a cache: the tokens of a step that it has begun with.
  Tensor forward(Tensor x, models::KvCache* cache = nullptr, i64 layer = 0) {
    const i64 n = x.size(0), t = x.size(1), c = x.size(2);
    const Tensor all = qkv(norm1(x));
    // [N, heads, T, E] of some of the channels
    const auto split = [&](i64 from, i64 to) {
      const Tensor part = slice(all, -1, {from, to});
      return transpose(reshape(part, {n, t, (to - from) * heads / c, c / heads}), 1, 2);
    };
    Tensor qk = split(0, 2 * c);
    if (rotary && !cache) qk = rotary_embedding(std::move(qk));
    if (rotary && cache) {
      const Tensor& at = cache->positions();  // of its heads all the same
      qk = rotary_embedding(qk, at.ndim() == 1 ? at : unsqueeze(at, 1));
    }
    const Tensor q = slice(qk, 1, {0, heads}), k = slice(qk, 1, {heads, 2 * heads});
    Tensor y = cache ? cache->attend(layer, q, k, split(2 * c, 3 * c))
                     : scaled_dot_product_attention(q, k, split(2 * c, 3 * c), {.causal = true});
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
  // After the last token of each row of a step that the cache has begun with: [N, 256].
  Tensor next_logits(const Tensor& x, models::KvCache& cache) {
    Tensor h = token(x);
    if (place) h = h + (*place)(cache.positions());
    for (size_t i = 0; i < blocks.size(); ++i) h = blocks[i](std::move(h), &cache, i64(i));
    return head(norm(cache.last(h)));
  }
};

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

  RecipeData load(const std::string& data) override {
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
    return text_bytes(data);
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
  models::Decoder decoder() override {
    return {.model = net_,
            .vocabulary = kBytes,
            .size = {.layers = shape_.layers,
                     .heads = shape_.heads,
                     .context = shape_.context,
                     .channels = shape_.channels / shape_.heads},
            .options = {.dtype = net_.token.weight->dtype(), .device = net_.token.weight->device()},
            .logits = [net = net_](const Tensor& ids, models::KvCache& cache) mutable {
              return net.next_logits(ids, cache);
            }};
  }

 private:
  GptShape shape_;
  Gpt net_;
};

}  // namespace

std::unique_ptr<Recipe> make_charlm(Settings s) { return std::make_unique<CharLm>(std::move(s)); }

}  // namespace wt::tools

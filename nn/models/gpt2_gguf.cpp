// GPT-2 from llama.cpp's files: its names and layouts as Hugging Face's.
#include <cmath>
#include <map>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/input_file.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/nn/gguf.h"
#include "warptape/nn/models/gguf_source.h"
#include "warptape/nn/models/keep_generator.h"

namespace wt::models {
namespace {

using nn::GgufEntry;
using nn::GgufFile;
using nn::detail::WeightSource;

// By the part of the name before ".weight" and ".bias".
const std::map<std::string, std::string, std::less<>>& names_of_ends() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"token_embd", "transformer.wte"},
      {"position_embd", "transformer.wpe"},
      {"output_norm", "transformer.ln_f"},
      {"output", "lm_head"}};
  return names;
}
const std::map<std::string, std::string, std::less<>>& names_in_blocks() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
      {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"}};
  return names;
}

// "blk.3.ffn_up.weight" -> "transformer.h.3.mlp.c_fc.weight"; others stay as they are, and so are
// named as unexpected.
std::string hub_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return name;
  const std::string ending = name.substr(dot), stem = name.substr(0, dot);
  if (const auto at = names_of_ends().find(stem); at != names_of_ends().end())
    return at->second + ending;
  const size_t part = stem.rfind('.');
  if (!stem.starts_with("blk.") || part <= 4 || part == stem.npos) return name;
  const auto at = names_in_blocks().find(stem.substr(part + 1));
  if (at == names_in_blocks().end()) return name;
  return "transformer.h." + stem.substr(4, part - 4) + "." + at->second + ending;
}

// The converter transposes what GPT-2's files have as [in, out].
bool is_transposed(const GgufEntry& e) {
  return e.shape.ndim() == 2 && e.name.starts_with("blk.") && e.name.ends_with(".weight");
}

Shape hub_shape(const GgufEntry& e) {
  return is_transposed(e) ? Shape{e.shape[1], e.shape[0]} : e.shape;
}

Tensor hub_tensor(GgufFile& file, const GgufEntry& e) {
  const Tensor t = file.read(e);
  return is_transposed(e) ? t.transpose(0, 1).contiguous() : t;
}

[[noreturn]] void refuse(const GgufFile& file, const std::string& why) {
  throw UsageError(str("[Gpt2] ", printable_path(file.path()), " ", why, at_line()));
}

void check_architecture(const GgufFile& file) {
  const std::string* name = file.text("general.architecture");
  if (!name || *name != "gpt2")
    refuse(file, name ? "holds weights of another architecture: of " + printable(*name)
                      : "does not say its architecture");
}

constexpr u64 kTensorsOfBlock = 12;  // a weight and a bias of each of names_in_blocks()

i64 size_of(const GgufFile& file, const char* key) {
  const std::optional<i64> n = file.integer(key);
  constexpr i64 kMost = i64{1} << 31;
  if (!n || *n < 1 || *n >= kMost) refuse(file, str("has no ", key, ", or one that is no size"));
  return *n;
}

}  // namespace

Gpt2Options gpt2_options(const GgufFile& file) {
  check_architecture(file);
  Gpt2Options o{.context = size_of(file, "gpt2.context_length"),
                .channels = size_of(file, "gpt2.embedding_length"),
                .layers = size_of(file, "gpt2.block_count"),
                .heads = size_of(file, "gpt2.attention.head_count")};
  // Building a model of that many is what the file may ask for: it has to have them.
  const std::string last = str("blk.", o.layers - 1, ".attn_norm.weight");
  if (u64(o.layers) * kTensorsOfBlock > file.entries().size() || !file.find(last))
    refuse(file, str("has no ", o.layers, " blocks"));
  if (const auto inner = file.integer("gpt2.feed_forward_length");
      inner && *inner != 4 * o.channels)
    refuse(file, str("has inner layers of ", *inner, " channels, Gpt2's have ", 4 * o.channels));
  constexpr double kEps = 1e-5;
  if (const auto eps = file.number("gpt2.attention.layer_norm_epsilon");
      eps && !(std::abs(*eps - kEps) <= 1e-3 * kEps))
    refuse(file, str("has norms with an epsilon of ", *eps, ", Gpt2's have ", kEps));
  const GgufEntry* table = file.find("token_embd.weight");
  if (!table || table->shape.ndim() != 2) refuse(file, "has no table token_embd.weight");
  o.vocabulary = table->shape[0];
  return o;
}

std::vector<nn::NamedTensor> gpt2_state(GgufFile& file) {
  check_architecture(file);
  std::vector<nn::NamedTensor> state;
  for (const GgufEntry& e : file.entries())
    state.push_back({hub_name(e.name), hub_tensor(file, e)});
  return state;
}

WeightSource detail::source_of(GgufFile opened) {
  const auto file = std::make_shared<GgufFile>(std::move(opened));
  check_architecture(*file);
  WeightSource source{.path = file->path(),
                      .metadata = {},
                      .entries = {},
                      .read = [file](size_t i) { return hub_tensor(*file, file->entries()[i]); },
                      .check_total = {}};
  for (const GgufEntry& e : file->entries()) {
    const DType dtype = nn::dtype_of(e.type);
    const u64 bytes = u64(numel_of(e.shape)) * u64(item_size(dtype));
    source.entries.push_back({hub_name(e.name), dtype, hub_shape(e), bytes});
  }
  return source;
}

Gpt2 load_gpt2(const std::string& path, const ParseLimits& limits) {
  GgufFile file = GgufFile::open(path, limits);
  const Gpt2Options options = gpt2_options(file);
  Device device = mode.default_device;
  device.is_meta = true;
  const detail::KeepGenerator as_before;
  const Gpt2 net = [&] {
    const DefaultDevice there(device);
    return Gpt2(options);
  }();
  nn::detail::load_from(net, detail::source_of(std::move(file)), {}, [&] {
    return str("[Gpt2] the tensors of ", printable_path(path), " are not those of its sizes");
  });
  return net;
}

}  // namespace wt::models

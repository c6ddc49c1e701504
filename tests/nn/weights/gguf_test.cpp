// GGUF, against what llama.cpp's own package wrote (tools/generators/make_gguf_reference.py):
// names, metadata, unpacked numbers, GPT-2's logits; and whatever else a file may be.
#include "warptape/nn/gguf.h"

#include <cmath>
#include <cstring>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/models.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using nn::GgufFile;
using nn::GgufType;

namespace {

std::string weights(const std::string& name) {
  return reference::reference_file("weights/" + name);
}

// A file made by hand: the head and the data by their parts.
struct Made {
  std::string bytes = "GGUF";
  template <class T>
  Made& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Made& text(const std::string& s) { return put(u64(s.size())), bytes += s, *this; }
  Made& key(const std::string& name, u32 kind) { return text(name).put(kind); }
  Made& tensor(const std::string& name, std::vector<u64> sizes, u32 type, u64 offset) {
    text(name).put(u32(sizes.size()));
    for (const u64 size : sizes) put(size);
    return put(type).put(offset);
  }
  Made& align(size_t to = 32) {
    return bytes.resize((bytes.size() + to - 1) / to * to, '\0'), *this;
  }
  static Made begin(u64 tensors, u64 values, u32 version = 3) {
    return Made{}.put(version).put(tensors).put(values);
  }
};
// One tensor `a` of three floats, metadata of a number, a text and an array.
Made good() {
  Made m = Made::begin(1, 3);
  m.key("n", 4).put(u32{7}).key("s", 8).text("hello");
  m.key("list", 9).put(u32{8}).put(u64{2}).text("x").text("yz");
  return m.tensor("a", {3}, 0, 0).align().put(1.0f).put(2.0f).put(3.0f);
}
std::string refusal(const Made& m) {
  const TempDir dir;
  spit(dir / "f", m.bytes);
  const std::string said = message_of([&] { GgufFile::open(dir / "f"); });
  const std::string head = "DataError: " + (dir / "f") + ": at byte ";
  return said.starts_with(head) ? said.substr(head.size()) : said;
}

}  // namespace

TEST_CASE("gguf: what llama.cpp's package wrote, with metadata of every kind", "[gguf]") {
  const LeakGuard guard;
  GgufFile file = GgufFile::open(weights("gpt2.gguf"));
  CHECK(file.version() == 3);
  CHECK(*file.text("general.architecture") == "gpt2");
  CHECK(*file.integer("gpt2.block_count") == 2);
  CHECK(*file.integer("test.u8") == 200);
  CHECK(*file.integer("test.i8") == -100);
  CHECK(*file.integer("test.u16") == 60000);
  CHECK(*file.integer("test.i16") == -30000);
  CHECK(*file.integer("test.i32") == -2000000000);
  CHECK(*file.integer("test.i64") == -(i64{1} << 62));
  CHECK(*file.integer("test.bool") == 1);
  CHECK_FALSE(file.integer("test.u64"));  // no i64 is that
  CHECK(*file.number("test.u64") == std::ldexp(1.0, 64));
  CHECK(*file.number("test.f64") == 0.1);
  CHECK(*file.number("gpt2.attention.layer_norm_epsilon") == double(1e-5f));
  CHECK_FALSE(file.integer("test.f64"));
  CHECK_FALSE(file.number("test.numbers"));
  CHECK(file.text("test.u8") == nullptr);
  CHECK(file.text("absent") == nullptr);
  CHECK(file.keys().size() == 18);
  CHECK(file.entries().size() == 28);
  CHECK(file.find("blk.1.ffn_up.weight")->shape == Shape{128, 32});
  CHECK(file.find("blk.1.ffn_up.weight")->type == GgufType::q8_0);
  CHECK(file.read("token_embd.weight").dtype() == f16);
  CHECK(file.read("position_embd.weight").dtype() == bf16);
  CHECK(file.read("blk.0.ffn_up.weight").dtype() == f32);
  CHECK(file.find("blk.2.ffn_up.weight") == nullptr);
  CHECK(mentions(message_of([&] { (void)file.read("absent"); }), "there is no tensor 'absent'"));
}

TEST_CASE("gguf: GPT-2's numbers as gguf unpacks them, logits as transformers'", "[gguf][models]") {
  const LeakGuard guard;
  const nn::LoadedTensors theirs = nn::load_tensors(weights("gpt2_gguf_io.safetensors"));
  GgufFile file = GgufFile::open(weights("gpt2.gguf"));
  int told = 0;
  for (const auto& [name, tensor] : models::gpt2_state(file))
    if (const Tensor* t = theirs.find(name)) {
      INFO(name);
      CHECK(equal(tensor.to(f32), *t));
      ++told;
    }
  CHECK(told == 5);
  const models::Gpt2Options o = models::gpt2_options(file);
  CHECK(
      (o.vocabulary == 40 && o.context == 16 && o.channels == 32 && o.layers == 2 && o.heads == 2));
  models::Gpt2 net = models::load_gpt2(weights("gpt2.gguf"));
  net.eval();
  const NoGrad no_grad;
  CHECK(allclose(net(*theirs.find("ids")), *theirs.find("logits"), {.rtol = 1e-4, .atol = 1e-4}));
  // The same through models::load_weights(), into a padded table.
  models::Gpt2Options padded = o;
  padded.pad_vocabulary_to = 64;
  models::Gpt2 other(padded);
  CHECK(models::load_weights(other, "gpt2", weights("gpt2.gguf")).complete());
  other.eval();
  CHECK(allclose(other(*theirs.find("ids")), net(*theirs.find("ids"))));
}

TEST_CASE("gguf: a model of other sizes is refused with all that does not fit", "[gguf][models]") {
  const LeakGuard guard;
  const models::Gpt2 one(
      {.vocabulary = 40, .context = 16, .channels = 32, .layers = 1, .heads = 2});
  const Values before = values(one.transformer.wte.weight);
  const std::string said =
      message_of([&] { models::load_weights(one, "gpt2", weights("gpt2.gguf")); });
  CHECK(mentions(said, "does not fit gpt2"));
  CHECK(mentions(said, "unexpected transformer.h.1.attn.c_attn.weight"));
  CHECK(values(one.transformer.wte.weight) == before);
  CHECK(mentions(message_of([&] { nn::load_tensors(weights("gpt2.gguf")); }),
                 "this is a GGUF file, not safetensors"));
  CHECK(mentions(message_of([&] { models::load_gpt2(weights("gpt2_v2.gguf")); }),
                 "has no gpt2.context_length"));
  const TempDir dir;
  spit(dir / "f", Made::begin(0, 1).key("general.architecture", 8).text("llama\x1b").bytes);
  CHECK(mentions(message_of([&] { models::load_gpt2(dir / "f"); }), "of llama\\x1b"));
}

TEST_CASE("gguf: a model of blocks that the file does not have is not built", "[gguf][models]") {
  const TempDir dir;
  const auto said = [&](u32 blocks, size_t tensors) {
    Made m = Made::begin(tensors, 5).key("general.architecture", 8).text("gpt2");
    for (const char* key : {"context_length", "embedding_length", "attention.head_count"})
      m.key(std::string("gpt2.") + key, 4).put(u32{1});
    m.key("gpt2.block_count", 4).put(blocks);
    for (size_t i = 0; i < tensors; ++i)
      m.tensor(i ? str("blk.0.x", i) : "token_embd.weight", {1, 1}, 0, 32 * i);
    for (size_t i = 0; i < tensors; ++i) m.align().put(1.0f);
    spit(dir / "f", m.bytes);
    const Generator before = generator();
    const std::string text = message_of([&] { models::load_gpt2(dir / "f"); });
    CHECK(generator() == before);
    return text;
  };
  CHECK(mentions(said(2, 23), "has no 2 blocks"));
  CHECK(mentions(said(2, 24), "has no 2 blocks"));  // none of them is of the last block
}

TEST_CASE("gguf: version 2, and the alignment that a file asks for", "[gguf]") {
  const LeakGuard guard;
  GgufFile file = GgufFile::open(weights("gpt2_v2.gguf"));
  CHECK(file.version() == 2);
  CHECK(file.entries()[0].begin % 64 == 0);
  CHECK(file.entries()[1].begin == file.entries()[0].begin + 64);
  CHECK(values(file.read("position_embd.weight")) == Values{0, 1, 2, 3, 4, 5});
  CHECK(file.read("position_embd.weight").shape() == Shape{2, 3});
  CHECK(values(file.read("output_norm.bias")) == Values{0, 1, 2});
}

TEST_CASE("gguf: a file by hand; q8_0 is scale times integer", "[gguf]") {
  const TempDir dir;
  spit(dir / "f", good().bytes);
  GgufFile file = GgufFile::open(dir / "f");
  CHECK(values(file.read("a")) == Values{1, 2, 3});
  CHECK(file.keys() == std::vector<std::string>{"n", "s", "list"});
  CHECK(*file.text("s") == "hello");
  Made m = Made::begin(1, 0).tensor("q", {32, 2}, 8, 0).align();
  for (const u16 scale : {u16{0x3800}, u16{0xc000}}) {  // 0.5 and -2
    m.put(scale);
    for (int i = 0; i < 32; ++i) m.put(i8(4 * i - 128));
  }
  spit(dir / "q", m.bytes);
  const Values numbers = values(GgufFile::open(dir / "q").read("q"));
  REQUIRE(numbers.size() == 64);
  CHECK(numbers[0] == -64);
  CHECK(numbers[31] == -2);
  CHECK(numbers[32] == 256);
  CHECK(numbers[63] == 8);
  // Without tensors a file may end behind its head.
  CHECK(refusal(Made::begin(0, 0)).empty());
}

TEST_CASE("gguf: every rule of the format has its refusal", "[gguf]") {
  CHECK(refusal(good()).empty());
  Made m;
  m.bytes = "GGML";
  CHECK(refusal(m) == "0: this is no GGUF file");
  m.bytes = "GG";
  CHECK(mentions(refusal(m), "the magic number needs 4 bytes, 2 follow (truncated download?)"));
  CHECK(mentions(refusal(Made::begin(0, 0, 1)), "4: the version is 1, 2 and 3 are known"));
  CHECK(mentions(refusal(Made::begin(0, 0, 0x03000000)), "big-endian"));
  CHECK(mentions(refusal(Made::begin(1, 0)), "8: 1 tensors, more than the file has room for"));
  CHECK(mentions(refusal(Made::begin(~u64{0}, 0)), "18446744073709551615 tensors, the limit is"));
  CHECK(mentions(refusal(Made::begin(0, 1)), "1 metadata, more than"));
  const auto value = [&](u32 kind) { return Made::begin(0, 1).key("k", kind); };
  CHECK(mentions(refusal(value(13).put(u64{0})), "the unknown kind 13"));
  CHECK(mentions(refusal(value(7).put(u8{2})), "a bool is 2"));
  CHECK(mentions(refusal(value(8).put(u64{1} << 40)), "a text of 1099511627776 bytes, at most"));
  CHECK(mentions(refusal(value(8).put(u64{9})), "a text needs 9 bytes, 0 follow"));
  CHECK(mentions(refusal(value(9).put(u32{9}).put(u64{0})), "an array of arrays"));
  CHECK(mentions(refusal(value(9).put(u32{4}).put(~u64{0} / 2)), "elements, the limit is"));
  CHECK(mentions(refusal(value(9).put(u32{4}).put(u64{1000})), "more than the file has room for"));
  CHECK(mentions(refusal(value(9).put(u32{7}).put(u64{1}).put(u8{3})), "a bool is 3"));
  CHECK(
      mentions(refusal(Made::begin(0, 1).text("").put(u32{0}).put(u64{0})), "a key that is empty"));
  CHECK(mentions(refusal(Made::begin(0, 1).text("\xff").put(u32{0}).put(u64{0})), "not UTF-8"));
  CHECK(mentions(refusal(Made::begin(0, 2).key("k", 0).put(u8{1}).key("k", 0).put(u8{1})),
                 "the key 'k' appears twice"));
  for (const u32 alignment : {0u, 4u, 24u, 1u << 17})
    CHECK(mentions(refusal(Made::begin(0, 1).key("general.alignment", 4).put(alignment)),
                   "a power of two from 8"));
  CHECK(
      mentions(refusal(Made::begin(0, 1).key("general.alignment", 8).text("32")), "must be a u32"));
}

TEST_CASE("gguf: every rule of tensors has its refusal", "[gguf]") {
  const auto tensor = [](const std::string& name, std::vector<u64> sizes, u32 type, u64 offset,
                         size_t data = 64) {
    Made m = Made::begin(1, 0).tensor(name, sizes, type, offset).align();
    m.bytes.resize(m.bytes.size() + data, '\0');
    return refusal(m);
  };
  CHECK(tensor("a", {16}, 0, 0).empty());
  CHECK(mentions(tensor("a", {16}, 0, 32), "tensor 'a' begins at byte 32 of the data"));
  CHECK(mentions(tensor("a", {16}, 0, ~u64{0}), "needs 64 bytes from byte 18446744073709551615"));
  CHECK(mentions(tensor("a", {17}, 0, 0), "the tensors end at byte"));
  CHECK(mentions(tensor("a", {8}, 0, 0), "there is data after the end"));
  CHECK(mentions(tensor("a", {u64{1} << 40, u64{1} << 40}, 0, 0), "too many to address"));
  CHECK(mentions(tensor("a", {u64{1} << 47}, 0, 0), "more than the file has"));
  CHECK(mentions(tensor("a", {0, 2}, 0, 0), "has no elements"));
  CHECK(mentions(tensor("a", {}, 0, 0), "has 0 dimensions, 1 to 4"));
  CHECK(mentions(tensor("a", {1, 1, 1, 1, 16}, 0, 0), "has 5 dimensions"));
  CHECK(mentions(tensor("a", {16}, 2, 0),
                 "tensor 'a' is of the unsupported type q4_0; supported are f32, f16, bf16 and "
                 "q8_0"));
  CHECK(mentions(tensor("a", {16}, 4, 0), "the unknown type 4"));
  CHECK(mentions(tensor("a", {16}, 1000, 0), "the unknown type 1000"));
  CHECK(mentions(tensor("a", {33}, 8, 0), "q8_0 with rows of 33, no multiple of 32"));
  CHECK(mentions(tensor("", {16}, 0, 0), "a name that is empty"));
  CHECK(mentions(tensor(std::string(65, 'n'), {16}, 0, 0), "at most 64"));
  const auto two = [](const char* b, u64 offset) {
    Made m = Made::begin(2, 0).tensor("a", {8}, 0, 0).tensor(b, {8}, 0, offset).align();
    m.bytes.resize(m.bytes.size() + 64, '\0');
    return refusal(m);
  };
  CHECK(two("b", 32).empty());
  CHECK(mentions(two("a", 32), "the tensor name 'a' appears twice"));
  CHECK(mentions(two("b", 0), "tensor 'b' begins at byte 0"));
  CHECK(mentions(two("b", 16), "tensor 'b' begins at byte 16"));
}

TEST_CASE("gguf: the caller's limits hold", "[gguf]") {
  const TempDir dir;
  spit(dir / "f", good().bytes);
  GgufFile file = GgufFile::open(dir / "f", {.max_bytes = 13});
  (void)file.read("a");
  CHECK(mentions(message_of([&] { (void)file.read("a"); }), "passes the reader's limit of 13"));
  const auto with = [&](const ParseLimits& limits) {
    return message_of([&] { GgufFile::open(dir / "f", limits); });
  };
  CHECK(mentions(with({.max_header = 40}), "passes the limit of 40 bytes"));
  CHECK(mentions(with({.max_items = 2}), "3 metadata, the limit is 2"));
  CHECK(mentions(with({.max_string = 4}), "a text of 5 bytes, at most 4"));
}

TEST_CASE("gguf: cut anywhere, a file is refused", "[gguf]") {
  const std::string whole = good().bytes;
  for (size_t n = 0; n < whole.size(); ++n) {
    INFO(n);
    CHECK_FALSE(wt_test::takes_gguf(whole.substr(0, n)));
  }
  CHECK(wt_test::takes_gguf(whole));
}

TEST_CASE("gguf: whatever is done to a file, the reader refuses it or reads it within limits",
          "[gguf]") {
  const std::string zero(8, '\0'), ones(8, '\xff');
  const long long taken =
      taken_of(FuzzPlan(20'000, 7), {good().bytes, slurp(weights("gpt2_v2.gguf"))},
               {zero, ones, std::string_view("\x20\0\0\0\0\0\0\0", 8),
                std::string_view("\1\0\0\0\0\0\0\x80", 8), "GGUF", std::string_view("\x8\0\0\0", 4),
                std::string_view("\x9\0\0\0", 4), std::string_view("\x1e\0\0\0", 4)},
               wt_test::takes_gguf);
  CHECK(taken > 0);
  CHECK(taken < 10'000);
}

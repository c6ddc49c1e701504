// Weights in several files with an index, as Hugging Face's libraries write them: read whole or by
// name, refused with all that is wrong, written so that a reader finds the old or the new model.
#include "warptape/nn/weight_files.h"

#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/weights/weight_index.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using nn::NamedTensor;
using nn::WeightFiles;

namespace {

std::vector<NamedTensor> numbered(double first) {
  std::vector<NamedTensor> all;
  for (int i = 0; i < 5; ++i)
    all.push_back({str("layer.", i, ".weight"), full({2, i + 1}, first + i)});
  all.push_back({"count", tensor({7}).to(DType::i64)});
  return all;
}
// What a reader of the folder finds, in words.
std::string found(const std::string& path) {
  std::string text;
  WeightFiles files = WeightFiles::open(path);
  for (size_t i = 0; i < files.size(); ++i)
    text += str(files.entry(i).name, files.shape(i), "=", files.read(i).flatten()[0].item(), " ");
  return text;
}
std::string found_or_none(const std::string& path) {
  try {
    return found(path);
  } catch (const DataError&) {
    return "none";
  }
}
constexpr const char* kIndex = "model.safetensors.index.json";
std::string index_of(const std::string& pairs) { return "{\"weight_map\":{" + pairs + "}}"; }

// a.safetensors has x and y, b.safetensors has z.
struct TwoFiles {
  TempDir dir;
  TwoFiles() {
    nn::save_tensors(dir / "a.safetensors", {{"x", ones({2})}, {"y", zeros({3, 1})}});
    nn::save_tensors(dir / "b.safetensors", {{"z", full({1}, 5.0)}});
    index(R"("z":"b.safetensors","x":"a.safetensors","y":"a.safetensors")");
  }
  void index(const std::string& pairs) { spit(dir / kIndex, index_of(pairs)); }
  std::string refusal() {
    return message_of([&] { WeightFiles::open(dir.path); });
  }
};

}  // namespace

TEST_CASE("weight files: tensors of several files by name, from a folder or its index",
          "[weight_files]") {
  const LeakGuard guard;
  TwoFiles two;
  spit(two.dir / kIndex,
       R"({"metadata":{"total_size":24.0,"note":"n","more":[1]},"weight_map":{"z":"b.safetensors",)"
       R"("y":"a.safetensors","x":"a.safetensors"},"other":{"a":[null]}})");
  for (const std::string& path : {two.dir.path, two.dir / kIndex}) {
    WeightFiles files = WeightFiles::open(path);
    REQUIRE(files.size() == 3);
    CHECK(files.entry(files.find("y")).shape == std::vector<i64>{3, 1});
    CHECK(files.shape(files.find("y")) == Shape{3, 1});
    CHECK(files.find("w") == WeightFiles::kNone);
    CHECK(values(files.read("z")) == Values{5});
    CHECK(values(files.read("x")) == Values{1, 1});
    CHECK(files.metadata() == nn::Metadata{{"note", "n"}});
    CHECK(*files.find_metadata("note") == "n");
    CHECK(files.path() == two.dir / kIndex);
    CHECK(mentions(message_of([&] { (void)files.read("w"); }), "there is no tensor 'w'"));
  }
  CHECK(nn::load_tensors(two.dir.path).tensors.size() == 3);
  CHECK(mentions(message_of([&] { nn::load_tensors(two.dir.path, {.max_bytes = 20}); }),
                 "have 24 bytes, the limit is 20"));
  // One file alone, which counts more than an index beside it: transformers' order.
  nn::save_tensors(two.dir / "model.safetensors", {{"w", ones({1})}});
  CHECK(found(two.dir.path) == "w[1]=1 ");
}

TEST_CASE("weight files: a module loads from several files, and nothing of what does not fit",
          "[weight_files][load_model]") {
  const LeakGuard guard;
  const TempDir dir;
  const nn::Linear from{3, 2}, to{3, 2}, other{4, 2};
  nn::save_sharded(dir.path, from.state_dict(), {.max_shard_bytes = 10});
  CHECK(dir.count("-of-00002.safetensors") == 2);
  nn::load_model(to, dir.path);
  CHECK(values(to.weight) == values(from.weight));
  CHECK(values(to.bias) == values(from.bias));
  const Values before = values(other.weight), bias = values(other.bias);
  CHECK(mentions(message_of([&] { nn::load_model(other, dir.path); }),
                 "weight is [2, 4] here and [2, 3] in the state"));
  CHECK(values(other.bias) == bias);
  CHECK(nn::load_model(other, dir.path, {.strict = false}).misshapen.size() == 1);
  CHECK(values(other.weight) == before);
  CHECK(values(other.bias) == values(from.bias));
}

TEST_CASE("weight files: all that does not fit the index is listed", "[weight_files]") {
  TwoFiles two;
  two.index(R"("x":"b.safetensors","y":"a.safetensors","n":"a.safetensors","m":"gone.safetensors",)"
            R"("m2":"gone.safetensors","o":"lost.safetensors","y":"a.safetensors")");
  const std::string text = two.refusal();
  CHECK(text == "DataError: " + (two.dir / kIndex) +
                    ": at byte 0: the index and its files do not fit"
                    "\n  missing file 'gone.safetensors' with 2 tensors"
                    "\n  missing file 'lost.safetensors' with 1 tensor"
                    "\n  tensor 'y' is in the index twice"
                    "\n  tensor 'n' is not in 'a.safetensors'"
                    "\n  tensor 'x' is in 'a.safetensors', the index says 'b.safetensors'"
                    "\n  tensor 'z' of 'b.safetensors' is not in the index");
  // A tensor in two files, a file that is damaged: with what its reader says.
  nn::save_tensors(two.dir / "b.safetensors", {{"x", ones({2})}, {"z", ones({2})}});
  two.index(R"("x":"a.safetensors","y":"a.safetensors","z":"b.safetensors")");
  CHECK(mentions(two.refusal(), "\n  tensor 'x' is in 'a.safetensors' and in 'b.safetensors'"));
  spit(two.dir / "b.safetensors", "short");
  CHECK(mentions(two.refusal(), "\n  " + (two.dir / "b.safetensors") + ": at byte 5: the header"));
  // Names are as many as somebody likes.
  std::string many;
  for (int i = 0; i < 80; ++i) many += str(i ? "," : "", "\"t", i, "\":\"a.safetensors\"");
  two.index(many);
  CHECK(mentions(two.refusal(), "\n  and 32 more"));
}

TEST_CASE("weight files: what is no index, and names that lead out of the folder, are refused",
          "[weight_files]") {
  const TempDir dir;
  const auto refusal = [&](const std::string& text) {
    spit(dir / "i.json", text);
    return message_of([&] { nn::detail::read_weight_index(dir / "i.json"); });
  };
  CHECK(refusal(index_of("")).empty());
  CHECK(mentions(refusal("{}"), "i.json: at byte 2: there is no 'weight_map'"));
  CHECK(mentions(refusal("[]"), "expected '{'"));
  CHECK(mentions(refusal(index_of("") + "x"), "unexpected text after"));
  CHECK(mentions(refusal(R"({"weight_map":{},"weight_map":{}})"), "'weight_map' appears twice"));
  CHECK(mentions(refusal(R"({"weight_map":{},"x":1,"x":2})"), "'x' appears twice"));
  CHECK(
      mentions(refusal(R"({"metadata":{"a":"1","a":"2"},"weight_map":{}})"), "'a' appears twice"));
  CHECK(mentions(refusal(R"({"metadata":{"a":1,"a":"2"},"weight_map":{}})"), "'a' appears twice"));
  CHECK(mentions(refusal(R"({"metadata":1,"weight_map":{}})"), "expected '{'"));
  CHECK(mentions(refusal(index_of(R"("a":1)")), "a tensor's file is not a string"));
  for (const char* name : {"../a.safetensors", "/a.safetensors", "b/a.safetensors", ".safetensors",
                           "a\\u0000.safetensors"})
    CHECK(mentions(refusal(index_of(str(R"("a":")", name, "\""))), "is no plain name"));
  CHECK(mentions(refusal(index_of(R"("a":"pytorch_model-1.bin")")), "Try tools/convert_pt.py"));
  CHECK(mentions(refusal(index_of(R"("a":"a.gguf")")), "does not end in .safetensors"));
  CHECK(mentions(message_of([&] { WeightFiles::open(dir.path); }),
                 "neither model.safetensors nor model.safetensors.index.json"));
}

TEST_CASE("weight files: whatever is done to an index, it is refused or read within limits",
          "[weight_files]") {
  const std::string golden =
      R"({"metadata":{"total_size":24,"format":"pt"},"weight_map":{"h.0.w":"a-1.safetensors",)"
      R"("h.0.b":"a-1.safetensors","head":"a-2.safetensors"}})";
  const long long taken = taken_of(
      FuzzPlan(20'000, 5), {golden},
      {"\"", "{", "}", "[", "]", ",", ":", "..", "/", "\\u0000", "\"weight_map\"", "null", "1e9"},
      wt_test::takes_weight_index);
  CHECK(taken > 0);
  CHECK(taken < 10'000);
}

TEST_CASE("save_sharded: files of the size asked for, with an index; one where all fits",
          "[weight_files][checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string folder = dir / "model";  // is made
  nn::save_sharded(folder, numbered(1), {.max_shard_bytes = 50, .metadata = {{"note", "n"}}});
  const std::string index = slurp(folder + "/" + kIndex);
  CHECK(index == R"({"metadata":{"total_size":128,"note":"n"},"weight_map":{)"
                 R"("layer.0.weight":"model-00001-of-00003.safetensors",)"
                 R"("layer.1.weight":"model-00001-of-00003.safetensors",)"
                 R"("layer.2.weight":"model-00001-of-00003.safetensors",)"
                 R"("layer.3.weight":"model-00002-of-00003.safetensors",)"
                 R"("layer.4.weight":"model-00003-of-00003.safetensors",)"
                 R"("count":"model-00003-of-00003.safetensors"}})"
                 "\n");
  WeightFiles files = WeightFiles::open(folder);
  CHECK(values(files.read("layer.3.weight")) == Values(8, 4));
  CHECK(files.entry(files.find("count")).dtype == DType::i64);
  CHECK(*SafetensorsFile::open(folder + "/model-00002-of-00003.safetensors")
             .find_metadata("format") == "pt");
  nn::save_sharded(dir / "one", numbered(1));
  CHECK(found(dir / "one") == found(dir / "one/model.safetensors"));
  CHECK(message_of([&] {
          nn::save_sharded(folder, {{"a", ones({1})}, {"a", ones({1})}});
        }) == "UsageError: [save_sharded] two tensors are named 'a'");
  CHECK_THROWS_AS(nn::save_sharded(folder, {}, {.max_shard_bytes = 0}), UsageError);
  CHECK_THROWS_AS(nn::save_sharded(folder, {}, {.metadata = {{"total_size", "1"}}}), UsageError);
}

TEST_CASE("save_sharded: a new model takes the old one's place and leaves nothing of it",
          "[weight_files][checkpoint]") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "m");
  const std::string folder = dir / "m";
  spit(dir / "m/config.json", "{}");
  spit(dir / "m/other-00001-of-00002.safetensors", "of somebody else");
  spit(dir / "m/model-00001-of-00009.safetensors", "of a download that goes on");
  const auto count = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  for (int i = 0; i < 4; ++i) {  // the same number of files: names alternate
    nn::save_sharded(folder, numbered(i), {.max_shard_bytes = 50});
    CHECK(count() == 3 + 4);
    CHECK(mentions(found(folder), str("layer.0.weight[2, 1]=", i)));
  }
  nn::save_sharded(folder, numbered(8));
  CHECK(count() == 3 + 1);
  CHECK(mentions(found(folder), "layer.0.weight[2, 1]=8"));
  nn::save_sharded(folder, numbered(9), {.max_shard_bytes = 50});
  CHECK(count() == 3 + 4);
  CHECK(mentions(found(folder), "layer.0.weight[2, 1]=9"));
  spit(folder + "/" + kIndex, "damaged");
  nn::save_sharded(folder, numbered(1), {.max_shard_bytes = 50});
  CHECK(mentions(found(folder), "layer.0.weight[2, 1]=1"));
}

TEST_CASE("save_sharded: whichever call of the system fails, the old model or the new one is there",
          "[weight_files][checkpoint]") {
  struct Case {
    u64 before, after;
  };
  for (const auto [before, after] : {Case{60, 60}, Case{60, 1000}, Case{1000, 60}}) {
    const TempDir made;
    nn::save_sharded(made / "old", numbered(1), {.max_shard_bytes = before});
    nn::save_sharded(made / "new", numbered(2), {.max_shard_bytes = after});
    const std::string old = found(made / "old"), next = found(made / "new");
    CHECK(old != next);
    int failed = 0;
    for (int nth = 1;; ++nth) {
      const TempDir dir;
      const std::string folder = dir / "m";
      std::filesystem::copy(made / "old", folder);
      const auto count = [](const std::string& path, std::string_view part = "") {
        int n = 0;
        for (const auto& entry : std::filesystem::directory_iterator(path))
          n += entry.path().filename().string().find(part) != std::string::npos;
        return n;
      };
      std::string said;
      bool reached;
      {
        const FaultyFiles faults(nth, EIO);
        said =
            message_of([&] { nn::save_sharded(folder, numbered(2), {.max_shard_bytes = after}); });
        reached = faults.reached();
      }
      INFO("call " << nth << ": " << said);
      const std::string there = found_or_none(folder);
      CHECK((there == old || there == next));
      if (!reached) {
        CHECK(there == next);
        break;
      }
      failed += there == old;
      CHECK(count(folder, ".tmp-") == 0);
      // Once more, and all is well: nothing is left of the old model and of what failed.
      nn::save_sharded(folder, numbered(2), {.max_shard_bytes = after});
      CHECK(found(folder) == next);
      CHECK(count(folder) == count(made / "new"));
    }
    CHECK(failed > 5);
  }
}

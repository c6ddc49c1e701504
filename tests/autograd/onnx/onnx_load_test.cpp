// ONNX files of other writers, damaged ones, and those that ask for what is not read.
#include "warptape/autograd/onnx/model.h"
#include "warptape/autograd/onnx/proto.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/autograd/onnx/round_trip.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"

using namespace wt;

namespace {

Tensor tensor_of(const reference::Array& a) {
  const Shape shape(a.shape);
  const DType t = a.dtype == "i64" ? int64 : f32;
  return tensor(a.values, {.dtype = f64}).reshape(shape).to(t);
}

std::string refusal(const std::string& content, const ParseLimits& limits = {}) {
  const TempDir dir;
  spit(dir / "bad.onnx", content);
  try {
    (void)onnx::load(dir / "bad.onnx", Device::cpu(), limits);
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

// A model of one node x -> y.
std::string model_of(const onnx::NodeProto& n, i64 opset = 17) {
  onnx::ModelProto m{.ir_version = 8, .opset = opset};
  m.graph.inputs = {{.name = "x", .dtype = 1}};
  m.graph.outputs = {{.name = "y", .dtype = 1}};
  m.graph.nodes = {n};
  std::string all;
  for (const std::string& part : onnx::model_bytes(m, "m")) all += part;
  return all;
}
onnx::NodeProto node_of(const char* op, std::vector<onnx::AttributeProto> attributes = {}) {
  return {.op_type = op, .inputs = {"x"}, .outputs = {"y"}, .attributes = std::move(attributes)};
}

}  // namespace

TEST_CASE("onnx load: files by PyTorch's exporter and onnx.helper give onnxruntime's numbers") {
  for (const char* name : {"torch_pictures", "torch_words", "helper_forms"}) {
    INFO(name);
    const reference::Arrays arrays =
        reference::load_reference(reference::reference_path(str("onnx/", name)));
    for (const Device d : wt_test::kernel_devices()) {
      INFO(to_string(d));
      const onnx::Graph g = onnx::load(reference::reference_file(str("onnx/", name, ".onnx")), d);
      const std::vector<Tensor> got = g.run({tensor_of(arrays.at("in.0")).to(d)});
      REQUIRE(got.size() + 1 == arrays.size());
      for (size_t i = 0; i < got.size(); ++i)
        wt_test::check_near(got[i], tensor_of(arrays.at(str("out.", i))), 1e-5);
    }
  }
  const onnx::Graph g = onnx::load(reference::reference_file("onnx/torch_pictures.onnx"));
  CHECK(mentions(g.producer(), "pytorch 2."));
  CHECK(g.opset() == 17);
  CHECK(g.inputs()[0].name == "image");
  CHECK(g.inputs()[0].shape == std::vector<i64>{-1, 2, 9, 8});
  CHECK(g.constants()[0].first == "conv1.weight");
}

TEST_CASE("onnx load: a loaded graph's constants can be trained on") {
  const onnx::Graph g = onnx::load(reference::reference_file("onnx/torch_pictures.onnx"));
  Tensor weight = g.constants()[0].second;
  weight.set_requires_grad();
  g(ones({2, 2, 9, 8})).sum().backward();
  REQUIRE(weight.grad().defined());
  CHECK(weight.grad().shape() == weight.shape());
}

TEST_CASE("onnx load: inputs that are not what the file says") {
  const onnx::Graph g = onnx::load(reference::reference_file("onnx/torch_pictures.onnx"));
  const auto says = [&](const std::vector<Tensor>& in) {
    return message_of([&] { (void)g.run(in); });
  };
  CHECK(mentions(says({}), "1 inputs are needed, got 0"));
  CHECK(
      mentions(says({ones({2, 2, 9, 8}, {.dtype = f64})}), "input 'image' is f64, the file says"));
  CHECK(mentions(says({ones({2, 3, 9, 8})}),
                 "has shape [2, 3, 9, 8], the file says [batch, 2, 9, 8]"));
  CHECK(mentions(says({Tensor()}), "is undefined"));
  CHECK_THROWS_AS(onnx::load("nowhere.onnx"), DataError);
  CHECK_THROWS_AS(onnx::load("nowhere.onnx", Device::meta()), PlacementError);
}

TEST_CASE("onnx load: all that is not read is named at once") {
  onnx::ModelProto m{.ir_version = 8, .opset = 17};
  m.graph.inputs = {{.name = "x", .dtype = 1}};
  m.graph.outputs = {{.name = "y", .dtype = 1}};
  const auto add = [&](const char* op, const char* in, const char* out,
                       std::vector<onnx::AttributeProto> attributes = {}) {
    m.graph.nodes.push_back(
        {.op_type = op, .inputs = {in}, .outputs = {out}, .attributes = std::move(attributes)});
  };
  add("NonMaxSuppression", "x", "a");
  add("Relu", "a", "b", {onnx::attribute("alpha", 1.0)});
  add("Bernoulli", "b", "c");
  add("Bernoulli", "c", "d");
  add("Sin", "d", "e");
  add("Loop", "e", "y");
  std::string all;
  for (const std::string& part : onnx::model_bytes(m, "m")) all += part;
  const std::string said = refusal(all);
  CHECK(mentions(said, "Bernoulli, 2 times"));
  CHECK(mentions(said, "NonMaxSuppression"));
  CHECK(mentions(said, "Loop"));
  CHECK(mentions(said, "Relu with alpha"));
  CHECK(said.find("Sin") == std::string::npos);
  CHECK(mentions(refusal(model_of(node_of("Relu"), 12)), "opset 12, read are 13 to 22"));
  CHECK(mentions(refusal(model_of(node_of("Relu"), 99)), "opset 99"));
}

TEST_CASE("onnx load: names that stand twice, or for nothing") {
  CHECK(mentions(refusal(model_of({.op_type = "Relu", .inputs = {"z"}, .outputs = {"y"}})),
                 "Relu reads 'z', which nothing before it makes"));
  CHECK(mentions(refusal(model_of({.op_type = "Relu", .inputs = {"x"}, .outputs = {"x"}})),
                 "'x' is made twice"));
  CHECK(mentions(refusal(model_of({.op_type = "Relu", .inputs = {"x"}, .outputs = {"a"}})),
                 "the result 'y' is made by nothing"));
  CHECK(mentions(refusal(model_of({.op_type = "Re\x1blu", .inputs = {"x"}, .outputs = {"y"}})),
                 "Re\\x1blu"));
}

TEST_CASE("onnx load: whatever is done to a file, it is refused or taken, and no more") {
  const std::string whole = slurp(reference::reference_file("onnx/helper_forms.onnx"));
  CHECK(mentions(refusal(""), "at byte 0"));
  CHECK(mentions(refusal("GIF89a"), "at byte"));
  CHECK(mentions(refusal(std::string(100, '\0')), "no ONNX model"));
  for (size_t n = 0; n < whole.size(); n += 7) CHECK(refusal(whole.substr(0, n)) != "");
  // A tensor that says it has 2^40 elements, and a text longer than the file.
  onnx::ProtoWriter tensor, graph, model;
  tensor.number(1, i64{1} << 40);
  tensor.number(2, 1);
  tensor.text(8, "w");
  tensor.text(9, "abcd");
  graph.text(5, tensor.bytes());
  model.number(1, 8);
  model.text(7, graph.bytes());
  CHECK(mentions(refusal(model.bytes()), "has 4 bytes"));
  CHECK(mentions(refusal("\x08\x08\x3A\xFF\xFF\xFF\x7F"), "bytes, 0 are left"));
  CHECK(mentions(refusal(whole, {.max_bytes = 100}), "at most 50"));
  // Messages in messages in messages.
  std::string deep;
  for (int i = 0; i < 40; ++i) {
    onnx::ProtoWriter w;
    w.text(5, deep);
    deep = w.bytes();
  }
  onnx::ProtoWriter node;
  node.text(1, deep);
  CHECK(refusal(node.bytes()) != "");
}

TEST_CASE("onnx load: files with something changed are refused or read, and never more") {
  FuzzPlan plan(3000, 7);
  const std::vector<std::string> seeds = {
      slurp(reference::reference_file("onnx/helper_forms.onnx")),
      slurp(reference::reference_file("onnx/torch_words.onnx")).substr(0, 6000),
      model_of(node_of("Relu"))};
  long long taken = 0;
  for (long long i = 0; i < plan.cases; ++i)
    taken += wt_test::takes_onnx(mutated(seeds[size_t(i) % 3], plan.random,
                                         {"\x0A\x01x", "\x3A\xFF\x7F", "\x12\x01y", "\x08\x07",
                                          "Relu", "\x2A\x04", "\x20\x80\x80\x04"}));
  CHECK(taken > plan.cases / 50);
}

TEST_CASE("onnx load: protobuf's own examples") {
  onnx::ProtoWriter w;
  w.number(1, 150);
  w.text(2, "testing");
  w.number(3, -1);
  CHECK(w.bytes() == std::string("\x08\x96\x01\x12\x07testing\x18"
                                 "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"));
  const std::string path = "p";
  const ParseLimits limits;
  const onnx::ProtoSource source{path, w.bytes(), limits};
  onnx::ProtoReader r(source);
  REQUIRE(r.next());
  CHECK(r.number() == 150);
  REQUIRE(r.next());
  CHECK(r.text() == "testing");
  CHECK_THROWS_AS(r.number(), DataError);
  REQUIRE(r.next());
  CHECK(r.number() == -1);
  CHECK(!r.next());
}

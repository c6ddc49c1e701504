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
onnx::ModelProto one_node(onnx::NodeProto n, i64 opset) {
  onnx::ModelProto m{.ir_version = 8, .opset = opset};
  m.graph.inputs = {{.name = "x", .dtype = 1}};
  m.graph.outputs = {{.name = "y", .dtype = 1}};
  m.graph.nodes = {std::move(n)};
  return m;
}
std::string bytes_of(const onnx::ModelProto& m) {
  std::string all;
  for (const std::string& part : onnx::model_bytes(m, "m")) all += part;
  return all;
}
std::string model_of(const onnx::NodeProto& n, i64 opset = 17) {
  return bytes_of(one_node(n, opset));
}
onnx::Graph graph_of(onnx::NodeProto n, const Shape& shape,
                     std::vector<onnx::TensorProto> constants) {
  onnx::ModelProto m = one_node(std::move(n), 17);
  for (const i64 size : shape) m.graph.inputs[0].shape.push_back({size});
  m.graph.initializers = std::move(constants);
  const TempDir dir;
  spit(dir / "m.onnx", bytes_of(m));
  return onnx::load(dir / "m.onnx");
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
  const std::string said = refusal(bytes_of(m));
  CHECK(mentions(said, "Bernoulli, 2 times"));
  CHECK(mentions(said, "NonMaxSuppression"));
  CHECK(mentions(said, "Loop"));
  CHECK(mentions(said, "Relu with alpha"));
  CHECK(said.find("Sin") == std::string::npos);
  CHECK(mentions(refusal(model_of(node_of("Relu"), 12)), "opset 12, read are 13 to 22"));
  CHECK(mentions(refusal(model_of(node_of("Relu"), 99)), "opset 99"));
}

TEST_CASE("onnx load: what a node's attributes ask for is named with the rest") {
  onnx::ModelProto m{.ir_version = 8, .opset = 19};
  m.graph.inputs = {{.name = "x", .dtype = 1}};
  m.graph.outputs = {{.name = "y", .dtype = 1}};
  const auto a = [](auto... v) { return onnx::attribute(v...); };
  using List = std::vector<i64>;
  const auto kernel = a("kernel_shape", List{3, 3});
  std::vector<onnx::NodeProto>& nodes = m.graph.nodes;
  nodes = {
      {"Cast", {}, "", {"x"}, {"n0"}, {a("to", i64{8})}},
      {"Resize", {}, "", {"x", "", "x"}, {"n1"}, {a("mode", "cubic")}},
      {"Resize",
       {},
       "",
       {"x", "", "x"},
       {"n2"},
       {a("mode", "linear"), a("keep_aspect_ratio_policy", "not_larger")}},
      {"Resize", {}, "", {"x", "", "x"}, {"n3"}},
      {"ScatterElements", {}, "", {"x", "x", "x"}, {"n4"}, {a("reduction", "max")}},
      {"MaxPool", {}, "", {"x"}, {"n5", "places"}, {kernel}},
      {"LayerNormalization", {}, "", {"x", "x"}, {"n6", "", "deviation"}},
      {"Dropout", {}, "", {"x"}, {"n7", ""}},
      {"AveragePool", {}, "", {"x"}, {"n8"}, {kernel, a("dilations", List{1, 2})}},
      {"AveragePool", {}, "", {"x"}, {"n9"}, {kernel, a("dilations", List{1, 1})}},
      {"AveragePool", {}, "", {"x"}, {"n10"}, {kernel, a("pads", List{1, 0, 0, 0})}},
      {"MaxPool",
       {},
       "",
       {"x"},
       {"n11"},
       {kernel, a("pads", List{1, 0, 0, 0}), a("ceil_mode", i64{1})}},
      {"ConvTranspose", {}, "", {"x", "x"}, {"n12"}, {a("pads", List{1, 0})}},
      {"Gelu", {}, "", {"x"}, {"n13"}, {a("approximate", "somehow")}},
      {"Pad", {}, "", {"x", "x"}, {"n14"}, {a("mode", i64{1})}},
      {"DepthToSpace", {}, "", {"x"}, {"n15"}, {a("mode", "RCD")}},
      {"BatchNormalization",
       {},
       "",
       {"x", "x", "x", "x", "x"},
       {"y"},
       {a("training_mode", i64{1})}},
  };
  const std::string said = refusal(bytes_of(m));
  for (const char* what :
       {"Cast with to string (8)", "Resize with mode cubic",
        "Resize with keep_aspect_ratio_policy not_larger",
        "Resize with mode nearest, half_pixel, round_prefer_floor",
        "ScatterElements with reduction max", "MaxPool with 2 results",
        "LayerNormalization with 3 results", "AveragePool with dilations\n",
        "AveragePool with pads that differ", "MaxPool with ceil_mode beside pads that differ",
        "ConvTranspose with pads that differ", "Gelu with approximate somehow", "mode is no text",
        "DepthToSpace with mode RCD", "BatchNormalization with training_mode"}) {
    INFO(what);
    CHECK(mentions(said, what));
  }
  CHECK(said.find("Dropout") == std::string::npos);
  CHECK(said.find("times") ==
        std::string::npos);  // each once: the pooling without dilation is read
}

TEST_CASE("onnx load: numbers of a file that no tensor has are refused when it runs") {
  const auto says = [](onnx::NodeProto n, const Shape& shape,
                       std::vector<onnx::TensorProto> constants = {}) {
    n.name = "here";
    const onnx::Graph g = graph_of(std::move(n), shape, std::move(constants));
    return message_of([&] { (void)g(ones(shape)); });
  };
  using List = std::vector<i64>;
  const auto numbers = [](const char* name, const List& v) {
    return onnx::TensorProto{name, tensor(v, {.dtype = int64})};
  };
  for (const i64 block : {i64{1} << 32, i64{0}, -(i64{1} << 32)})
    for (const char* mode : {"DCR", "CRD"})
      CHECK(mentions(says(node_of("DepthToSpace", {onnx::attribute("blocksize", block),
                                                   onnx::attribute("mode", mode)}),
                          {1, 4, 2, 2}),
                     "DepthToSpace 'here': its channels do not fit the block"));
  CHECK(mentions(says(node_of("MaxPool", {onnx::attribute("kernel_shape", List{3}),
                                          onnx::attribute("strides", List{INT64_MAX}),
                                          onnx::attribute("dilations", List{INT64_MAX}),
                                          onnx::attribute("auto_pad", "SAME_UPPER")}),
                      {1, 1, 5}),
                 "a size, stride or pad that none can have"));
  const auto sliced = [&](i64 step, const Shape& shape) {
    return says({.op_type = "Slice", .inputs = {"x", "a", "b", "axes", "s"}, .outputs = {"y"}},
                shape,
                {numbers("a", {-1}), numbers("b", {INT64_MIN}), numbers("axes", {0}),
                 numbers("s", {step})});
  };
  CHECK(sliced(INT64_MIN, {3}) == "");
  CHECK(sliced(-1, {0}) == "");
  // No number where one is needed, and errors of other kinds: each has the node's name, and its
  // kind.
  CHECK(mentions(
      says({.op_type = "CumSum", .inputs = {"x", "k"}, .outputs = {"y"}}, {3}, {numbers("k", {})}),
      "UsageError: [onnx] CumSum 'here': input 1 has 0 numbers, not one"));
  CHECK(mentions(
      says({.op_type = "Gather", .inputs = {"x", "k"}, .outputs = {"y"}}, {3}, {numbers("k", {7})}),
      "IndexError: [onnx] Gather 'here': [index_select]"));
  CHECK(mentions(
      says({.op_type = "Add", .inputs = {"x", "k"}, .outputs = {"y"}}, {3}, {numbers("k", {7, 8})}),
      "ShapeError: [onnx] Add 'here': [add]"));
}

TEST_CASE("onnx load: forms that PyTorch's exporter does not write") {
  const auto run = [](onnx::NodeProto n, const Tensor& x,
                      std::vector<onnx::TensorProto> constants = {}) {
    return graph_of(std::move(n), x.shape(), std::move(constants))(x).to_vector<float>();
  };
  using List = std::vector<i64>;
  using Numbers = std::vector<float>;
  // A bias of one number is for all columns.
  CHECK(run({.op_type = "Gemm",
             .inputs = {"x", "w", "c"},
             .outputs = {"y"},
             .attributes = {onnx::attribute("transB", i64{1})}},
            ones({1, 2}), {{"w", ones({3, 2})}, {"c", ones({1})}}) == Numbers{3, 3, 3});
  // Pads of more than half a window.
  const Tensor x = tensor({1.F, 2.F, 3.F}).reshape({1, 1, 3});
  CHECK(run(node_of("MaxPool", {onnx::attribute("kernel_shape", List{2}),
                                onnx::attribute("pads", List{1, 0})}),
            x) == Numbers{1, 2, 3});
  CHECK(run(node_of("MaxPool", {onnx::attribute("kernel_shape", List{3}),
                                onnx::attribute("pads", List{2, 2})}),
            x) == Numbers{1, 2, 3, 3, 3});
  CHECK(run(node_of("AveragePool",
                    {onnx::attribute("kernel_shape", List{2}), onnx::attribute("pads", List{2, 2}),
                     onnx::attribute("strides", List{2}),
                     onnx::attribute("count_include_pad", i64{1})}),
            x) == Numbers{0, 1.5F, 1.5F});
  // Backwards by more than there is.
  CHECK(run({.op_type = "Slice", .inputs = {"x", "a", "b", "d", "s"}, .outputs = {"y"}}, x,
            {{"a", tensor(List{-1})},
             {"b", tensor(List{INT64_MIN})},
             {"d", tensor(List{2})},
             {"s", tensor(List{INT64_MIN})}}) == Numbers{3});
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
  // Numbers of one byte in the file are eight in memory: counted before.
  const auto packed = [](u32 field, size_t n) {
    onnx::ProtoWriter t, g, file;
    t.number(2, 7);
    t.text(8, "w");
    t.text(field, std::string(n, '\x01'));
    g.text(5, t.bytes());
    file.number(1, 8);
    file.text(7, g.bytes());
    return file.bytes();
  };
  CHECK(mentions(refusal(packed(7, 100'000), {.max_bytes = 400'000}),
                 "more memory than the 400000 bytes"));
  CHECK(mentions(refusal(packed(7, 100'000)), "has 800000 bytes"));
  CHECK(mentions(refusal(packed(1, 100'000)), "field 1 has more than 8 numbers"));
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
  CHECK(taken > plan.cases / 100);
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

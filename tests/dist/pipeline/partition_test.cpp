// A Sequential in stages.
#include "warptape/dist/partition.h"

#include <string>
#include <vector>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

// Sizes of the stages, in steps.
std::vector<size_t> sizes(const std::vector<nn::Sequential>& stages) {
  std::vector<size_t> n;
  for (const nn::Sequential& s : stages) n.push_back(s.size());
  return n;
}
std::vector<std::string> names(const nn::ModuleBase& m) {
  std::vector<std::string> all;
  for (const nn::NamedTensor& t : m.named_parameters()) all.push_back(t.name);
  return all;
}

nn::Sequential layers() {
  const auto act = [](Tensor x) { return relu(std::move(x)); };
  return nn::Sequential{nn::Linear{8, 8}, act, nn::Linear{8, 8}, act, nn::Linear{8, 16}, act};
}

using Steps = std::vector<size_t>;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("partition: by bytes of parameters, activations with the layer before them") {
  const LeakGuard guard;
  const nn::Sequential net = layers();  // 72, 0, 72, 0, 144, 0 elements
  CHECK(sizes(dist::partition(net, 1)) == Steps{6});
  CHECK(sizes(dist::partition(net, 2)) == Steps{4, 2});
  CHECK(sizes(dist::partition(net, 3)) == Steps{2, 2, 2});
  CHECK(sizes(dist::partition(net, 6)) == Steps{1, 1, 1, 1, 1, 1});
  nn::Sequential wide = layers();
  wide.to(DType::f64);
  CHECK(sizes(dist::partition(wide, 2)) == Steps{4, 2});
}

TEST_CASE("partition: the largest stage comes first, evenness of the others after it") {
  const LeakGuard guard;
  nn::Sequential net;
  for (const i64 elements : {1, 5, 2, 3}) net.push_back(nn::Linear{1, elements, {.bias = false}});
  // 6, 2, 3 would be more even than 1, 5, 5.
  CHECK(sizes(dist::partition(net, 3)) == Steps{1, 1, 2});
}

TEST_CASE("partition: stages share the net's modules and keep their names") {
  const LeakGuard guard;
  nn::Sequential net = layers();
  std::vector<nn::Sequential> stages = dist::partition(net, 3);
  CHECK(names(stages[1]) == Names{"2.weight", "2.bias"});
  CHECK(stages[1].parameters()[0].same_as(net.parameters()[2]));
  const Tensor x = randn({3, 8});
  Tensor y = x;
  for (nn::Sequential& s : stages) y = s(y);
  CHECK(values(y) == values(net(x)));
  CHECK(names(net) == Names{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"});
}

TEST_CASE("partition: at named children") {
  const LeakGuard guard;
  nn::Sequential net;
  net.push_back("embed", nn::Linear{4, 4});
  net.push_back([](Tensor x) { return relu(std::move(x)); });
  net.push_back("body", nn::Linear{4, 4});
  net.push_back("head", nn::Linear{4, 2});
  CHECK(sizes(dist::partition(net, {"body", "head"})) == Steps{2, 1, 1});
  CHECK(sizes(dist::partition(net, {"1"})) == Steps{1, 3});
  CHECK(sizes(dist::partition(net, Names{})) == Steps{4});
  CHECK(names(dist::partition(net, {"head"})[1]) == Names{"head.weight", "head.bias"});
  const auto refused = [&](const Names& begins) {
    return message_of([&] { (void)dist::partition(net, begins); });
  };
  CHECK(mentions(refused({"hed"}), "[partition] the net has no child 'hed'; did you mean 'head'?"));
  CHECK(mentions(refused({"head", "body"}), "[partition] a stage cannot begin at 'body', step 2"));
  CHECK(mentions(refused({"embed"}), "cannot begin at 'embed', step 0"));
}

TEST_CASE("partition: what cannot be cut is refused") {
  const LeakGuard guard;
  const nn::Sequential net = layers();
  const auto refused = [&](int stages) {
    return message_of([&] { (void)dist::partition(net, stages); });
  };
  CHECK(
      mentions(refused(7), "[partition] stages must be from 1 to 6, the steps of the net, got 7"));
  CHECK(mentions(refused(0), "got 0"));
  CHECK(mentions(refused(7), "partition_test.cpp:"));
  nn::Linear tied{4, 4};
  const nn::Sequential twice{tied, nn::Linear{4, 4}, tied};
  const std::string text = message_of([&] { (void)dist::partition(twice, 3); });
  CHECK(
      mentions(text, "[partition] stages 0 and 2 would share a parameter, 0.weight and 2.weight"));
  CHECK(dist::partition(twice, 1).size() == 1);
}

// Attention, transformers and recurrent layers: refusals, beginnings, long sequences, dropout,
// higher derivatives, learning.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/random.h"
#include "warptape/nn/init.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

#define REFUSES(text, ...) CHECK(mentions(message_of([&] { (void)(__VA_ARGS__); }), text))

namespace {

Tensor normal(const Shape& shape, u64 seed, DType t = f64) {
  manual_seed(seed);
  Tensor x = empty(shape, {.dtype = t});
  nn::init::normal_(x);
  return x;
}
double furthest(const Tensor& a, const Tensor& b) {
  const Values v = values(a), w = values(b);
  REQUIRE(v.size() == w.size());
  double off = 0;
  for (size_t i = 0; i < v.size(); ++i) off = std::max(off, std::fabs(v[i] - w[i]));
  return off;
}

}  // namespace

TEST_CASE("MultiheadAttention refuses what does not fit", "[attention][layers]") {
  const LeakGuard guard;
  REFUSES("num_heads 3 does not divide embed_dim 4", nn::MultiheadAttention{4, 3});
  REFUSES("num_heads must be at least 1, got 0", nn::MultiheadAttention{4, 0});
  REFUSES("p must be in [0, 1], got 2", nn::MultiheadAttention{4, 2, {.dropout = 2}});
  nn::MultiheadAttention m{4, 2};
  const Tensor q = ones({3, 2, 4}), k = ones({5, 2, 4});
  REFUSES("must have 4, 4 and 4 features", m(ones({3, 2, 5}), k, k));
  REFUSES("equally many samples", m(q, ones({5, 1, 4}), k));
  REFUSES("key and value must be equally long\n  query [2, 3, 4]\n  key [2, 5, 4]", m(q, k, q));
  REFUSES("must all have 3 axes, or 2 without samples", m(q, ones({4}), k));
  REFUSES("must all have 3 axes, or 2 without samples", m(ones({4}), k, k));
  REFUSES("attn_mask must be [3, 5], got [5, 3]",
          m(q, k, k, nn::AttentionCall{.attn_mask = ones({5, 3})}));
  REFUSES("attn_mask must be [4, 3, 5], got [2, 3, 5]",
          m(q, k, k, nn::AttentionCall{.attn_mask = ones({2, 3, 5})}));
  REFUSES("key_padding_mask must be [2, 5], got [5, 2]",
          m(q, k, k, nn::AttentionCall{.key_padding_mask = ones({5, 2})}));
  REFUSES("attn_mask must be bool or floating, got i64",
          m(q, k, k, nn::AttentionCall{.attn_mask = ones({3, 5}, {.dtype = DType::i64})}));
}

TEST_CASE("MultiheadAttention: state, beginnings, dropout, a key that nobody sees",
          "[attention][layers]") {
  const LeakGuard guard;
  manual_seed(1);
  nn::MultiheadAttention m{16, 4, {.dropout = 0.5}};
  std::vector<std::string> names;
  for (const auto& t : m.state_dict()) names.push_back(t.name);
  CHECK(names == std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight",
                                          "out_proj.bias"});
  const Values w = values(m.in_proj_weight);
  const double bound = std::sqrt(6.0 / (16 + 48)), largest = *std::max_element(w.begin(), w.end());
  CHECK(largest <= bound);
  CHECK(largest > 0.95 * bound);
  CHECK(values(m.in_proj_bias) == Values(48, 0));
  CHECK(values(m.out_proj.bias) == Values(16, 0));
  const Tensor x = normal({6, 2, 16}, 4, f32);
  CHECK(values(m(x, x, x).output) != values(m(x, x, x).output));
  m.eval();
  CHECK(values(m(x, x, x).output) == values(m(x, x, x).output));
  CHECK_FALSE(m(x, x, x, nn::AttentionCall{.need_weights = false}).weights.defined());
  CHECK(m(x, x, x).weights.shape() == Shape{2, 6, 6});
  const Tensor hidden = tensor({{0, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 0}}).to(DType::boolean);
  const Tensor weights = m(x, x, x, nn::AttentionCall{.key_padding_mask = hidden}).weights;
  for (i64 i = 0; i < 6; ++i) {
    CHECK(weights[{0, i, 5}].item() == 0);
    CHECK(weights[{1, i, 0}].item() == 0);
  }
}

TEST_CASE("A transformer's layers begin apart, its paths have names, dropout obeys the mode",
          "[attention][layers]") {
  const LeakGuard guard;
  manual_seed(2);
  nn::TransformerEncoder encoder{8, 2, 2, {.dim_feedforward = 16, .batch_first = true}};
  CHECK(values(encoder.layers[0].linear1.weight) != values(encoder.layers[1].linear1.weight));
  CHECK_FALSE(encoder.norm.has_value());
  CHECK(encoder.named_parameters()[0].name == "layers.0.self_attn.in_proj_weight");
  const Tensor x = normal({2, 3, 8}, 3, f32);
  CHECK(values(encoder(x)) != values(encoder(x)));
  encoder.eval();
  CHECK(values(encoder(x)) == values(encoder(x)));
  REFUSES("[TransformerEncoder] num_layers must be at least 1, got 0",
          nn::TransformerEncoder{8, 2, 0});
  REFUSES("num_heads 3 does not divide embed_dim 8", nn::TransformerDecoderLayer{8, 3});
  nn::Transformer both{
      {.d_model = 8, .nhead = 2, .num_encoder_layers = 1, .num_decoder_layers = 1}};
  CHECK(both.encoder.norm.has_value());
  CHECK(both.named_parameters().back().name == "decoder.norm.bias");
  CHECK_NOTHROW(both(ones({3, 1, 8}), ones({2, 1, 8})));
}

TEST_CASE("LSTM and GRU refuse what does not fit", "[recurrent][layers]") {
  const LeakGuard guard;
  REFUSES("[LSTM] hidden_size must be at least 1, got 0", nn::LSTM{3, 0});
  REFUSES("[GRU] input_size must be at least 1, got -1", nn::GRU{-1, 2});
  REFUSES("[GRU] num_layers must be at least 1, got 0", nn::GRU{1, 2, {.num_layers = 0}});
  REFUSES("[LSTM] p must be in [0, 1], got -1", nn::LSTM{1, 2, {.dropout = -1}});
  nn::LSTM lstm{3, 2};
  REFUSES("[LSTM] x must have 2 or 3 axes, got [3]", lstm(ones({3})));
  REFUSES("[LSTM] x [4, 2, 5] has 5 features, needs 3", lstm(ones({4, 2, 5})));
  REFUSES("[LSTM] x has no step: [0, 2, 3]", lstm(ones({0, 2, 3})));
  REFUSES("[LSTM] the state must be [1, 2, 2], got [1, 1, 2]",
          lstm(ones({4, 2, 3}), nn::LstmState{ones({1, 1, 2}), ones({1, 2, 2})}));
  nn::GRU gru{3, 2, {.bidirectional = true}};
  REFUSES("[GRU] the state must be [2, 2], got [1, 2]", gru(ones({4, 3}), ones({1, 2})));
  REFUSES("[GRU] the state must be [2, 2], got [2, 1, 2]", gru(ones({4, 3}), ones({2, 1, 2})));
}

TEST_CASE("LSTM and GRU: state names, beginnings, dropout between layers", "[recurrent][layers]") {
  const LeakGuard guard;
  manual_seed(5);
  nn::LSTM lstm{3, 25, {.num_layers = 2, .dropout = 0.5, .bidirectional = true}};
  std::vector<std::string> names;
  for (const auto& t : lstm.state_dict()) names.push_back(t.name);
  REQUIRE(names.size() == 16);
  CHECK(names[0] == "weight_ih_l0");
  CHECK(names[3] == "bias_hh_l0");
  CHECK(names[4] == "weight_ih_l0_reverse");
  CHECK(names[15] == "bias_hh_l1_reverse");
  CHECK(lstm.state_dict()[8].tensor.shape() == Shape{100, 50});
  const Values w = values(lstm.state_dict()[8].tensor);
  CHECK(*std::max_element(w.begin(), w.end()) <= 0.2);
  CHECK(*std::max_element(w.begin(), w.end()) > 0.19);
  const Tensor x = normal({4, 2, 3}, 6, f32);
  CHECK(values(lstm(x).output) != values(lstm(x).output));
  lstm.eval();
  CHECK(values(lstm(x).output) == values(lstm(x).output));
  CHECK(nn::GRU{3, 2, {.bias = false}}.state_dict().size() == 2);
}

TEST_CASE("LSTM over more steps than a node has outputs is the same as in pieces",
          "[recurrent][layers]") {
  const LeakGuard guard;
  nn::LSTM lstm{2, 3, {.dtype = f64}};
  for (const i64 steps : {128, 129, 300}) {
    Tensor x = normal({steps, 1, 2}, 8);
    x.set_requires_grad();
    const nn::LstmResult whole = lstm(x);
    const nn::LstmResult head = lstm(slice(x, 0, {0, 100}));
    const nn::LstmResult tail = lstm(slice(x, 0, {100, steps}), nn::LstmState{head.h, head.c});
    CHECK(furthest(whole.output, cat({head.output, tail.output}, 0)) < 1e-13);
    CHECK(furthest(whole.c, tail.c) < 1e-13);
    const Tensor seed = normal({1, 1, 3}, 9);
    CHECK(furthest(grad(whole.h, x, {.grad_outputs = {seed}}),
                   grad(tail.h, x, {.grad_outputs = {seed}})) < 1e-13);
  }
}

TEST_CASE("LSTM, GRU and attention have both derivatives", "[recurrent][attention][layers]") {
  const LeakGuard guard;
  nn::LSTM lstm{2, 2, {.dtype = f64}};
  nn::GRU gru{2, 2, {.dtype = f64}};
  nn::MultiheadAttention attention{4, 2, {.dtype = f64}};
  Tensor x = normal({3, 1, 2}, 3), y = normal({3, 1, 4}, 4);
  x.set_requires_grad();
  y.set_requires_grad();
  const auto check = [](const auto& f, std::vector<Tensor> inputs) {
    CHECK(grad_check(f, inputs));
    CHECK(grad_grad_check(f, inputs));
  };
  check([&](std::span<const Tensor> in) { return sum(lstm(in[0]).output); }, {x});
  check([&](std::span<const Tensor> in) { return sum(gru(in[0]).output); }, {x});
  check([&](std::span<const Tensor> in) { return sum(attention(in[0], in[0], in[0]).output); },
        {y});
}

TEST_CASE("An LSTM learns to remember the first token", "[recurrent][layers]") {
  const LeakGuard guard;
  manual_seed(12);
  struct Net : nn::Module<Net> {
    nn::Embedding table = add("table", nn::Embedding{4, 8});
    nn::LSTM lstm = add("lstm", nn::LSTM{8, 16, {.batch_first = true}});
    nn::Linear head = add("head", nn::Linear{16, 4});
    Tensor forward(Tensor x) { return head(select(lstm(table(std::move(x))).output, 1, -1)); }
  } net;
  optim::AdamW opt{net, {.lr = 0.02}};
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    const Tensor x = randint(0, 4, {32, 6});
    const Loss l = cross_entropy(net(x), select(x, 1, 0));
    opt.zero_grad();
    l.backward();
    opt.step();
    loss = l.item();
  }
  CHECK(loss < 0.2);  // guessing is 1.39
}

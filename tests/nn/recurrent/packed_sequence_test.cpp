// Packed sequences, recurrent cells and RNN: layout, refusals, many steps, higher derivatives.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/operators.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

#define REFUSES(text, ...) CHECK(mentions(message_of([&] { (void)(__VA_ARGS__); }), text))

namespace {

Tensor numbers(const Shape& shape, u64 seed) {
  manual_seed(seed);
  return randn(shape, {.dtype = f64});
}
double furthest(const Tensor& a, const Tensor& b) {
  const Values v = values(a), w = values(b);
  REQUIRE(v.size() == w.size());
  double off = 0;
  for (size_t i = 0; i < v.size(); ++i) off = std::max(off, std::fabs(v[i] - w[i]));
  return off;
}

}  // namespace

TEST_CASE("pack_padded_sequence puts the steps one after the other", "[packed][layers]") {
  const LeakGuard guard;
  // x[t, i] is 10 i + t.
  const Tensor x = tensor({{0, 10, 20}, {1, 11, 21}, {2, 12, 22}}).unsqueeze(2);
  const nn::PackedSequence p = nn::pack_padded_sequence(x, {1, 3, 2}, {.enforce_sorted = false});
  CHECK(values(p.data) == Values{10, 20, 0, 11, 21, 12});
  CHECK(p.data.shape() == Shape{6, 1});
  CHECK(p.batch_sizes == std::vector<i64>{3, 2, 1});
  CHECK(values(p.sorted_indices) == Values{1, 2, 0});
  CHECK(values(p.unsorted_indices) == Values{2, 0, 1});
  const nn::PaddedSequence back = nn::pad_packed_sequence(p, {.padding_value = -1});
  CHECK(back.lengths == std::vector<i64>{1, 3, 2});
  CHECK(values(back.output) == Values{0, 10, 20, -1, 11, 21, -1, 12, -1});
  const nn::PackedSequence sorted =
      nn::pack_padded_sequence(transpose(x, 0, 1), {2, 2, 1}, {.batch_first = true});
  CHECK(values(sorted.data) == Values{0, 10, 20, 1, 11});
  CHECK_FALSE(sorted.sorted_indices.defined());
  const nn::PaddedSequence first =
      nn::pad_packed_sequence(sorted, {.batch_first = true, .total_length = 3});
  CHECK(first.output.shape() == Shape{3, 3, 1});
  CHECK(values(first.output) == Values{0, 1, 0, 10, 11, 0, 20, 0, 0});
}

TEST_CASE("Packed sequences refuse what does not fit", "[packed][layers]") {
  const LeakGuard guard;
  const Tensor x = ones({3, 2, 4});
  REFUSES("[pack_padded_sequence] x must be [T, N, ...], got [3]",
          nn::pack_padded_sequence(ones({3}), {1}));
  REFUSES("1 lengths of 2 sequences", nn::pack_padded_sequence(x, std::vector<i64>{1}));
  REFUSES("lengths must be in [1, 3], sequence 1 has 0", nn::pack_padded_sequence(x, {3, 0}));
  REFUSES("lengths must be in [1, 3], sequence 0 has 4", nn::pack_padded_sequence(x, {4, 1}));
  REFUSES("x has no sequence: [3, 0, 4]",
          nn::pack_padded_sequence(ones({3, 0, 4}), std::vector<i64>{}));
  REFUSES("lengths must not rise: sequence 1 with 3 comes after a shorter one",
          nn::pack_padded_sequence(x, {2, 3}));
  REFUSES("lengths must be i64 or i32, got f32", nn::pack_padded_sequence(x, ones({2})));
  REFUSES("lengths must be [N], got [1, 2]",
          nn::pack_padded_sequence(x, ones({1, 2}, {.dtype = DType::i64})));
  const nn::PackedSequence p = nn::pack_padded_sequence(x, {3, 1});
  REFUSES("total_length 2 is below the longest sequence, 3",
          nn::pad_packed_sequence(p, {.total_length = 2}));
  REFUSES("batch sizes of a PackedSequence must be positive and never rise",
          nn::pad_packed_sequence({p.data, {1, 3}}));
  REFUSES("batch sizes of a PackedSequence must be positive and never rise",
          nn::pad_packed_sequence({p.data, {}}));
  REFUSES("batch sizes of 3 rows in all for packed data [4, 4]",
          nn::pad_packed_sequence({p.data, {2, 1}}));
  REFUSES("indices [3] of a PackedSequence of 2 sequences",
          nn::pad_packed_sequence({p.data, {2, 1, 1}, ones({3}, {.dtype = DType::i64})}));
  nn::LSTM lstm{4, 2};
  REFUSES("[LSTM] batch sizes of 3 rows", lstm(nn::PackedSequence{p.data, {2, 1}}));
  REFUSES("[LSTM] packed data must have 2 axes, got [4, 4, 1]",
          lstm(nn::PackedSequence{unsqueeze(p.data, 2), {2, 1, 1}}));
  REFUSES("[GRU] x [4, 4] has 4 features, needs 3", nn::GRU{3, 2}(p));
  REFUSES("[RNN] the state must be [1, 2, 2], got [1, 1, 2]", nn::RNN{4, 2}(p, ones({1, 1, 2})));
}

TEST_CASE("Each packed sequence is as the sequence alone", "[packed][recurrent][layers]") {
  const LeakGuard guard;
  const std::vector<i64> lengths{3, 300, 129, 128, 1};
  Tensor x = numbers({300, 5, 2}, 3);
  x.set_requires_grad();
  nn::GRU gru{2, 3, {.bidirectional = true, .dtype = f64}};
  const nn::PackedGruResult r =
      gru(nn::pack_padded_sequence(x, lengths, {.enforce_sorted = false}));
  const Tensor y = nn::pad_packed_sequence(r.output).output;
  const Tensor g = grad(sum(r.h) + sum(y), x);
  for (i64 i = 0; i < 5; ++i) {
    const i64 n = lengths[size_t(i)];
    Tensor alone = clone(slice(select(x.detach(), 1, i), 0, {0, n}));
    alone.set_requires_grad();
    const nn::GruResult want = gru(alone);
    CHECK(furthest(slice(select(y, 1, i), 0, {0, n}), want.output) < 1e-13);
    CHECK(furthest(select(r.h, 1, i), want.h) < 1e-13);
    const Tensor ga = grad(sum(want.h) + sum(want.output), alone);
    CHECK(furthest(slice(select(g, 1, i), 0, {0, n}), ga) < 1e-12);
    CHECK(furthest(slice(select(g, 1, i), 0, {n, 300}), zeros({300 - n, 2}, {.dtype = f64})) == 0);
  }
}

TEST_CASE("Recurrent cells: names, beginnings, refusals", "[recurrent][layers]") {
  const LeakGuard guard;
  manual_seed(5);
  nn::LSTMCell lstm{3, 25};
  std::vector<std::string> names;
  for (const auto& t : lstm.state_dict()) names.push_back(t.name);
  CHECK(names == std::vector<std::string>{"weight_ih", "weight_hh", "bias_ih", "bias_hh"});
  CHECK(lstm.weights.weight_hh->shape() == Shape{100, 25});
  const Values w = values(lstm.weights.weight_hh);
  CHECK(*std::max_element(w.begin(), w.end()) <= 0.2);
  CHECK(*std::max_element(w.begin(), w.end()) > 0.19);
  CHECK(nn::GRUCell{3, 2, {.bias = false}}.state_dict().size() == 2);
  nn::RNNCell rnn{3, 2};
  REFUSES("[RNNCell] hidden_size must be at least 1, got 0", nn::RNNCell{3, 0});
  REFUSES("[GRUCell] input_size must be at least 1, got 0", nn::GRUCell{0, 3});
  REFUSES("[RNNCell] x must have 1 or 2 axes, got [1, 1, 3]", rnn(ones({1, 1, 3})));
  REFUSES("[RNNCell] x [4, 2] has 2 features, needs 3", rnn(ones({4, 2})));
  REFUSES("[RNNCell] the state must be [4, 2], got [2]", rnn(ones({4, 3}), ones({2})));
  REFUSES("[LSTMCell] the state must be [25], got [1, 25]",
          lstm(ones({3}), nn::LstmState{.c = ones({1, 25})}));
  REFUSES("[RNN] num_layers must be at least 1, got 0", nn::RNN{1, 2, {.num_layers = 0}});
}

TEST_CASE("RNN, cells and packed layers have both derivatives", "[packed][recurrent][layers]") {
  const LeakGuard guard;
  Tensor x = numbers({3, 2, 2}, 3);
  x.set_requires_grad();
  const auto check = [&](const auto& f) {
    std::vector<Tensor> inputs{x};
    CHECK(grad_check(f, inputs));
    CHECK(grad_grad_check(f, inputs));
  };
  nn::RNN rnn{2, 2, {.bidirectional = true, .dtype = f64}};
  check([&](std::span<const Tensor> in) {
    const auto r = rnn(nn::pack_padded_sequence(in[0], {1, 3}, {.enforce_sorted = false}));
    return sum(nn::pad_packed_sequence(r.output).output) + sum(r.h);
  });
  nn::LSTMCell cell{2, 2, {.dtype = f64}};
  check([&](std::span<const Tensor> in) {
    nn::LstmState s;
    for (const Tensor& step : unbind(in[0])) s = cell(step, s);
    return sum(s.h) + sum(s.c);
  });
}

TEST_CASE("A clone of a cell is independent", "[recurrent][layers]") {
  const LeakGuard guard;
  nn::GRUCell cell{2, 2};
  nn::GRUCell copy = cell.clone();
  const Tensor x = ones({2});
  CHECK(values(cell(x)) == values(copy(x)));
  {
    const NoGrad no_grad;
    Tensor w = copy.weights.weight_ih;
    w.zero_();
  }
  CHECK(values(cell(x)) != values(copy(x)));
}

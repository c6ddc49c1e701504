// Attention, transformers and recurrent layers beside PyTorch's numbers.
#include "warptape/core/operators.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/nn/torch_module.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

Tensor mask(const Tensor& numbers) { return numbers.to(DType::boolean); }
Tensors all(const nn::AttentionResult& r) { return {r.output, r.weights}; }
Tensors all(const nn::LstmResult& r) { return {r.output, r.h, r.c}; }
Tensors all(const nn::GruResult& r) { return {r.output, r.h}; }
Tensors all(const Tensor& h) { return {h}; }
Tensors all(const nn::LstmState& s) { return {s.h, s.c}; }

}  // namespace

TEST_CASE("PyTorch's modules: attention", "[layers][torch][attention]") {
  const LeakGuard guard;
  nn::MultiheadAttention self{6, 2, {.dtype = f64}};
  check_torch("attention_self", self,
              [self](const Tensors& x) mutable { return all(self(x[0], x[0], x[0])); });
  nn::MultiheadAttention cross{4, 2, {.kdim = 3, .vdim = 5, .batch_first = true, .dtype = f64}};
  check_torch("attention_cross", cross, [cross](const Tensors& x) mutable {
    return all(cross(x[0], x[1], x[2],
                     nn::AttentionCall{.key_padding_mask = mask(x[3]),
                                       .attn_mask = mask(x[4]),
                                       .average_attn_weights = false}));
  });
  nn::MultiheadAttention plain{4, 2, {.bias = false, .dtype = f64}};
  for (const bool weights : {false, true})  // two ways to the same output
    check_torch("attention_plain", plain, [plain, weights](const Tensors& x) mutable -> Tensors {
      return {plain(x[0], x[1], x[1],
                    nn::AttentionCall{.key_padding_mask = x[3].to(f64) * -3,
                                      .need_weights = weights,
                                      .attn_mask = x[2]})
                  .output};
    });
  nn::MultiheadAttention causal{4, 1, {.dtype = f64}};
  check_torch("attention_causal", causal, [causal](const Tensors& x) mutable {
    const Tensors with = all(causal(x[0], x[0], x[0], nn::AttentionCall{.is_causal = true}));
    const Tensor without =
        causal(x[0], x[0], x[0], nn::AttentionCall{.need_weights = false, .is_causal = true})
            .output;
    double off = 0;
    for (size_t i = 0; i < values(without).size(); ++i)
      off = std::max(off, std::fabs(values(without)[i] - values(with[0])[i]));
    CHECK(off < 1e-14);
    return with;
  });
}

TEST_CASE("PyTorch's modules: transformer layers and stacks", "[layers][torch][attention]") {
  const LeakGuard guard;
  const nn::TransformerLayerOptions small{.dim_feedforward = 5, .dropout = 0, .dtype = f64};
  check_torch("transformer_encoder_layer", nn::TransformerEncoderLayer{4, 2, small});
  nn::TransformerLayerOptions options = small;
  options.activation = nn::TransformerActivation::gelu;
  options.norm_first = options.batch_first = true;
  options.layer_norm_eps = 0.1;
  nn::TransformerEncoderLayer first{4, 2, options};
  for (const bool causal : {false, true})  // as a mask, and by name
    check_torch("transformer_encoder_layer_first", first,
                [first, causal](const Tensors& x) mutable -> Tensors {
                  const Tensor upper = tensor({{0, 1, 1}, {0, 0, 1}, {0, 0, 0}});
                  nn::EncoderMasks masks{.src_key_padding_mask = mask(x[1]), .is_causal = causal};
                  if (!causal) masks.src_mask = mask(upper);
                  return {first(x[0], masks)};
                });
  options = small;
  options.bias = false;
  check_torch("transformer_encoder_layer_plain", nn::TransformerEncoderLayer{4, 1, options});
  check_torch<2>("transformer_decoder_layer", nn::TransformerDecoderLayer{4, 2, small});
  options = small;
  options.norm_first = options.batch_first = true;
  nn::TransformerDecoderLayer decoder{4, 2, options};
  check_torch(
      "transformer_decoder_layer_first", decoder, [decoder](const Tensors& x) mutable -> Tensors {
        return {decoder(
            x[0], x[1],
            nn::DecoderMasks{.memory_key_padding_mask = mask(x[2]), .tgt_is_causal = true})};
      });
  check_torch("transformer_encoder", nn::TransformerEncoder{4, 2, 2, small, {.norm = true}});
  options = small;
  options.dim_feedforward = 3;
  options.batch_first = true;
  nn::Transformer both{{.d_model = 4,
                        .nhead = 2,
                        .num_encoder_layers = 1,
                        .num_decoder_layers = 2,
                        .layer = options}};
  check_torch("transformer", both, [both](const Tensors& x) mutable -> Tensors {
    return {both(x[0], x[1], nn::TransformerMasks{.decoder = {.tgt_is_causal = true}})};
  });
}

TEST_CASE("PyTorch's modules: LSTM and GRU", "[layers][torch][recurrent]") {
  const LeakGuard guard;
  const auto lstm = [](const char* name, nn::LSTM m) {
    check_torch(name, m, [m](const Tensors& x) mutable {
      return all(x.size() == 1 ? m(x[0]) : m(x[0], nn::LstmState{x[1], x[2]}));
    });
  };
  lstm("lstm", nn::LSTM{3, 2, {.dtype = f64}});
  lstm("lstm_two_both_ways",
       nn::LSTM{3, 2, {.num_layers = 2, .bidirectional = true, .dtype = f64}});
  lstm("lstm_state", nn::LSTM{2, 3, {.num_layers = 2, .batch_first = true, .dtype = f64}});
  lstm("lstm_alone", nn::LSTM{3, 2, {.bias = false, .dtype = f64}});
  const auto gru = [](const char* name, nn::GRU m) {
    check_torch(name, m, [m](const Tensors& x) mutable {
      return all(x.size() == 1 ? m(x[0]) : m(x[0], x[1]));
    });
  };
  gru("gru", nn::GRU{3, 2, {.dtype = f64}});
  gru("gru_two_both_ways",
      nn::GRU{3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true, .dtype = f64}});
  gru("gru_state", nn::GRU{2, 3, {.bias = false, .dtype = f64}});
}

TEST_CASE("PyTorch's modules: RNN and cells", "[layers][torch][recurrent]") {
  const LeakGuard guard;
  const auto with_state = [](const char* name, auto m) {
    check_torch(name, m, [m](const Tensors& x) mutable {
      return all(x.size() == 1 ? m(x[0]) : m(x[0], x[1]));
    });
  };
  constexpr auto relu = nn::RnnNonlinearity::relu;
  with_state("rnn", nn::RNN{3, 2, {.dtype = f64}});
  with_state("rnn_two_both_ways", nn::RNN{3,
                                          2,
                                          {.num_layers = 2,
                                           .nonlinearity = relu,
                                           .batch_first = true,
                                           .bidirectional = true,
                                           .dtype = f64}});
  with_state("rnn_state", nn::RNN{2, 3, {.bias = false, .dtype = f64}});
  with_state("rnn_cell", nn::RNNCell{3, 2, {.dtype = f64}});
  with_state("rnn_cell_relu", nn::RNNCell{3, 2, {.nonlinearity = relu, .dtype = f64}});
  with_state("gru_cell", nn::GRUCell{3, 2, {.dtype = f64}});
  with_state("gru_cell_alone", nn::GRUCell{3, 2, {.bias = false, .dtype = f64}});
  const auto lstm = [](const char* name, nn::LSTMCell m) {
    check_torch(name, m, [m](const Tensors& x) mutable {
      return all(x.size() == 1 ? m(x[0]) : m(x[0], nn::LstmState{x[1], x[2]}));
    });
  };
  lstm("lstm_cell", nn::LSTMCell{3, 2, {.dtype = f64}});
  lstm("lstm_cell_alone", nn::LSTMCell{3, 2, {.bias = false, .dtype = f64}});
}

TEST_CASE("PyTorch's modules: packed sequences", "[layers][torch][recurrent][packed]") {
  const LeakGuard guard;
  const auto padded = [](const auto& r, const nn::PadOptions& o = {}) {
    return nn::pad_packed_sequence(r.output, o).output;
  };
  nn::LSTM lstm{3, 2, {.dtype = f64}};
  check_torch("packed_lstm", lstm, [&](const Tensors& x) -> Tensors {
    const auto r = lstm(nn::pack_padded_sequence(x[0], {4, 2, 2}));
    return {padded(r), r.h, r.c};
  });
  nn::LSTM both{3, 2, {.num_layers = 2, .bidirectional = true, .dtype = f64}};
  check_torch("packed_lstm_both_ways", both, [&](const Tensors& x) -> Tensors {
    const nn::PackOptions o{.enforce_sorted = false};
    const auto r = both(nn::pack_padded_sequence(x[0], tensor({2, 4, 1}).to(DType::i64), o),
                        nn::LstmState{x[1], x[2]});
    return {padded(r), r.h, r.c};
  });
  nn::GRU gru{2, 3, {.batch_first = true, .bidirectional = true, .dtype = f64}};
  check_torch("packed_gru", gru, [&](const Tensors& x) -> Tensors {
    const nn::PackOptions o{.batch_first = true, .enforce_sorted = false};
    const auto r = gru(nn::pack_padded_sequence(x[0], {1, 3, 4}, o), x[1]);
    return {padded(r, {.batch_first = true, .padding_value = 0.5, .total_length = 6}), r.h};
  });
  nn::RNN rnn{2, 3, {.bidirectional = true, .dtype = f64}};
  check_torch("packed_rnn", rnn, [&](const Tensors& x) -> Tensors {
    const auto r = rnn(nn::pack_padded_sequence(x[0], {3, 1}));
    return {padded(r), r.h};
  });
}

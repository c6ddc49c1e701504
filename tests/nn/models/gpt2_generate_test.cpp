// Text from a model with a cache, beside the whole text computed anew for every token, and beside
// Hugging Face's processors and generate().
#include "warptape/nn/generate.h"

#include <cmath>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/core/philox.h"
#include "warptape/core/random.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using models::GenerateOptions;
using models::Gpt2;
using Texts = std::vector<std::vector<i64>>;

namespace {

const Texts kPrompts = {{5, 17, 3}, {40, 2, 2, 9, 33, 1}, {12}};

Gpt2 small_net(i64 context = 24, i64 pad_to = 1) {
  Gpt2 net({.vocabulary = 51,
            .context = context,
            .channels = 24,
            .layers = 2,
            .heads = 3,
            .pad_vocabulary_to = pad_to});
  fill_by_hash(net);
  return net;
}

// What generate() is to give, from the definition: for each token the model sees the whole row.
Texts recomputed(Gpt2& net, Texts texts, const GenerateOptions& o) {
  const nn::EvalScope eval(net);
  const NoGrad no_grad;
  const i64 context = net.options().context;
  for (size_t r = 0; r < texts.size(); ++r) {
    const PhiloxKey key = philox_key(o.seed + r, RandomStream::user);
    for (i64 n = 0; n < o.max_new_tokens; ++n) {
      std::vector<i64>& text = texts[r];
      i64 first = 0;
      while (i64(text.size()) - first > context) first += o.slide;
      const std::vector<i64> seen(text.begin() + first, text.end());
      const Tensor y = net(reshape(tensor(seen), {1, i64(seen.size())}));
      const Tensor last = select(select(y, 0, 0), 0, -1).to(Device::cpu());
      std::vector<double> logits = last.to(DType::f64).to_vector<double>();
      process_logits(logits, text, o);
      const PhiloxBlock bits = philox(key, u64(n), 0);
      text.push_back(o.do_sample ? models::draw_token(logits, uniform53(bits.v[0], bits.v[1]))
                                 : std::max_element(logits.begin(), logits.end()) - logits.begin());
    }
  }
  return texts;
}

reference::Arrays reference_numbers() {
  return reference::load_reference(reference::reference_path("models/generate"));
}
std::vector<i64> integers(const reference::Array& a) { return {a.values.begin(), a.values.end()}; }

}  // namespace

TEST_CASE("each of the processors makes Hugging Face's numbers of logits", "[models][torch]") {
  const reference::Arrays theirs = reference_numbers();
  const std::vector<i64> text = integers(theirs.at("text"));
  const std::vector<std::pair<const char*, GenerateOptions>> cases = {
      {"penalty_1.3", {.repetition_penalty = 1.3}},
      {"penalty_0.8", {.repetition_penalty = 0.8}},
      {"temperature_0.7", {.do_sample = true, .temperature = 0.7}},
      {"top_k_5", {.do_sample = true, .top_k = 5}},
      {"top_k_equal", {.do_sample = true, .top_k = i64(theirs.at("equal_k").values[0])}},
      {"top_p_0.6", {.do_sample = true, .top_p = 0.6}},
      {"top_p_0.01", {.do_sample = true, .top_p = 0.01}},
      {"all",
       {.do_sample = true,
        .repetition_penalty = 1.2,
        .temperature = 1.5,
        .top_k = 20,
        .top_p = 0.9}}};
  for (const auto& [name, o] : cases) {
    INFO(name);
    std::vector<double> logits = theirs.at("logits").values;
    process_logits(logits, text, o);
    const std::vector<double>& want = theirs.at(name).values;
    int out = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      INFO("token " << i);
      const bool is_out = want[i] < -1e300;
      out += is_out;
      CHECK((is_out ? logits[i] == -INFINITY : std::abs(logits[i] - want[i]) < 1e-12));
    }
    CHECK((out > 0) == (o.top_k > 0 || o.top_p < 1));
  }
}

TEST_CASE("without drawing it writes what Hugging Face's generate() writes", "[models][torch]") {
  const reference::Arrays theirs = reference_numbers();
  const Gpt2 net = small_net(16);
  for (const auto& [name, penalty] : {std::pair("greedy_", 1.0), std::pair("penalized_", 1.4)}) {
    const Texts ours = models::generate(net, {kPrompts[0], kPrompts[1]},
                                        {.max_new_tokens = 10, .repetition_penalty = penalty});
    for (size_t r = 0; r < ours.size(); ++r)
      CHECK(ours[r] == integers(theirs.at(name + std::to_string(r))));
  }
}

TEST_CASE("a token is drawn by its odds") {
  const std::vector<double> logits = {std::log(1.0), -INFINITY, std::log(2.0), std::log(5.0)};
  std::vector<int> counts(4);
  for (int i = 0; i < 800; ++i) ++counts[size_t(models::draw_token(logits, (i + 0.5) / 800))];
  CHECK(counts == std::vector<int>{100, 0, 200, 500});
  CHECK(models::draw_token(logits, std::nextafter(1.0, 0.0)) == 3);
}

TEST_CASE("with a cache the tokens are those of whole texts computed anew", "[models]") {
  const std::vector<GenerateOptions> ways = {{.max_new_tokens = 12},
                                             {.max_new_tokens = 12, .do_sample = true, .seed = 3},
                                             {.max_new_tokens = 12,
                                              .do_sample = true,
                                              .repetition_penalty = 1.3,
                                              .temperature = 1.2,
                                              .top_k = 30,
                                              .top_p = 0.95,
                                              .seed = 8}};
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    const DefaultDevice there(d);
    wt_test::detail::make_what_is_made_once();
    const LeakGuard guard;
    Gpt2 net = small_net(24, 64);  // rows of the padded table are no tokens
    for (const GenerateOptions& o : ways) {
      const Texts all = models::generate(net, kPrompts, o);
      CHECK(all == recomputed(net, kPrompts, o));
      if (d.kind != DeviceKind::cpu) break;
      // Each row is what it is alone.
      GenerateOptions alone = o;
      alone.seed += 1;
      CHECK(models::generate(net, {kPrompts[1]}, alone)[0] == all[1]);
      alone.seeds = {o.seed + 2};
      CHECK(models::generate(net, {kPrompts[2]}, alone)[0] == all[2]);
      alone.seeds = {o.seed + 3};
      CHECK((models::generate(net, {kPrompts[2]}, alone)[0] == all[2]) == !o.do_sample);
    }
    CHECK(net.is_training());
  }
}

TEST_CASE("a row that outgrows the context goes on without its oldest tokens", "[models]") {
  Gpt2 net = small_net(8);
  const Texts prompts = {{5, 17, 3}, {40, 2, 2, 9, 33, 1, 4, 8, 9, 10, 11}, {12}};
  for (const i64 slide : {1, 3, 8}) {
    INFO("slide " << slide);
    const GenerateOptions o{.max_new_tokens = 20, .do_sample = true, .slide = slide};
    CHECK(models::generate(net, prompts, o) == recomputed(net, prompts, o));
  }
}

TEST_CASE("a stop token, or who looks on, ends a row and no other one", "[models]") {
  const Gpt2 net = small_net();
  const GenerateOptions o{.max_new_tokens = 15, .do_sample = true, .seed = 2};
  const Texts whole = models::generate(net, kPrompts, o);
  const i64 stop = whole[0][5];
  GenerateOptions stopping = o;
  stopping.stop_tokens = {stop};
  const Texts stopped = models::generate(net, kPrompts, stopping);
  for (size_t r = 0; r < whole.size(); ++r) {
    const size_t prompt = kPrompts[r].size();
    const auto at = std::find(whole[r].begin() + i64(prompt), whole[r].end(), stop);
    const auto end = at == whole[r].end() ? at : at + 1;
    CHECK(stopped[r] == std::vector<i64>(whole[r].begin(), end));
  }
  CHECK(stopped[0].back() == stop);
  CHECK(stopped[0].size() < whole[0].size());

  Texts seen(kPrompts.size());
  GenerateOptions watched = o;
  watched.on_token = [&](i64 row, i64 token) {
    seen[size_t(row)].push_back(token);
    return row != 1 || seen[1].size() < 4;
  };
  const Texts cut = models::generate(net, kPrompts, watched);
  CHECK(cut[0] == whole[0]);
  CHECK(cut[1] == std::vector<i64>(whole[1].begin(), whole[1].begin() + 10));
  for (size_t r = 0; r < cut.size(); ++r)
    CHECK(seen[r] == std::vector<i64>(cut[r].begin() + i64(kPrompts[r].size()), cut[r].end()));
  CHECK(models::generate(net, kPrompts, {.max_new_tokens = 0}) == kPrompts);
}

TEST_CASE("generating takes no memory that grows with the text, and records nothing", "[models]") {
  const Gpt2 net = small_net(200);
  const Generator before = generator();
  std::vector<i64> live;
  const Texts text =
      models::generate(net, {{1, 2, 3}}, {.max_new_tokens = 150, .on_token = [&](i64, i64) {
                                            live.push_back(memory::stats(Device::cpu()).live);
                                            return true;
                                          }});
  CHECK(text[0].size() == 153);
  for (size_t i = 3; i < live.size(); ++i) CHECK(live[i] <= live[2] + 4096);
  CHECK(generator() == before);
  CHECK_FALSE(net.transformer.wte.weight->grad().defined());
}

TEST_CASE("generate refuses what makes no sense, and names all that is wrong", "[models]") {
  const Gpt2 net = small_net(16);
  const auto says = [&](const Texts& prompts, const GenerateOptions& o) {
    return message_of([&] { (void)models::generate(net, prompts, o); });
  };
  const Texts ok = {{1, 2}};
  CHECK(mentions(says({{1, 2}, {51}, {3, -1}}, {}),
                 "outside the vocabulary of 51: row 1, token 0 is 51; row 2, token 1 is -1"));
  CHECK_THROWS_AS(models::generate(net, {{51}}), IndexError);
  CHECK(mentions(says({{1}, {1, 2, 3}, std::vector<i64>(17, 1)}, {.max_new_tokens = 15}),
                 "more than the context of 16: row 1 has 3 tokens and is to get 15; row 2 has 17 "
                 "tokens and is to get 15\n  Try {.slide = 4}"));
  CHECK(says({{1, 2}}, {.max_new_tokens = 15}) == "");  // the last one is not looked back at
  CHECK(mentions(says({{1, 2}}, {.max_new_tokens = INT64_MAX}), "more than the context of 16"));
  CHECK(mentions(says({{1}, {}}, {}), "the prompt of row 1 is empty"));
  CHECK(mentions(says({}, {}), "no prompts"));
  CHECK(mentions(says(ok, {.do_sample = true, .temperature = 0, .top_k = -1, .top_p = 0}),
                 "temperature must be above 0, got 0 ({.do_sample = false} takes the likeliest); "
                 "top_k must be at least 0, got -1; top_p must be above 0"));
  CHECK(mentions(says(ok, {.top_k = 3}), "nothing is drawn without"));
  CHECK(mentions(says(ok, {.repetition_penalty = 0}), "repetition_penalty must be above 0"));
  CHECK(mentions(says(ok, {.seeds = {1, 2}}), "2 seeds for 1 prompts"));
  CHECK(mentions(says(ok, {.slide = 17}), "slide is 17, more than the context of 16"));
  net.transformer.ln_f.bias->detach().fill_(NAN);
  CHECK(mentions(says(ok, {.max_new_tokens = 2}),
                 "NumericError: [generate] row 0: a logit after 2 tokens is NaN"));
}

TEST_CASE("infinite logits draw no token, tokens that are out have no odds", "[models]") {
  CHECK_THROWS_AS(models::draw_token(std::vector<double>{0, INFINITY, 1}, 0.5), NumericError);
  CHECK_THROWS_AS(models::draw_token(std::vector<double>{-INFINITY, -INFINITY}, 0.5), NumericError);
  CHECK(models::draw_token(std::vector<double>{-INFINITY, 3}, 0.5) == 1);
  std::vector<double> logits{1, INFINITY};
  CHECK_THROWS_AS(models::process_logits(logits, {}, {.do_sample = true, .top_p = 0.5}),
                  NumericError);
  const models::Gpt2 model =
      models::gpt2({.vocabulary = 3, .context = 8, .channels = 4, .layers = 1, .heads = 1});
  models::Decoder d{.model = model, .vocabulary = 3, .size = {1, 1, 8, 2}, .options = {}};
  d.logits = [](const Tensor& ids, models::KvCache&) {
    return full({ids.size(0), 3}, std::numeric_limits<double>::infinity(), {.dtype = f32});
  };
  CHECK(mentions(message_of([&] { (void)models::generate(d, {{1}}, {.max_new_tokens = 1}); }),
                 "NumericError: [generate] row 0: a logit after 1 tokens is infinite"));
}

TEST_CASE("the likeliest is the first of equals, in room for what was asked for", "[models]") {
  const models::Gpt2 model =
      models::gpt2({.vocabulary = 3, .context = 8, .channels = 4, .layers = 1, .heads = 1});
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  for (const DType t : {f64, f32, f16, bf16}) {
    std::vector<i64> room;
    std::vector<double> row{-kEndless, 2, 2};
    models::Decoder d{.model = model, .vocabulary = 3, .size = {1, 1, 8, 2}, .options = {}};
    d.logits = [&](const Tensor& ids, models::KvCache& cache) {
      room.push_back(cache.context());
      const Tensor first = tensor(std::vector<double>{0, 1, 3});
      return stack(ids.size(0) == 1 ? std::vector{tensor(row)} : std::vector{first, tensor(row)})
          .to(t);
    };
    CHECK(models::generate(d, {{1}, {1, 2}}, {.max_new_tokens = 2}) ==
          Texts{{1, 2, 2}, {1, 2, 1, 1}});
    CHECK(models::generate(d, {{0, 0}}, {.max_new_tokens = 1, .repetition_penalty = 2}) ==
          Texts{{0, 0, 1}});
    (void)models::generate(d, {{0, 0}}, {.max_new_tokens = 7});
    (void)models::generate(d, {{0, 0}}, {.max_new_tokens = 1, .slide = 2});
    CHECK(room == std::vector<i64>{4, 4, 3, 8, 8, 8, 8, 8, 8, 8, 8});
    row[0] = NAN;
    CHECK(mentions(message_of([&] {
                     (void)models::generate(d, {{1}, {1}}, {.max_new_tokens = 1});
                   }),
                   "NumericError: [generate] row 1: a logit after 1 tokens is NaN"));
  }
}

TEST_CASE("a full row that stays keeps the keys of its last token", "[models]") {
  const NoGrad no_grad;
  models::KvCache cache({.layers = 1, .heads = 1, .context = 2, .channels = 1}, 2);
  cache.begin(2, {2, 1});
  (void)cache.attend(0, ones({2, 1, 2, 1}), ones({2, 1, 2, 1}), ones({2, 1, 2, 1}));
  cache.end();
  cache.begin(1, {0, 1});
  const Tensor twos = full({2, 1, 1, 1}, 2.0), fours = full({2, 1, 1, 1}, 4.0);
  (void)cache.attend(0, twos, twos, twos);
  cache.end();
  CHECK(cache.keys.to_vector<float>() == std::vector<float>{1, 1, 1, 2});
  CHECK(cache.values.to_vector<float>() == std::vector<float>{1, 1, 1, 2});
  cache.begin(1, {0, 0});
  (void)cache.attend(0, fours, fours, fours);
  cache.end();
  CHECK(cache.keys.to_vector<float>() == std::vector<float>{1, 1, 1, 2});
}

TEST_CASE("a cache says what it has no room for, and a step that throws adds nothing", "[models]") {
  const NoGrad no_grad;
  models::KvCache cache({.layers = 1, .heads = 2, .context = 4, .channels = 3}, 2);
  const auto says = [&](i64 tokens, std::vector<i64> counts = {}) {
    return message_of([&] { cache.begin(tokens, std::move(counts)); });
  };
  CHECK(mentions(says(5), "row 0 has 0 and gets 5, row 1 has 0 and gets 5"));
  CHECK(mentions(says(0), "a step needs a token"));
  CHECK(mentions(says(2, {1}), "counts of 1 rows, the cache has 2"));
  CHECK(mentions(says(2, {2, 0}), "row 1 cannot take 0 of 2 tokens after 0"));
  const Tensor x = ones({2, 2, 2, 3});
  cache.begin(2);
  CHECK_THROWS_AS(cache.attend(0, x, x, ones({2, 2, 2, 4})), Error);
  CHECK(cache.lengths() == std::vector<i64>{0, 0});
  cache.begin(2, {2, 1});
  (void)cache.attend(0, x, x, x);
  cache.end();
  CHECK(cache.lengths() == std::vector<i64>{2, 1});
  CHECK(mentions(says(2, {2, 1}), "row 1 cannot take 1 of 2 tokens after 1"));
  CHECK(mentions(says(3), "more tokens than the context of 4: row 0 has 2 and gets 3"));
  CHECK_THROWS_AS(models::KvCache({.layers = -1}, 1), UsageError);
  for (const i64 row : {-1, 2}) {
    CHECK_THROWS_AS(cache.row(row), IndexError);
    CHECK_THROWS_AS(cache.take_length(row, cache.row(0)), IndexError);
  }
}

TEST_CASE("several tokens at a time after others see what they would see at once", "[models]") {
  Gpt2 net = small_net();
  net.eval();
  const NoGrad no_grad;
  const std::vector<i64> text = {7, 3, 50, 21, 9, 33};
  const auto logits_in = [&](const std::vector<i64>& parts) {
    models::KvCache cache = models::KvCache(decoder_of(net).size, 1);
    Tensor y;
    for (i64 at = 0; const i64 n : parts) {
      const std::vector<i64> ids(text.begin() + at, text.begin() + at + n);
      cache.begin(n);
      y = net.next_logits(reshape(tensor(ids), {1, n}), cache);
      cache.end();
      at += n;
    }
    return y.to_vector<float>();
  };
  const std::vector<float> whole = logits_in({6}), parts = logits_in({2, 1, 3});
  for (size_t i = 0; i < whole.size(); ++i) CHECK(std::abs(whole[i] - parts[i]) < 1e-4f);
}

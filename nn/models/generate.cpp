#include "warptape/nn/generate.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/philox.h"
#include "warptape/core/str.h"

namespace wt::models {
namespace {

using Texts = std::vector<std::vector<i64>>;

// Collects what is wrong of rows, so that all of it is told.
struct Complaints {
  std::string text;
  template <class... Parts>
  void add(const Parts&... parts) {
    text += str(text.empty() ? "" : "; ", parts...);
  }
};

void check_generate_options(const GenerateOptions& o, size_t rows) {
  Complaints c;
  if (o.max_new_tokens < 0) c.add("max_new_tokens must be at least 0, got ", o.max_new_tokens);
  if (!(o.temperature > 0 && std::isfinite(o.temperature)))
    c.add("temperature must be above 0, got ", o.temperature,
          o.temperature == 0 ? " ({.do_sample = false} takes the likeliest)" : "");
  if (o.top_k < 0) c.add("top_k must be at least 0, got ", o.top_k);
  if (!(o.top_p > 0 && o.top_p <= 1)) c.add("top_p must be above 0 and at most 1, got ", o.top_p);
  if (!(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty)))
    c.add("repetition_penalty must be above 0, got ", o.repetition_penalty);
  if (o.slide < 0) c.add("slide must be at least 0, got ", o.slide);
  if (!o.seeds.empty() && o.seeds.size() != rows)
    c.add(o.seeds.size(), " seeds for ", rows, " prompts");
  if (!o.do_sample && (o.temperature != 1 || o.top_k != 0 || o.top_p != 1))
    c.add(
        "temperature, top_k and top_p say how to draw, and nothing is drawn without {.do_sample "
        "= true}");
  if (!c.text.empty()) throw UsageError("[generate] " + c.text);
}

void check_prompts(const Decoder& d, const Texts& prompts, const GenerateOptions& o) {
  if (prompts.empty()) throw UsageError("[generate] there are no prompts");
  Complaints empty, outside, full;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) empty.add("the prompt of row ", i, " is empty");
    for (size_t k = 0; k < prompts[i].size(); ++k)
      if (const i64 id = prompts[i][k]; id < 0 || id >= d.vocabulary) {
        outside.add("row ", i, ", token ", k, " is ", id);
        break;
      }
    // The last token is not looked back at. Any number of them may be asked for: a sum may not fit.
    const i64 left = d.size.context - i64(prompts[i].size());
    if (o.slide == 0 && std::max<i64>(o.max_new_tokens - 1, 0) > left)
      full.add("row ", i, " has ", prompts[i].size(), " tokens and is to get ", o.max_new_tokens);
  }
  if (!empty.text.empty()) throw UsageError("[generate] " + empty.text);
  if (!outside.text.empty())
    throw IndexError(
        str("[generate] outside the vocabulary of ", d.vocabulary, ": ", outside.text));
  if (!full.text.empty())
    throw UsageError(str("[generate] more than the context of ", d.size.context, ": ", full.text,
                         "\n  Try {.slide = ", std::max<i64>(1, d.size.context / 4),
                         "} to go on without the oldest tokens"));
  if (o.slide > d.size.context)
    throw UsageError(
        str("[generate] slide is ", o.slide, ", more than the context of ", d.size.context));
}

// Room for what may come, where that is less than the context.
KvCacheSize size_of_cache(const Decoder& d, const Texts& prompts, const GenerateOptions& o) {
  KvCacheSize size = d.size;
  if (o.slide > 0) return size;
  i64 longest = 0;
  for (const std::vector<i64>& row : prompts) longest = std::max(longest, i64(row.size()));
  size.context = longest + std::min(o.max_new_tokens, size.context - longest);
  return size;
}

// Of a row, after its last token: the largest logit and whose it is, or all of them where they are
// to be changed or drawn from.
struct Next {
  i64 likeliest = 0;
  double most = 0;
  std::vector<double> logits = {};
};

class Generation {
 public:
  Generation(const Decoder& d, const Texts& prompts, const GenerateOptions& o)
      : d_(d),
        o_(o),
        texts_(prompts),
        next_(prompts.size()),
        done_(prompts.size(), false),
        cache_(size_of_cache(d, prompts, o), i64(prompts.size()), d.options) {}

  Texts run() {
    if (o_.max_new_tokens == 0) return texts_;
    begin();
    for (i64 n = 0;; ++n) {
      for (size_t r = 0; r < texts_.size(); ++r)
        if (!done_[r]) add_token(r, n);
      if (n + 1 == o_.max_new_tokens || std::find(done_.begin(), done_.end(), false) == done_.end())
        return std::move(texts_);
      look_at_new_tokens();
    }
  }

 private:
  // The part of a row that the model sees: what is beyond the context goes by whole slides.
  std::span<const i64> window(size_t r) const {
    const std::vector<i64>& text = texts_[r];
    const i64 beyond = i64(text.size()) - d_.size.context;
    const i64 out = beyond <= 0 ? 0 : (beyond + o_.slide - 1) / o_.slide * o_.slide;
    // A slide of the whole context would leave nothing.
    return std::span(text).subspan(size_t(std::min(out, i64(text.size()) - 1)));
  }

  bool takes_likeliest() const { return !o_.do_sample && o_.repetition_penalty == 1; }

  // What comes next in rows after `ids` [N, tokens] of a step that has begun.
  void step(KvCache& cache, std::vector<i64>& ids, i64 tokens, const std::vector<size_t>& rows) {
    const Tensor at = tensor(ids, {.device = d_.options.device});
    const Tensor y = d_.logits(reshape(at, {cache.batch(), tokens}), cache);
    cache.end();
    if (takes_likeliest())
      look_for_likeliest(y, rows);
    else
      take_logits(y, rows);
  }
  void look_for_likeliest(const Tensor& y, const std::vector<size_t>& rows) {
    const Tensor wide = y.dtype() == DType::f64 ? y : y.to(DType::f32);
    const std::vector<i64> at = argmax(wide, -1).to(Device::cpu()).to_vector<i64>();
    const std::vector<double> most =
        max(wide, -1).to(Device::cpu()).to(DType::f64).to_vector<double>();
    for (size_t i = 0; i < at.size(); ++i)
      next_[rows[i]].likeliest = at[i], next_[rows[i]].most = most[i];
  }
  void take_logits(const Tensor& y, const std::vector<size_t>& rows) {
    const std::vector<double> all = y.to(Device::cpu()).to(DType::f64).to_vector<double>();
    const i64 n = d_.vocabulary, count = y.size(0);
    for (i64 i = 0; i < count; ++i)
      next_[rows[size_t(i)]].logits.assign(all.begin() + i * n, all.begin() + (i + 1) * n);
  }

  // All prompts in one step.
  void begin() {
    i64 longest = 0;
    std::vector<i64> counts, ids;
    std::vector<size_t> rows;
    for (size_t r = 0; r < texts_.size(); ++r) {
      counts.push_back(i64(window(r).size()));
      longest = std::max(longest, counts.back());
      rows.push_back(r);
    }
    for (size_t r = 0; r < texts_.size(); ++r) {
      const std::span<const i64> w = window(r);
      ids.insert(ids.end(), w.begin(), w.end());
      ids.resize(size_t(longest) * (r + 1), 0);
    }
    cache_.begin(longest, counts);
    step(cache_, ids, longest, rows);
  }

  void check_logit(double x, size_t r) const {
    if (!(x < HUGE_VAL))
      throw NumericError(str("[generate] row ", r, ": a logit after ", texts_[r].size(),
                             " tokens is ", std::isnan(x) ? "NaN" : "infinite"));
  }
  i64 next_token(size_t r, i64 n) {
    if (takes_likeliest()) {
      check_logit(next_[r].most, r);
      return next_[r].likeliest;
    }
    std::vector<double>& logits = next_[r].logits;
    for (const double x : logits) check_logit(x, r);
    process_logits(logits, texts_[r], o_);
    if (!o_.do_sample) return std::max_element(logits.begin(), logits.end()) - logits.begin();
    const u64 seed = o_.seeds.empty() ? o_.seed + u64(r) : o_.seeds[r];
    const PhiloxBlock bits = philox(philox_key(seed, RandomStream::user), u64(n), 0);
    return draw_token(logits, uniform53(bits.v[0], bits.v[1]));
  }

  void add_token(size_t r, i64 n) {
    const i64 id = next_token(r, n);
    texts_[r].push_back(id);
    done_[r] = std::find(o_.stop_tokens.begin(), o_.stop_tokens.end(), id) != o_.stop_tokens.end();
    if (o_.on_token && !o_.on_token(i64(r), id)) done_[r] = true;
  }

  // The last token of each row that goes on; rows whose context is full begin anew without their
  // oldest tokens.
  void look_at_new_tokens() {
    std::vector<i64> counts, ids;
    std::vector<size_t> rows, full;
    for (size_t r = 0; r < texts_.size(); ++r) {
      const bool is_full = cache_.lengths()[r] == d_.size.context;
      if (!done_[r] && is_full) full.push_back(r);
      counts.push_back(!done_[r] && !is_full);
      ids.push_back(texts_[r].back());
      rows.push_back(r);
    }
    if (std::find(counts.begin(), counts.end(), 1) != counts.end()) {
      cache_.begin(1, counts);
      step(cache_, ids, 1, rows);
    }
    for (const size_t r : full) {
      const std::span<const i64> w = window(r);
      std::vector<i64> again(w.begin(), w.end());
      KvCache one = cache_.row(i64(r));
      one.clear();
      one.begin(i64(again.size()));
      step(one, again, i64(again.size()), {r});
      cache_.take_length(i64(r), one);
    }
  }

  const Decoder& d_;
  const GenerateOptions& o_;
  Texts texts_;
  std::vector<Next> next_;
  std::vector<bool> done_;
  KvCache cache_;
};

}  // namespace

Texts generate(const Decoder& decoder, const Texts& prompts, const GenerateOptions& o) {
  check_generate_options(o, prompts.size());
  check_prompts(decoder, prompts, o);
  const nn::EvalScope eval(decoder.model);
  const NoGrad no_grad;
  return Generation(decoder, prompts, o).run();
}

Decoder decoder_of(const Gpt2& net) {
  const Gpt2Options& o = net.options();
  const Tensor& table = net.transformer.wte.weight;
  return {.model = net,
          .vocabulary = o.vocabulary,
          .size = {.layers = o.layers,
                   .heads = o.heads,
                   .context = o.context,
                   .channels = o.channels / o.heads},
          .options = {.dtype = table.dtype(), .device = table.device()},
          .logits = [net = net](const Tensor& ids, KvCache& cache) mutable {
            return net.next_logits(ids, cache);
          }};
}

Texts generate(const Gpt2& net, const Texts& prompts, const GenerateOptions& o) {
  return generate(decoder_of(net), prompts, o);
}

}  // namespace wt::models

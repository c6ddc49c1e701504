#include "warptape/tools/wt/recipes/generate.h"

#include <algorithm>
#include <cmath>

#include "warptape/nn/generate.h"

namespace wt::tools {
namespace {

void check(const Recipe& r, const GenerateOptions& o) {
  if (r.context() == 0) throw UsageError("[generate] the model is not one of text");
  if (o.prompt.empty()) throw UsageError("[generate] the prompt is empty");
  if (o.tokens < 0) throw UsageError(str("[generate] tokens must be at least 0, got ", o.tokens));
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    throw UsageError(str("[generate] temperature must be at least 0, got ", o.temperature));
}

}  // namespace

std::string generate(Recipe& r, const GenerateOptions& o, const std::function<bool(char)>& show) {
  check(r, o);
  std::string text;
  models::GenerateOptions g{.max_new_tokens = o.tokens,
                            .repetition_penalty = o.repetition_penalty,
                            .seed = o.seed,
                            .slide = std::max<i64>(1, r.context() / 4)};
  if (o.temperature > 0) {
    g.do_sample = true;
    g.temperature = o.temperature, g.top_k = o.top_k, g.top_p = o.top_p;
  }
  g.on_token = [&](i64, i64 token) {
    for (const char byte : r.decode({&token, 1})) {
      text += byte;
      if (show && !show(byte)) return false;
    }
    return true;
  };
  (void)models::generate(r.decoder(), {r.encode(o.prompt)}, g);
  return text;
}

}  // namespace wt::tools

#include "warptape/tools/wt/data/transform_text.h"

#include <cmath>

#include "warptape/core/error.h"
#include "warptape/core/files/decimal.h"
#include "warptape/core/suggest.h"

namespace wt::tools {
namespace {

using data::Transform;

struct Call {
  std::string name;
  std::vector<double> numbers;
  std::vector<std::string> keywords;  // of each number, as in "padding=4"; empty: none
};

class CallReader {
 public:
  explicit CallReader(const std::string& text) : text_(text) {}
  std::vector<Call> read() {
    std::vector<Call> all;
    for (skip(); at_ < text_.size(); skip()) {
      if (!all.empty()) expect(',');
      all.push_back(call());
    }
    return all;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw UsageError(str("--augment: expected ", what, " at character ", at_ + 1, " of \"", text_,
                         "\"\n  Try \"RandomCrop(32, 4), RandomHorizontalFlip\""));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(str("'", c, "'").c_str());
  }
  Call call() {
    skip();
    Call c;
    while (at_ < text_.size() && std::isalpha(u8(text_[at_]))) c.name += text_[at_++];
    if (c.name.empty()) fail("a transform's name");
    if (!take('(')) return c;
    if (take(')')) return c;
    do {
      c.keywords.push_back(keyword());
      c.numbers.push_back(number());
    } while (take(','));
    expect(')');
    return c;
  }
  std::string keyword() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalpha(u8(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (!word.empty() && take('=')) return word;
    at_ = begin;
    return {};
  }
  double number() {
    skip();
    double v = 0;
    const auto [end, why] =
        wt::detail::decimal_from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (why != std::errc() || !std::isfinite(v)) fail("a number");
    at_ = size_t(end - text_.data());
    return v;
  }

  const std::string& text_;
  size_t at_ = 0;
};

// The numbers that a transform takes, of which `least` have to be there.
struct TransformKind {
  const char* name;
  size_t least;
  std::vector<std::string> numbers;
};
const std::vector<TransformKind>& kinds() {
  static const std::vector<TransformKind> all = {
      {"RandomCrop", 1, {"size", "padding"}},
      {"CenterCrop", 1, {"size"}},
      {"RandomResizedCrop", 1, {"size", "least_scale", "most_scale"}},
      {"Resize", 1, {"size"}},
      {"RandomHorizontalFlip", 0, {"p"}},
      {"Cutout", 1, {"side"}},
      {"RandomRotation", 1, {"degrees"}},
      {"RandomAffine", 1, {"degrees", "translate", "least_scale", "most_scale", "shear"}},
      {"ColorJitter", 0, {"brightness", "contrast", "saturation", "hue"}},
      {"RandomGrayscale", 0, {"p"}},
      {"RandAugment", 0, {"num_ops", "magnitude"}},
      {"RandomErasing", 0, {"p"}}};
  return all;
}

void check_keywords(const Call& c, const TransformKind& k) {
  for (size_t i = 0; i < c.numbers.size(); ++i)
    if (!c.keywords[i].empty() && c.keywords[i] != k.numbers[i])
      throw UsageError(str("--augment: number ", i + 1, " of ", c.name, " is '", k.numbers[i],
                           "', got '", c.keywords[i], "='"));
}

void check(const Call& c) {
  if (c.name == "ToTensor" || c.name == "Normalize")
    throw UsageError(str("--augment: ", c.name,
                         " is not for --augment: pictures are shown in the levels that they have\n"
                         "  Try leaving it out"));
  std::vector<std::string> names;
  for (const TransformKind& k : kinds()) {
    names.emplace_back(k.name);
    if (c.name != k.name) continue;
    const size_t most = k.numbers.size();
    if (c.numbers.size() < k.least || c.numbers.size() > most)
      throw UsageError(str("--augment: ", c.name, " takes ", k.least,
                           most > k.least ? str(" to ", most) : "", " numbers, got ",
                           c.numbers.size()));
    return check_keywords(c, k);
  }
  throw UsageError(str("--augment: '", c.name, "' is not known", did_you_mean(c.name, names)));
}

i64 whole(const Call& c, size_t k) {
  if (c.numbers[k] != std::floor(c.numbers[k]) || std::abs(c.numbers[k]) > 1e6)
    throw UsageError(str("--augment: ", c.name, " takes a whole number, got ", c.numbers[k]));
  return i64(c.numbers[k]);
}

Transform transform_of(const Call& c) {
  check(c);
  const size_t n = c.numbers.size();
  if (c.name == "RandomCrop") return data::RandomCrop{whole(c, 0), n > 1 ? whole(c, 1) : 0};
  if (c.name == "CenterCrop") return data::CenterCrop{whole(c, 0)};
  if (c.name == "Resize") return data::Resize{whole(c, 0)};
  if (c.name == "Cutout") return data::Cutout{whole(c, 0)};
  if (c.name == "RandomHorizontalFlip")
    return data::RandomHorizontalFlip{n > 0 ? c.numbers[0] : 0.5};
  const auto number = [&](size_t k, double otherwise) { return n > k ? c.numbers[k] : otherwise; };
  if (c.name == "RandomRotation") return data::RandomRotation{c.numbers[0]};
  if (c.name == "RandomAffine")
    return data::RandomAffine{.degrees = c.numbers[0],
                              .translate = {number(1, 0), number(1, 0)},
                              .scale = {number(2, 1), number(3, number(2, 1))},
                              .shear_x = number(4, 0)};
  if (c.name == "ColorJitter")
    return data::ColorJitter{number(0, 0), number(1, 0), number(2, 0), number(3, 0)};
  if (c.name == "RandomGrayscale") return data::RandomGrayscale{number(0, 0.1)};
  if (c.name == "RandomErasing") return data::RandomErasing{.p = number(0, 0.5)};
  if (c.name == "RandAugment")
    return data::RandAugment{.num_ops = n > 0 ? whole(c, 0) : 2,
                             .magnitude = n > 1 ? whole(c, 1) : 9};
  return data::RandomResizedCrop{whole(c, 0), {number(1, 0.08), number(2, 1)}};
}

}  // namespace

std::vector<Transform> transforms_of(const std::string& text) {
  std::vector<Transform> all;
  for (const Call& c : CallReader(text).read()) all.push_back(transform_of(c));
  return all;
}

}  // namespace wt::tools

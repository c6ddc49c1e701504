// Convolutions at the benchmark's sizes, and at those of a text.
#include <algorithm>
#include <charconv>
#include <sstream>

#include "warptape/autograd/ops.h"
#include "warptape/bench/gpu/launched.h"
#include "warptape/core/str.h"

namespace wt::bench {
namespace {

struct ConvSizes {
  i64 batch = 1, channels = 1, height = 1, width = 1, outputs = 1;
  i64 kernel = 1, stride = 1, padding = 0;
  bool nhwc = false;
  bool listed = true;                 // no text says stride and padding
  std::optional<Activation> fused{};  // with all that an epilogue has

  i64 over(i64 size) const { return (size + 2 * padding - kernel) / stride + 1; }
  Shape image(i64 c, i64 h, i64 w) const {
    return nhwc ? Shape{batch, h, w, c} : Shape{batch, c, h, w};
  }
  std::string epilogue() const {
    static const char* const kNames[] = {"", " relu", " gelu", " gelu_tanh", " silu"};
    return fused ? str(" bias residual", kNames[int(*fused)]) : "";
  }
  std::string text() const {
    return str(batch, "x", channels, "x", height, "x", width, "->", outputs, " k", kernel,
               listed ? "" : str(" s", stride, " p", padding), nhwc ? " nhwc" : " nchw",
               epilogue());
  }
};

Call conv_call(const ConvSizes& s) {
  Call c{s.text(),
         {{s.image(s.channels, s.height, s.width)}, {{s.outputs, s.channels, s.kernel, s.kernel}}},
         {}};
  if (s.fused) {
    c.given.push_back({{s.outputs}});
    c.given.push_back({s.image(s.outputs, s.over(s.height), s.over(s.width))});
  }
  c.run = [nhwc = s.nhwc, f = s.fused,
           o = ConvOptions{.stride = s.stride, .padding = s.padding}](const auto& in) {
    const auto image = [nhwc](const Tensor& t) { return nhwc ? t.permute({0, 3, 1, 2}) : t; };
    const Tensor y =
        f ? fused_conv2d(image(in[0]), in[1],
                         {.bias = in[2], .residual = image(in[3]), .activation = *f, .conv = o})
          : conv2d(image(in[0]), in[1], o);
    return nhwc ? y.permute({0, 2, 3, 1}) : y;
  };
  return c;
}

// batch, in channels, size, out channels, kernel, padding, is NHWC; Activation, of those with an
// epilogue.
ConvSizes listed_conv(const Shape& s) {
  ConvSizes c{.batch = s[0], .channels = s[1], .height = s[2], .width = s[2], .outputs = s[3]};
  c.kernel = s[4], c.padding = s[5], c.nhwc = s[6] == 1;
  if (s.ndim() > 7) c.fused = Activation(s[7]);
  return c;
}

// Takes a number from the beginning of a text, and what must lie before it.
bool take_number(std::string_view& text, std::string_view before, i64& n, i64 least = 1) {
  if (!text.starts_with(before)) return false;
  const char *const from = text.data() + before.size(), *const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(from, end, n);
  if (error != std::errc() || n < least) return false;
  text.remove_prefix(size_t(at - text.data()));
  return true;
}
bool take_word(const std::string& word, std::string_view before, i64& n, i64 least = 1) {
  std::string_view text = word;
  return take_number(text, before, n, least) && text.empty();
}

// "8x64x14x14->32 k3 s2 p1 nhwc", and the epilogue of a listed convolution that has one. What is
// left out is as in the first that is listed, the padding as in the first of that kernel, or half
// of it.
std::optional<Call> conv_of_text(const std::vector<Shape>& listed, const std::string& text) {
  std::istringstream in(text);
  std::string word, rest;
  in >> word;
  ConvSizes s = listed_conv(listed.front());
  std::string_view sizes = word;
  if (!take_number(sizes, "", s.batch) || !take_number(sizes, "x", s.channels) ||
      !take_number(sizes, "x", s.height) || !take_number(sizes, "x", s.width) ||
      (!sizes.empty() && (!take_number(sizes, "->", s.outputs) || !sizes.empty())))
    return {};
  i64 padding = -1;
  while (in >> word) {
    if (take_word(word, "k", s.kernel) || take_word(word, "s", s.stride) ||
        take_word(word, "p", padding, 0))
      continue;
    if (word == "nchw" || word == "nhwc")
      s.nhwc = word == "nhwc";
    else
      rest += " " + word;
  }
  if (rest != s.epilogue()) return {};
  const auto same =
      std::find_if(listed.begin(), listed.end(), [&](const Shape& l) { return l[4] == s.kernel; });
  if (padding < 0) padding = same == listed.end() ? s.kernel / 2 : (*same)[5];
  s.padding = padding, s.listed = false;
  return conv_call(s);
}

void add_convs(std::vector<CallRow>& to, std::vector<std::string> contracts,
               std::vector<Shape> small, std::vector<Shape> real) {
  to.push_back(
      {.contracts = std::move(contracts),
       .dtypes = {DType::f32, DType::f16, DType::bf16},
       .small = small,
       .host = real,
       .real = real,
       .call = [](const Shape& s) { return conv_call(listed_conv(s)); },
       .call_of_text = [small](const std::string& text) { return conv_of_text(small, text); }});
}

}  // namespace

void add_conv_call_rows(std::vector<CallRow>& rows) {
  // First layers, a residual network's and those of the MNIST example, in both memory orders.
  const i64 layers[][6] = {{64, 3, 32, 64, 3, 1}, {64, 64, 16, 64, 3, 1},  {16, 64, 56, 64, 3, 1},
                           {64, 1, 28, 6, 5, 0},  {16, 64, 32, 128, 1, 0}, {64, 1, 28, 32, 3, 0},
                           {64, 32, 26, 64, 3, 0}};
  std::vector<Shape> small, real;
  for (const auto& l : layers)
    for (i64 nhwc : {0, 1}) {
      small.push_back({2, l[1], l[4] + 4, l[3], l[4], l[5], nhwc});
      real.push_back({l[0], l[1], l[2], l[3], l[4], l[5], nhwc});
    }
  add_convs(rows, {"conv_forward", "conv_backward_input", "conv_backward_weight"}, small, real);
  // A residual block's second convolution.
  small.clear(), real.clear();
  const i64 relu = i64(Activation::relu);
  for (i64 nhwc : {0, 1}) {
    small.push_back({2, 64, 7, 64, 3, 1, nhwc, relu});
    real.push_back({16, 64, 56, 64, 3, 1, nhwc, relu});
  }
  add_convs(rows, {"conv_forward"}, small, real);
}

}  // namespace wt::bench

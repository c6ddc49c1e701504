// Rows of the normalisations by channels with an activation.
#include "warptape/autograd/ops/channel_norm.h"
#include "warptape/tests/op_cases/cases/activation_case.h"
#include "warptape/tests/op_cases/cases/channel_norm_case.h"

namespace wt_test {
namespace {

constexpr Activation kNone = Activation::none, kRelu = Activation::relu, kGelu = Activation::gelu,
                     kTanh = Activation::gelu_tanh, kSilu = Activation::silu,
                     kRelu6 = Activation::relu6, kHard = Activation::hardswish;

Oracle behind(Activation f, const Oracle& norm) {
  return [=](const std::vector<Array>& in) {
    Array r = norm(in);
    for (double& v : r.v) v = activated(f, v);
    for (double& m : r.magnitude) m = steepest(f) * m + 1e-3;
    return r;
  };
}

void add_batch(std::vector<OpCase>& rows) {
  std::vector<std::string> contracts = kChannelNorm;
  contracts.push_back("running_stats");
  OpCase c{"fused_batch_norm", contracts, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    Activation f;
    int parameters;
    bool training;
    bool torch = false;
  };
  const Case cases[] = {{{3, 4, 5}, kRelu, 2, true, true},  {{2, 3, 3, 2}, kGelu, 2, true, true},
                        {{3, 4, 5}, kSilu, 2, false, true}, {{7, 5}, kTanh, 0, true, true},
                        {{7, 3}, kRelu, 1, false, true},    {{2, 2, 1, 3, 2}, kSilu, 1, true},
                        {{31, 33}, kRelu, 2, true},         {{3, 7, 31}, kGelu, 2, true},
                        {{2, 257, 3}, kRelu, 2, true},      {{600, 9}, kTanh, 2, true},
                        {{3, 4, 5}, kRelu6, 2, true, true}, {{7, 5}, kHard, 2, false, true},
                        {{3, 4, 5}, kNone, 2, true},        {{0, 3, 4}, kRelu, 2, false},
                        {{3, 4, 0}, kGelu, 2, false}};
  for (const Case& k : cases) {
    const int running = k.training ? 0 : 1 + k.parameters;
    c.samples.push_back({str(name_of(k.f), k.training ? ", training" : ", evaluation",
                             ", parameters ", k.parameters),
                         inputs_of(k.x, k.parameters, !k.training),
                         [=](std::span<const Tensor> in) {
                           BatchNormOptions o{.weight = nth(in, 1, k.parameters),
                                              .bias = nth(in, 2, k.parameters),
                                              .training = k.training,
                                              .eps = 1e-3};
                           if (running)
                             o.running_mean = in[size_t(running)],
                             o.running_var = in[size_t(running) + 1];
                           return fused_batch_norm(in[0], k.f, o);
                         },
                         behind(k.f, norm_oracle(0, 1e-3, k.parameters, running))});
    const std::string names = "abcde";
    if (k.torch)
      c.samples.back().torch = torch_of(
          k.f, str("F.batch_norm(a, ", k.training ? "None" : names.substr(size_t(running), 1), ", ",
                   k.training ? "None" : names.substr(size_t(running) + 1, 1), ", ",
                   torch_parameters(k.parameters), ", training=", k.training ? "True" : "False",
                   ", eps=0.001)"));
  }
  const std::string tag = "[fused_batch_norm] ";
  c.errors = {
      undefined_operand("fused_batch_norm",
                        [](const Tensor& a, const Tensor& b) {
                          (void)fused_batch_norm(a, kRelu, {.weight = b, .training = true});
                        }),
      error_input<ShapeError>(
          "one value", tag + "training needs more than one value a channel",
          [](Device d) {
            (void)fused_batch_norm(ones({1, 4, 1}, {.device = d}), kRelu, {.training = true});
          }),
      error_input<ShapeError>(
          "weight", tag + "weight must be [4], one a channel, got [3]", [](Device d) {
            (void)fused_batch_norm(ones({2, 4, 3}, {.device = d}), kRelu,
                                   {.weight = ones({3}, {.device = d}), .training = true});
          })};
  rows.push_back(std::move(c));
}

void add_group(std::vector<OpCase>& rows) {
  OpCase c{"fused_group_norm", kChannelNorm, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    i64 groups;
    Activation f;
    int parameters;
    bool torch = false;
  };
  const Case cases[] = {{{2, 4, 5}, 2, kRelu, 2, true}, {{2, 6, 2, 2}, 3, kSilu, 2, true},
                        {{3, 4, 3}, 1, kGelu, 2, true}, {{3, 4, 3}, 4, kTanh, 0, true},
                        {{3, 6}, 2, kRelu, 1},          {{2, 33, 3}, 11, kRelu, 2},
                        {{2, 6, 257}, 3, kSilu, 2},     {{2, 520, 3}, 2, kRelu, 2},
                        {{31, 8, 5, 1}, 8, kGelu, 1},   {{0, 4, 3}, 2, kRelu, 2},
                        {{3, 4, 0}, 2, kGelu, 2}};
  for (const Case& k : cases) {
    c.samples.push_back(
        {str(name_of(k.f), ", groups ", k.groups, ", parameters ", k.parameters),
         inputs_of(k.x, k.parameters, false),
         [=](std::span<const Tensor> in) {
           return fused_group_norm(
               in[0], k.groups, k.f,
               {.weight = nth(in, 1, k.parameters), .bias = nth(in, 2, k.parameters), .eps = 1e-2});
         },
         behind(k.f, norm_oracle(k.groups, 1e-2, k.parameters, 0))});
    if (k.torch)
      c.samples.back().torch = torch_of(k.f, str("F.group_norm(a, ", k.groups, ", ",
                                                 torch_parameters(k.parameters), ", eps=0.01)"));
  }
  c.errors = {
      undefined_operand("fused_group_norm",
                        [](const Tensor& a, const Tensor& b) {
                          (void)fused_group_norm(a, 1, kRelu, {.weight = b});
                        }),
      error_input<ShapeError>(
          "groups", "[fused_group_norm] groups 3 does not divide the 4 channels", [](Device d) {
            (void)fused_group_norm(ones({2, 4}, {.device = d}), 3, kRelu);
          })};
  rows.push_back(std::move(c));
}

void add_instance(std::vector<OpCase>& rows) {
  OpCase c{"fused_instance_norm", kChannelNorm, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    Activation f;
    int parameters;
    bool own;
    bool torch = false;
  };
  const Case cases[] = {{{2, 4, 5}, kRelu, 2, true, true},  {{2, 3, 2, 3}, kGelu, 2, true, true},
                        {{3, 4, 5}, kSilu, 2, false, true}, {{3, 2, 7}, kTanh, 0, true, true},
                        {{1, 3, 5}, kSilu, 1, true},        {{2, 33, 3}, kRelu, 2, true},
                        {{3, 7, 31}, kGelu, 2, true},       {{2, 3, 257}, kRelu, 1, true},
                        {{7, 3}, kRelu, 2, false},          {{0, 3, 4}, kRelu, 2, true}};
  for (const Case& k : cases) {
    const int running = k.own ? 0 : 1 + k.parameters;
    c.samples.push_back(
        {str(name_of(k.f), k.own ? ", own" : ", running", " statistics, parameters ", k.parameters),
         inputs_of(k.x, k.parameters, !k.own),
         [=](std::span<const Tensor> in) {
           InstanceNormOptions o{.weight = nth(in, 1, k.parameters),
                                 .bias = nth(in, 2, k.parameters),
                                 .use_input_stats = k.own,
                                 .eps = 1e-2};
           if (running)
             o.running_mean = in[size_t(running)], o.running_var = in[size_t(running) + 1];
           return fused_instance_norm(in[0], k.f, o);
         },
         behind(k.f, norm_oracle(k.own ? k.x[1] : 0, 1e-2, k.parameters, running))});
    if (k.torch)
      c.samples.back().torch =
          torch_of(k.f, str("F.instance_norm(a, ", k.own ? "None, None" : "d, e", ", ",
                            torch_parameters(k.parameters),
                            ", use_input_stats=", k.own ? "True" : "False", ", eps=0.01)"));
  }
  c.errors = {undefined_operand("fused_instance_norm",
                                [](const Tensor& a, const Tensor& b) {
                                  (void)fused_instance_norm(a, kRelu, {.weight = b});
                                }),
              error_input<ShapeError>(
                  "one place", "[fused_instance_norm] needs more than one place a channel, got 1",
                  [](Device d) {
                    (void)fused_instance_norm(ones({5, 4}, {.device = d}), kRelu);
                  })};
  rows.push_back(std::move(c));
}

void add_fused_norm_cases(std::vector<OpCase>& rows) {
  add_batch(rows);
  add_group(rows);
  add_instance(rows);
}

const CaseFile file{add_fused_norm_cases};

}  // namespace
}  // namespace wt_test

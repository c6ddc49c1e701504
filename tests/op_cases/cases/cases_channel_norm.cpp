// Rows of the normalisations by channels. Inputs: x, then weight and bias, then running mean and
// variance, where they are given.
#include "warptape/autograd/ops/channel_norm.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/cases/channel_norm_case.h"

namespace wt_test {
namespace {

// Running statistics after a batch, [2, C].
Oracle running_oracle(bool instances, double momentum) {
  return [=](const std::vector<Array>& in) {
    const Array& x = in[0];
    const i64 channels = x.shape[1], n = instances ? x.shape[0] : 1;
    const std::vector<Statistic> all = statistics(x, instances ? channels : 0);
    Array r{{2, channels}, {}, kTermsOfFormula + double(x.v.size())};
    for (int k = 0; k < 2; ++k)
      for (i64 c = 0; c < channels; ++c) {
        double batch = 0, size = 0;
        for (i64 i = 0; i < n; ++i) {
          const Statistic& s = all[size_t(i * channels + c)];
          batch += (k ? s.variance * s.count / (s.count - 1) : s.mean) / double(n);
          size += (k ? (s.size + std::fabs(s.mean)) * (s.size + std::fabs(s.mean)) : s.size);
        }
        const double old = in[size_t(1 + k)].v[size_t(c)];
        r.v.push_back((1 - momentum) * old + momentum * batch);
        r.magnitude.push_back(std::fabs(old) + size);
      }
    return r;
  };
}

using Options = std::function<void(const Shape& x, const Shape& weight, DType, double eps, Device)>;
// What all three refuse alike.
void add_errors(OpCase& c, const Options& call) {
  const auto error = [call](const Shape& x, const Shape& weight, DType t, double eps) {
    return [=](Device d) { call(x, weight, t, eps, d); };
  };
  const std::string tag = "[" + c.name + "] ";
  c.errors.push_back(
      undefined_operand(c.name, [call, name = c.name](const Tensor&, const Tensor& b) {
        call({}, {}, DType::i8, 0, b.device());
      }));
  c.errors.push_back(error_input<ShapeError>("rank", tag + "x must be [N, C] or [N, C, ...]",
                                             error({4}, {4}, f32, 1e-5)));
  c.errors.push_back(error_input<ShapeError>("weight",
                                             tag + "weight must be [4], one a channel, got [3]",
                                             error({2, 4, 3}, {3}, f32, 1e-5)));
  c.errors.push_back(error_input<DtypeError>("dtype",
                                             tag + "expected a floating dtype that computes",
                                             error({2, 4, 3}, {4}, DType::i64, 1e-5)));
  c.errors.push_back(error_input<UsageError>("eps", tag + "eps must be at least 0, got -1",
                                             error({2, 4, 3}, {4}, f32, -1)));
}
// ones of `shape`; undefined for i8.
Tensor made(const Shape& shape, DType t, Device d) {
  return t == DType::i8 ? Tensor() : ones(shape, {.dtype = t, .device = d});
}

// --- batch ---

void add_running_sample(OpCase& c, const Shape& shape, double momentum, bool instances) {
  Sample s{
      str("running statistics, momentum ", momentum),
      {{shape, -2, 3}, buffer({shape[1]}, -1, 1), buffer({shape[1]}, 0.5, 2)},
      [=](std::span<const Tensor> in) {
        const NoGrad no_grad;
        const Tensor mean = in[1].clone(), var = in[2].clone();
        if (instances)
          (void)instance_norm(in[0],
                              {.running_mean = mean, .running_var = var, .momentum = momentum});
        else
          (void)batch_norm(
              in[0],
              {.running_mean = mean, .running_var = var, .training = true, .momentum = momentum});
        return stack({mean, var});
      },
      running_oracle(instances, momentum)};
  s.gradients = false;
  c.samples.push_back(std::move(s));
}

void add_batch_norm(std::vector<OpCase>& rows) {
  std::vector<std::string> contracts = kChannelNorm;
  contracts.push_back("running_stats");
  OpCase c{"batch_norm", contracts, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    int parameters;
    bool training;
    double eps = 1e-5;
    bool torch = false;
  };
  const Case cases[] = {{{3, 4, 5}, 2, true, 1e-5, true},
                        {{2, 3, 3, 2}, 2, true, 1e-3, true},
                        {{3, 4, 5}, 2, false, 1e-5, true},
                        {{7, 5}, 0, true, 1e-3, true},
                        {{7, 3}, 1, false, 1e-5, true},
                        {{2, 2, 1, 3, 2}, 1, true},
                        {{31, 33}, 2, true},
                        {{3, 7, 31}, 2, true},
                        {{2, 257, 3}, 2, true},
                        {{600, 9}, 2, true},
                        {{4, 1, 6}, 0, false},
                        {{0, 3, 4}, 2, false},
                        {{3, 4, 0}, 2, false}};
  for (const Case& k : cases) {
    const int running = k.training ? 0 : 1 + k.parameters;
    c.samples.push_back({str(k.training ? "training" : "evaluation", ", parameters ", k.parameters,
                             ", eps ", k.eps),
                         inputs_of(k.x, k.parameters, !k.training),
                         [=](std::span<const Tensor> in) {
                           BatchNormOptions o{.weight = nth(in, 1, k.parameters),
                                              .bias = nth(in, 2, k.parameters),
                                              .training = k.training,
                                              .eps = k.eps};
                           if (running)
                             o.running_mean = in[size_t(running)],
                             o.running_var = in[size_t(running) + 1];
                           return batch_norm(in[0], o);
                         },
                         norm_oracle(0, k.eps, k.parameters, running)});
    c.samples.back().second_is_zero = !k.training && k.parameters == 0;
    const std::string names = "abcde";
    if (k.torch)
      c.samples.back().torch =
          str("F.batch_norm(a, ", k.training ? "None" : names.substr(size_t(running), 1), ", ",
              k.training ? "None" : names.substr(size_t(running) + 1, 1), ", ",
              torch_parameters(k.parameters), ", training=", k.training ? "True" : "False",
              ", eps=", k.eps, ")");
  }
  add_running_sample(c, {3, 4, 5}, 0.1, false);
  add_running_sample(c, {7, 3}, 0.75, false);
  add_errors(c, [](const Shape& x, const Shape& weight, DType t, double eps, Device d) {
    (void)batch_norm(made(x, t, d), {.weight = made(weight, t, d), .training = true, .eps = eps});
  });
  const std::string tag = "[batch_norm] ";
  const auto running = [](const Shape& x, const Shape& mean, const Shape& var, bool training,
                          double momentum) {
    return [=](Device d) {
      BatchNormOptions o{.training = training, .momentum = momentum};
      if (!mean.empty()) o.running_mean = ones(mean, {.device = d});
      if (!var.empty()) o.running_var = ones(var, {.device = d});
      (void)batch_norm(ones(x, {.device = d}), o);
    };
  };
  c.errors.push_back(error_input<ShapeError>(
      "one value", tag + "training needs more than one value a channel, got 1",
      running({1, 4, 1}, {4}, {4}, true, 0.1)));
  c.errors.push_back(error_input<ShapeError>("running_var",
                                             tag + "running_var must be [4], one a channel",
                                             running({2, 4}, {4}, {3}, false, 0.1)));
  c.errors.push_back(error_input<UsageError>("running_mean alone",
                                             tag + "running_mean and running_var go together",
                                             running({2, 4}, {4}, {}, false, 0.1)));
  c.errors.push_back(error_input<UsageError>("momentum",
                                             tag + "momentum must be in [0, 1], got 1.5",
                                             running({2, 4}, {4}, {4}, true, 1.5)));
  rows.push_back(std::move(c));
}

// --- group ---

void add_group_norm(std::vector<OpCase>& rows) {
  OpCase c{"group_norm", kChannelNorm, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    i64 groups;
    int parameters;
    double eps = 1e-5;
    bool torch = false;
  };
  const Case cases[] = {{{2, 4, 5}, 2, 2, 1e-5, true},
                        {{2, 6, 2, 2}, 3, 2, 1e-3, true},
                        {{3, 4, 3}, 1, 2, 1e-5, true},
                        {{3, 4, 3}, 4, 0, 1e-2, true},
                        {{3, 6}, 2, 1},
                        {{1, 4, 7}, 2, 2},
                        {{2, 33, 3}, 11, 2},
                        {{2, 6, 257}, 3, 2},
                        {{2, 520, 3}, 2, 2},
                        {{31, 8, 5, 1}, 8, 1},
                        {{0, 4, 3}, 2, 2},
                        {{3, 4, 0}, 2, 2}};
  for (const Case& k : cases) {
    c.samples.push_back({str("groups ", k.groups, ", parameters ", k.parameters, ", eps ", k.eps),
                         inputs_of(k.x, k.parameters, false),
                         [=](std::span<const Tensor> in) {
                           return group_norm(in[0], k.groups,
                                             {.weight = nth(in, 1, k.parameters),
                                              .bias = nth(in, 2, k.parameters),
                                              .eps = k.eps});
                         },
                         norm_oracle(k.groups, k.eps, k.parameters, 0)});
    if (k.torch)
      c.samples.back().torch = str("F.group_norm(a, ", k.groups, ", ",
                                   torch_parameters(k.parameters), ", eps=", k.eps, ")");
  }
  add_errors(c, [](const Shape& x, const Shape& weight, DType t, double eps, Device d) {
    (void)group_norm(made(x, t, d), 1, {.weight = made(weight, t, d), .eps = eps});
  });
  const std::string tag = "[group_norm] ";
  for (i64 groups : {3, 0})
    c.errors.push_back(error_input<ShapeError>(
        "groups", tag + str("groups ", groups, " does not divide the 4 channels"),
        [groups](Device d) {
          (void)group_norm(ones({2, 4}, {.device = d}), groups);
        }));
  c.errors.push_back(
      error_input<ShapeError>("one value", tag + "needs more than one value a group", [](Device d) {
        (void)group_norm(ones({1, 4}, {.device = d}), 4);
      }));
  rows.push_back(std::move(c));
}

// --- instance ---

void add_instance_norm(std::vector<OpCase>& rows) {
  OpCase c{"instance_norm", kChannelNorm, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    int parameters;
    bool own;
    double eps = 1e-5;
    bool torch = false;
  };
  const Case cases[] = {{{2, 4, 5}, 2, true, 1e-3, true},
                        {{2, 3, 2, 3}, 2, true, 1e-2, true},
                        {{3, 4, 5}, 2, false, 1e-5, true},
                        {{3, 2, 7}, 0, true, 1e-5, true},
                        {{1, 3, 5}, 1, true},
                        {{2, 33, 3}, 2, true, 1e-2},
                        {{3, 7, 31}, 2, true},
                        {{2, 3, 257}, 1, true},
                        {{31, 2, 3, 1}, 2, true, 1e-2},
                        {{7, 3}, 2, false},
                        {{0, 3, 4}, 2, true}};
  for (const Case& k : cases) {
    const int running = k.own ? 0 : 1 + k.parameters;
    c.samples.push_back(
        {str(k.own ? "own" : "running", " statistics, parameters ", k.parameters, ", eps ", k.eps),
         inputs_of(k.x, k.parameters, !k.own),
         [=](std::span<const Tensor> in) {
           InstanceNormOptions o{.weight = nth(in, 1, k.parameters),
                                 .bias = nth(in, 2, k.parameters),
                                 .use_input_stats = k.own,
                                 .eps = k.eps};
           if (running)
             o.running_mean = in[size_t(running)], o.running_var = in[size_t(running) + 1];
           return instance_norm(in[0], o);
         },
         norm_oracle(k.own ? k.x[1] : 0, k.eps, k.parameters, running)});
    if (k.torch)
      c.samples.back().torch =
          str("F.instance_norm(a, ", k.own ? "None, None" : "d, e", ", ",
              torch_parameters(k.parameters), ", use_input_stats=", k.own ? "True" : "False",
              ", eps=", k.eps, ")");
  }
  add_running_sample(c, {3, 4, 5}, 0.1, true);
  add_errors(c, [](const Shape& x, const Shape& weight, DType t, double eps, Device d) {
    (void)instance_norm(made(x, t, d), {.weight = made(weight, t, d), .eps = eps});
  });
  const std::string tag = "[instance_norm] ";
  c.errors.push_back(error_input<ShapeError>(
      "one place", tag + "needs more than one place a channel, got 1", [](Device d) {
        (void)instance_norm(ones({5, 4}, {.device = d}));
      }));
  c.errors.push_back(error_input<UsageError>(
      "no statistics", tag + "there are no running statistics", [](Device d) {
        (void)instance_norm(ones({5, 4, 2}, {.device = d}), {.use_input_stats = false});
      }));
  c.errors.push_back(error_input<UsageError>(
      "momentum", tag + "momentum must be in [0, 1], got -0.5", [](Device d) {
        (void)instance_norm(ones({5, 4, 2}, {.device = d}), {.momentum = -0.5});
      }));
  rows.push_back(std::move(c));
}

void add_channel_norm_cases(std::vector<OpCase>& rows) {
  add_batch_norm(rows);
  add_group_norm(rows);
  add_instance_norm(rows);
}

const CaseFile file{add_channel_norm_cases};

}  // namespace
}  // namespace wt_test

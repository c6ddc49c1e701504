// Probability distributions: what they draw, and the logarithm of their density, with gradients to
// their parameters. Names, formulas and defaults are those of torch.distributions.
//
//   const distributions::Normal policy(mean, std);       // tensors or numbers, which broadcast
//   const Tensor action = policy.sample();               // no gradient; of batch_shape()
//   const Loss loss(-sum(policy.log_prob(action) * reward), n);
//
// A draw of `shape` is of shape + batch_shape: independent draws of every element of the
// parameters. They come from the generator's user stream (core/random.h): one seed gives the same
// bits on every device. Parameters are floating and of one dtype and device, else DtypeError and
// PlacementError. Their values are checked on the cpu alone, where looking at them costs nothing
// but a pass: UsageError; what wrong ones give elsewhere is NaN. Values outside of the support are
// not refused: their density is what the formula says.
#pragma once
#include <optional>

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/tensor.h"

namespace wt::distributions {

// A tensor, or a number for all elements.
class Value {
 public:
  // Of a tensor, which is held as it is, or of a number, which has no dtype yet.
  Value(const Tensor& t) : tensor_(t) {}  // NOLINT: implicit by design
  template <Number T>
  Value(T v) : number_(double(v)) {}  // NOLINT
  // The tensor as it was given; a number becomes a 0-d tensor of these options.
  WT_API Tensor tensor(const TensorOptions& o) const;
  // is_number tells which it is; given is the tensor, undefined for a number.
  bool is_number() const { return !tensor_.defined(); }
  const Tensor& given() const { return tensor_; }

 private:
  Tensor tensor_;
  double number_ = 0;
};

// What all distributions have: draws, the logarithm of the density, entropy and moments.
class WT_API Distribution {
 public:
  virtual ~Distribution() = default;
  // What the parameters broadcast to, without the axis of a Categorical's classes.
  const Shape& batch_shape() const { return batch_; }
  // Draws of shape + batch_shape(), without a gradient.
  Tensor sample(const Shape& shape = {}, const CallLine& line = {}) const;
  // log p(value), natural, of the shape that value and batch_shape() broadcast to. Throws
  // ShapeError where they do not.
  Tensor log_prob(const Value& value, const CallLine& line = {}) const;
  // Of batch_shape(): entropy is -E[log p], in nats; mean, variance and stddev are those of a draw.
  // All have gradients to the parameters.
  Tensor entropy(const CallLine& line = {}) const;
  Tensor mean(const CallLine& line = {}) const;
  Tensor variance(const CallLine& line = {}) const;
  Tensor stddev(const CallLine& line = {}) const;

 protected:
  // Parameters become tensors of one dtype and device, the default ones if all are numbers. Throws
  // DtypeError, PlacementError, and ShapeError where they do not broadcast.
  Distribution(const char* name, std::initializer_list<const Value*> parameters);
  // Parameter i, of its own shape.
  const Tensor& parameter(size_t i) const { return parameters_[i]; }
  // options are dtype and device of the parameters, name is what errors begin with; whole expands a
  // tensor to batch_shape().
  const TensorOptions& options() const { return options_; }
  const char* name() const { return name_; }
  Tensor whole(const Tensor& t) const { return t.expand(batch_); }
  // Throws UsageError on the cpu where `wrong` is true somewhere.
  void refuse(const Tensor& wrong, const std::string& text) const;

  // What a distribution is made of: drawn, of a shape that ends with batch_shape(), and
  // log_density, log p of a value; entropy_of, mean_of and variance_of broadcast to batch_shape().
  virtual Tensor drawn(const Shape& shape) const = 0;
  virtual Tensor log_density(const Tensor& value) const = 0;
  virtual Tensor entropy_of() const = 0;
  virtual Tensor mean_of() const = 0;
  virtual Tensor variance_of() const = 0;

  // What batch_shape() returns.
  Shape batch_{};

 private:
  const char* name_;
  TensorOptions options_{};
  std::vector<Tensor> parameters_{};
};

// A distribution whose draws are functions of the parameters and of noise that does not depend on
// them (Kingma and Welling 2013, arXiv:1312.6114).
class WT_API Reparametrised : public Distribution {
 public:
  // As sample(), with the gradient to the parameters.
  Tensor rsample(const Shape& shape = {}, const CallLine& line = {}) const;

 protected:
  // The constructors are those of Distribution.
  using Distribution::Distribution;
};

// The normal distribution: exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi)), scale > 0.
class WT_API Normal : public Reparametrised {
 public:
  // Tensors or numbers, which broadcast. Throws UsageError on the cpu unless every scale is above
  // 0.
  Normal(const Value& loc, const Value& scale, const CallLine& line = {});
  // loc is the mean and scale the standard deviation, both of batch_shape().
  Tensor loc() const { return whole(parameter(0)); }
  Tensor scale() const { return whole(parameter(1)); }
  // P(X <= value), of the shape that value and batch_shape() broadcast to.
  Tensor cdf(const Value& value, const CallLine& line = {}) const;

 protected:
  // For a class that errors call `name`.
  Normal(const char* name, const Value& loc, const Value& scale);
  // drawn, log_density, entropy_of, mean_of and variance_of are as Distribution says.
  Tensor drawn(const Shape& shape) const override;
  Tensor log_density(const Tensor& value) const override;
  Tensor entropy_of() const override;
  Tensor mean_of() const override;
  Tensor variance_of() const override;
};

// exp of a Normal(loc, scale): loc and scale are those of the logarithm of a draw.
class WT_API LogNormal : public Normal {
 public:
  // Throws as Normal.
  LogNormal(const Value& loc, const Value& scale, const CallLine& line = {});
  // P(X <= value); NaN below 0.
  Tensor cdf(const Value& value, const CallLine& line = {}) const;

 protected:
  // drawn, log_density, entropy_of, mean_of and variance_of are as Distribution says.
  Tensor drawn(const Shape& shape) const override;
  Tensor log_density(const Tensor& value) const override;
  Tensor entropy_of() const override;
  Tensor mean_of() const override;
  Tensor variance_of() const override;
};

// The uniform distribution: 1 / (high - low) in [low, high), else 0; low < high.
class WT_API Uniform : public Reparametrised {
 public:
  // Tensors or numbers, which broadcast. Throws UsageError on the cpu unless every low is below
  // high.
  Uniform(const Value& low, const Value& high, const CallLine& line = {});
  // low is the smallest draw and high what draws are below, both of batch_shape().
  Tensor low() const { return whole(parameter(0)); }
  Tensor high() const { return whole(parameter(1)); }
  // P(X <= value), from 0 up to low to 1 from high on.
  Tensor cdf(const Value& value, const CallLine& line = {}) const;

 protected:
  // drawn, log_density, entropy_of, mean_of and variance_of are as Distribution says.
  Tensor drawn(const Shape& shape) const override;
  Tensor log_density(const Tensor& value) const override;
  Tensor entropy_of() const override;
  Tensor mean_of() const override;
  Tensor variance_of() const override;
};

// The exponential distribution: rate exp(-rate x), x >= 0; rate > 0.
class WT_API Exponential : public Reparametrised {
 public:
  // A tensor or a number. Throws UsageError on the cpu unless every rate is above 0.
  Exponential(const Value& rate, const CallLine& line = {});
  // 1 / mean, of batch_shape().
  Tensor rate() const { return parameter(0); }
  // P(X <= value): 1 - e^(-rate value), which is negative below 0.
  Tensor cdf(const Value& value, const CallLine& line = {}) const;

 protected:
  // drawn, log_density, entropy_of, mean_of and variance_of are as Distribution says.
  Tensor drawn(const Shape& shape) const override;
  Tensor log_density(const Tensor& value) const override;
  Tensor entropy_of() const override;
  Tensor mean_of() const override;
  Tensor variance_of() const override;
};

// Probabilities or logits, one of the two. Logits of probabilities p are log(p / (1 - p)), of
// classes log p.
struct ProbsOrLogits {
  std::optional<Value> probs{};   // of [0, 1], of classes at least 0
  std::optional<Value> logits{};  // any numbers
};

// 1 with probability p, else 0. Probabilities are of [0, 1]; where a logit is made of one it is
// kept an eps of the dtype away from both ends. Throws UsageError for both or neither of probs and
// logits.
class WT_API Bernoulli : public Distribution {
 public:
  // Throws UsageError for both or neither of probs and logits, and on the cpu for probs outside [0,
  // 1].
  explicit Bernoulli(const ProbsOrLogits& p, const CallLine& line = {});
  // probs is the probability of 1 and logits log(p / (1 - p)), both of batch_shape(), whichever was
  // given.
  Tensor probs() const;
  Tensor logits() const;

 protected:
  // drawn, log_density, entropy_of, mean_of and variance_of are as Distribution says.
  Tensor drawn(const Shape& shape) const override;
  Tensor log_density(const Tensor& value) const override;
  Tensor entropy_of() const override;
  Tensor mean_of() const override;
  Tensor variance_of() const override;

 private:
  bool has_logits_;
};

// A class of [0, K), i64: probabilities along the last axis, in proportion to `probs` (at least 0,
// not all 0) or to exp(logits). A class has no mean and no variance: UsageError. log_prob throws
// IndexError for another class; ShapeError without classes, otherwise Bernoulli's errors.
class WT_API Categorical : public Distribution {
 public:
  // Of [.., K], K the classes. Throws ShapeError without classes, UsageError for both or neither of
  // probs and logits, and on the cpu for probs below 0 or all 0.
  explicit Categorical(const ProbsOrLogits& p, const CallLine& line = {});
  // probs and logits, [.., K], are normalised, whichever was given: probs add up to 1, and so do
  // the exponentials of logits.
  Tensor probs() const;
  Tensor logits() const;

 protected:
  // drawn, log_density, entropy_of, mean_of and variance_of are as Distribution says.
  Tensor drawn(const Shape& shape) const override;
  Tensor log_density(const Tensor& value) const override;
  Tensor entropy_of() const override;
  Tensor mean_of() const override;
  Tensor variance_of() const override;

 private:
  bool has_logits_;
};

// KL(p || q) = E_p[log p - log q], of what the batch shapes broadcast to; infinite where p can draw
// what q cannot.
WT_API Tensor kl_divergence(const Normal& p, const Normal& q, const CallLine& line = {});
WT_API Tensor kl_divergence(const Uniform& p, const Uniform& q, const CallLine& line = {});
WT_API Tensor kl_divergence(const Exponential& p, const Exponential& q, const CallLine& line = {});
WT_API Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q, const CallLine& line = {});
WT_API Tensor kl_divergence(const Categorical& p, const Categorical& q, const CallLine& line = {});

}  // namespace wt::distributions

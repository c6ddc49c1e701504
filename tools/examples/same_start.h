// What the examples that are compared with PyTorch have in common: parameters and data from
// formulas, so that any framework starts from the same numbers, and the comparison of the losses.
// PyTorch's are in torch_losses.h, which tools/generators/make_example_losses.py writes by the same
// formulas.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "torch_losses.h"
#include "warptape/warptape.h"

// Irregular numbers of (-1, 1) in f64: sin(0.37 i^2), i counting from 1000 * seed.
inline wt::Tensor numbers(const wt::Shape& shape, int seed) {
  const wt::Tensor i = wt::arange(wt::numel_of(shape), {.dtype = wt::f64}) + 1000.0 * seed;
  return sin(0.37 * i * i).reshape(shape);
}

// Makes the net f64 and fills parameter k from numbers(shape, k): matrices by their fan in, what
// scales a norm around 1, biases around 0.
inline void same_start(const wt::nn::ModuleBase& net) {
  net.to(wt::f64);
  const wt::NoGrad no_grad;
  int k = 0;
  for (auto& [name, p] : net.named_parameters()) {
    const wt::Tensor u = numbers(p.shape(), k++);
    if (p.ndim() > 1)
      p.copy_(u * (1.5 / std::sqrt(double(p.numel() / p.size(0)))));
    else if (name.ends_with("weight"))
      p.copy_(1 + 0.1 * u);
    else
      p.copy_(0.1 * u);
  }
}

// Black and white images [n, size, size] of whole rows and columns (Foeldiak, 1990).
inline wt::Tensor bars(wt::i64 n, wt::i64 size, int seed) {
  const wt::Tensor rows = gt(numbers({n, size, 1}, seed), 0.7).to(wt::f64);
  const wt::Tensor columns = gt(numbers({n, 1, size}, seed + 1), 0.7).to(wt::f64);
  return maximum(rows, columns);
}

// One loss a step, beside PyTorch's.
class Losses {
 public:
  // Of the command line: --steps N, fewer than 20; --device, where tensors and modules are made.
  Losses(const double (&torch)[20], int argc, char** argv)
      : torch_(torch), device_(device_of(argc, argv)) {
    for (int i = 1; i + 1 < argc; i += 2)
      if (std::string(argv[i]) == "--steps") steps_ = std::clamp(std::stoi(argv[i + 1]), 1, 20);
  }
  int steps() const { return steps_; }

  void add(double loss) {
    std::printf("step %2d  loss %.6f\n", step_ + 1, loss);
    const double difference = std::abs(loss - torch_[step_]) / std::abs(torch_[step_]);
    if (!std::isnan(largest_) && !(difference <= largest_)) largest_ = difference;  // NaN stays
    ++step_;
  }
  // The last line, and the program's exit code.
  int compare(double bound = 1e-6) const {
    std::printf("largest relative difference to PyTorch: %.1e\n", largest_);
    return step_ == steps_ && largest_ < bound ? 0 : 1;
  }

 private:
  static wt::Device device_of(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      if (std::string(argv[i]) != "--device") continue;
      if (std::string(argv[i + 1]) == "simt") return wt::Device::simt();
      if (std::string(argv[i + 1]) == "cuda") return wt::Device::cuda();
    }
    return wt::Device::cpu();
  }

  const double (&torch_)[20];
  wt::DefaultDevice device_;
  int steps_ = 20, step_ = 0;
  double largest_ = 0;
};

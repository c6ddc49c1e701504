// What tests/consumers/gdb_printers.sh looks at with gdb.
#include "warptape/core/factories.h"
#include "warptape/nn/module.h"

using namespace wt;

struct Printed : nn::Module<Printed> {
  nn::Param gain = add("gain", tensor({0.5, 2.0}));
};

int main() {
  const Tensor none;
  const Tensor x = tensor({{1.0, 2.5, 3.0}, {4.0, 5.0, 6.0}});
  const Tensor columns = x.t();
  const Tensor halves = x.to(f16), brains = x.to(bf16), counts = tensor({7, -8}),
               truth = tensor({true, false});
  const Tensor scalar = tensor(1.5, {.dtype = f64, .requires_grad = true});
  const Tensor empty_one = zeros({0, 3}), many = zeros({1000});
  const Tensor meta = zeros({4}, {.device = Device::meta()});
  const Tensor soft = x.to(Device::simt());
  const Shape shape{2, 3};
  [[maybe_unused]] const Device device = Device::cuda(1);
  const Printed net;
  const Tensor& reference = x;
  return int(reference.numel() + net.parameter_count());  // stop here
}

// What must and what must not compile. check.sh compiles this file as it is, which must work, and
// with each `#ifdef WT_TRAP_x` (and -Werror=unused-result), all at once, and by itself where that
// does not tell; each must fail, in the trap's own line or in what that line makes of a template;
// what stands behind `// error:` must be part of what the compiler says.
#include "traps.h"

#include <algorithm>

using namespace wt;

void must_compile(Tensor x, Tensor y, const std::vector<int>& v) {
  Tensor a = sum(x, 0);  // one conversion hop
  a = sum(x);
  a = sum(x, {});
  a = sum(x, {0, -1}, {.keep_dim = true});
  a = zeros({v.size(), 10});  // no narrowing
  a = tensor({1, 2.5});
  a = relu(x);
  a = x + 2;
  a = 2 + x;
  a = 1.5 * -x / y;
  a = maximum(x, 0);
  a = eq(x, y);
  a = x[0];
  x.index_put_({0}, y);
  x.add_(y);              // in place: nothing to forget
  a = add(x, y).relu_();  // a value from an rvalue
  if (x.defined()) a = grad(sum(x), x);
  const std::vector<Tensor> g = grads({sum(x)}, {x, y}, {.allow_unused = true});
  const Loss loss = mse_loss(x, y);
  a = loss + 1;
  const Loss scaled = 0.5 * loss;
  scaled.backward();
}

// A range of tensors comes apart in two as any other does, though a tensor does not.
#ifndef __clang__  // version 14 cannot read subranges of libstdc++ 12
void parts_of_a_range(std::vector<Tensor> all) {
  const auto [first, last] =
      std::ranges::remove_if(all, [](const Tensor& t) { return !t.defined(); });
  all.erase(first, last);
}
#endif

// grad() is of one input and gives a tensor, grads() of several and gives a vector: what they are
// given may be a tensor, a parameter, a loss, a list or a range.
void gradients(Tensor x, Tensor y, const std::vector<Tensor>& all, nn::Linear net) {
  const Loss loss = mse_loss(x, y);
  Tensor a = grad(sum(x), {x});  // a list of one is that one
  a = grad(loss, x);
  a = grad(loss, net.weight, {.create_graph = true});
  std::vector<Tensor> g = grads(sum(x), x);
  g = grads(sum(x), {x});
  g = grads(sum(x), {x, y}, {.allow_unused = true});
  g = grads({sum(x), sum(y)}, x);
  g = grads({x, y}, all);
  g = grads(all, all);
  g = grads(all, {x});
  g = grads({all.data(), 1}, std::span(all));
  g = grads(loss, net.parameters());
  g = grads({loss}, {net.weight, net.bias, x});
  g = grads(net.weight, net.weight);
}

// Views of rvalues, and lists of indices of one and of several kinds.
void views(Tensor x, Tensor y, size_t i) {
  Tensor a = (x + y).select(0, 0).unsqueeze(0).squeeze().slice(0, {1, 2});
  a = (x + y)[i];
  a = x[{1}];
  a = x[{1, 0}];
  a = x[{i, Slice{0, 2}, -1}];
  a = std::move(x).reshape({2, -1})[0].t();
}

// What a PyTorch user writes first.
void from_pytorch(Tensor x, Tensor mask, const nn::Sequential& net, std::ostream& out) {
  Tensor a = x[mask];
  a = x[Slice{0, 2}];
  a = x[ellipsis];
  a = x[newaxis];
  a = (x + 1)[mask];
  a = (~mask & (gt(x, 1) | lt(x, 0))) ^ mask;
  auto [values, places] = topk(x, 2, {.largest = false});
  auto [sorted, order] = x.sort({.descending = true});
  a = tensor({{{0.0, 1.0}}});
  a = x.exp().pow(2).std(0, {.correction = 0, .keep_dim = true}).requires_grad_();
  const nn::Conv2d conv{3, 8, 3}, padded{3, 8, 3, {.padding = 1}}, option{3, 8, {.kernel = 3}};
  for (const i64 i : progress(10)) out << i;
  out << net << net.summary(x);
  (void)kthvalue(x, 2, {.keep_dim = true});
}

// A Loader's element has exactly two members and the iterator returns an lvalue of it; the dataset
// given as an rvalue is owned.
void loaders(Tensor x, Tensor y) {
  for (auto& [a, b] : data::Loader{data::TensorDataset{x, y}, {.batch = 2, .shuffle = true}})
    a = a + b;
  data::Loader loader{data::TensorDataset{x, y}};
  for (data::Batch& batch : loader) batch.x = batch.y;
  static_assert(std::is_same_v<decltype(*loader.begin()), data::Batch&>);
  static_assert(std::is_same_v<decltype(loader), data::Loader<data::TensorDataset>>);
  data::TensorDataset lvalue{x, y};
  data::Loader copied{lvalue};
  static_assert(std::is_same_v<decltype(copied), data::Loader<data::TensorDataset>>);
}

// Batches of the user's own: what Loader and TrainStep ask for is there or is named.
struct Untold {
  Tensor x;
};
struct Told {
  Tensor x;
  auto tensors() { return std::array{&x}; }
};
struct Counted : Told {
  i64 size() const { return x.size(0); }
};
void batches(Tensor x, TrainStep& step) {
  for (auto& [a, b, c] : data::Loader{data::TensorsDataset{x, x, x}, {.batch = 2}}) a = b + c;
  const data::TensorDataset pairs{x, x};
  for (auto& [a] : data::Loader{data::collate(pairs, [](data::Batch b) { return Told{b.x}; })})
    step(std::array{a, a}, [](const auto& b) { return sum(b[0]); });
}

// Options are aggregates beside their class; Sequential's template does not take over its copies.
struct Renamed : nn::Linear {  // derived, but with no forward of its own
  using nn::Linear::Linear;
};
void modules(Tensor x) {
  (void)nn::Sequential{Renamed{2, 2}, nn::Conv2d{1, 1, {.kernel = 1}}, nn::BatchNorm1d{2}}(x);
  nn::Sequential net{nn::Flatten{}, nn::Linear{4, 2, {.bias = false}}, nn::ReLU{}};
  nn::Sequential copy{net}, same = copy, moved{std::move(same)};
  const nn::Sequential fixed{net};
  nn::Sequential from_const{fixed};
  Tensor y = net(x);
  y = fixed(x);
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  opt.step({.grad_factor = y});
  const nn::EvalScope eval(net);
  static_assert(sizeof(SumOptions) == 1 && sizeof(VarOptions) == 16 &&
                std::is_trivially_copyable_v<VarOptions>);  // names that are refused take no room
  static_assert(std::is_aggregate_v<nn::ConvLayerOptions> && std::is_aggregate_v<VarOptions>);
  static_assert(std::is_aggregate_v<nn::LinearOptions> && std::is_aggregate_v<optim::SgdOptions> &&
                std::is_aggregate_v<optim::AdamWOptions> && std::is_aggregate_v<GradOptions> &&
                std::is_aggregate_v<data::LoaderOptions> && std::is_aggregate_v<SumOptions>);
}

void guards() {
  const NoGrad no_grad;
  const EnableGrad grad;
  const InferenceMode inference;
}

// Its forward is not the one that calls run.
struct Doubled : nn::Linear {
  using nn::Linear::Linear;
  Tensor forward(Tensor x) { return linear(x, weight, bias) * 2; }
};
template <class M>
struct Holder : nn::Module<Holder<M>> {
  M held = this->add("held", M{2, 2});
  Tensor forward(Tensor x) { return held(x); }
};

void must_not_compile(Tensor x, Tensor y, TrainStep& step) {
#ifdef WT_TRAP_bool_as_axis
  // error: Dims
  (void)sum(x, true);
#endif
#ifdef WT_TRAP_bool_among_axes
  // error: Dims
  (void)sum(x, {true});
#endif
#ifdef WT_TRAP_bool_as_dims
  // error: conver
  Dims dims = true;
  (void)dims;
#endif
#ifdef WT_TRAP_assign_to_element
  // error: operator=
  x[0] = y;
#endif
#ifdef WT_TRAP_assign_number_to_element
  // error: operator=
  x[0] = 1.0;
#endif
#ifdef WT_TRAP_places_of_max
  // error: max_with_indices(x, axis)
  auto [values, places] = max(x, 1);
#endif
#ifdef WT_TRAP_keepdim
  // error: .keepdim is called .keep_dim here
  (void)sum(x, 0, {.keepdim = true});
#endif
#ifdef WT_TRAP_keepdim_of_a_method
  // error: .keepdim is called .keep_dim here
  (void)x.quantile(0.5, 0, {.keepdim = true});
#endif
#ifdef WT_TRAP_unbiased
  // error: unbiased=False is {.correction = 0}
  (void)var(x, 0, {.unbiased = false});
#endif
#ifdef WT_TRAP_is_causal
  // error: .is_causal is called .causal here
  (void)scaled_dot_product_attention(x, x, x, {.is_causal = true});
#endif
#ifdef WT_TRAP_scale_factor
  // error: .scale_factor is called .scale here
  (void)upsample(x, {.scale_factor = 2.0});
#endif
#ifdef WT_TRAP_reduction
  // error: is loss.sum
  (void)cross_entropy(x, y, {.reduction = "sum"});
#endif
#ifdef WT_TRAP_kernel_size
  // error: the kernel is called .kernel here
  const nn::Conv2d conv{3, 8, {.kernel_size = 3, .padding = 1}};
#endif
#ifdef WT_TRAP_kernel_size_of_two
  // error: the kernel is called .kernel here
  const nn::Conv2d conv{3, 8, {.kernel_size = {3, 5}}};
#endif
#ifdef WT_TRAP_kernel_without_its_name
  // error: the kernel is called .kernel here
  const nn::Conv2d conv{3, 8, {3, 5}};
#endif
#ifdef WT_TRAP_return_indices
  // error: max_pool2d_with_indices(x, kernel)
  (void)max_pool2d(x, 2, {.return_indices = true});
#endif
#ifdef WT_TRAP_batch_size
  // error: .batch_size is called .batch here
  const data::Loader loader{data::TensorDataset{x, y}, {.batch_size = 4}};
#endif
#ifdef WT_TRAP_num_workers
  // error: .num_workers is called .workers here
  const data::LoaderOptions o{.num_workers = 4};
#endif
#ifdef WT_TRAP_create_graph_of_backward
  // error: write grad(y, x, {.create_graph = true})
  x.backward({.create_graph = true});
#endif
#ifdef WT_TRAP_function_of_number
  // error: In
  (void)relu(2.0);
#endif
#ifdef WT_TRAP_function_of_loss
  // error: In
  (void)relu(mse_loss(x, y));
#endif
#ifdef WT_TRAP_reduction_of_number
  // error: In
  (void)sum(2.0);
#endif
#ifdef WT_TRAP_compare_in_condition
  // error: operator==
  if (x == y) return;
#endif
#ifdef WT_TRAP_compare_with_number
  // error: operator==
  if (x == 0) return;
#endif
#ifdef WT_TRAP_less_in_condition
  // error: operator<
  if (x < y) return;
#endif
#ifdef WT_TRAP_tensor_as_condition
  // error: bool
  if (x) return;
#endif
#ifdef WT_TRAP_not_tensor
  // error: operator!
  if (!x) return;
#endif
#ifdef WT_TRAP_discarded_result
  // error: nodiscard
  relu(x);
#endif
#ifdef WT_TRAP_discarded_sum
  // error: nodiscard
  x + y;
#endif
#ifdef WT_TRAP_discarded_to
  // error: nodiscard
  x.to(Device::cpu());
#endif
#ifdef WT_TRAP_discarded_copy_async
  // error: nodiscard
  copy_async(x, Device::cpu());
#endif
#ifdef WT_TRAP_discarded_scale
  // error: nodiscard
  optim::GradScaler{}.scale(mse_loss(x, y));
#endif
#ifdef WT_TRAP_misspelled_option
  // error: num_works
  const data::LoaderOptions o{.batch = 2, .num_works = 4};
#endif
#ifdef WT_TRAP_fractional_map
  // error: narrowing
  const data::LmdbWriterOptions o{.map_bytes = 1e12};
#endif
#ifdef WT_TRAP_discarded_loss
  // error: nodiscard
  mse_loss(x, y);
#endif
#ifdef WT_TRAP_discarded_no_grad
  // error: nodiscard
  NoGrad();
#endif
#ifdef WT_TRAP_discarded_no_grad_braces
  // error: nodiscard
  NoGrad{};
#endif
#ifdef WT_TRAP_discarded_inference_mode
  // error: nodiscard
  InferenceMode();
#endif
#ifdef WT_TRAP_discarded_eval_scope
  // error: nodiscard
  nn::EvalScope(nn::ModuleBase());
#endif
#ifdef WT_TRAP_discarded_variant_scope
  // error: nodiscard
  VariantScope("softmax_forward", "naive");
#endif
#ifdef WT_TRAP_discarded_grad
  // error: nodiscard
  grad(x, y);
#endif
#ifdef WT_TRAP_grad_of_several_inputs
  // error: SeveralInputsAreForGrads
  (void)grad(sum(x), {x, y});
#endif
#ifdef WT_TRAP_discarded_view
  // error: nodiscard
  x.reshape({2});
#endif
#ifdef WT_TRAP_bool_as_index
  // error: operator[]
  (void)x[true];
#endif
#ifdef WT_TRAP_float_as_index
  // error: operator[]
  (void)x[1.5];
#endif
#ifdef WT_TRAP_number_for_sequential
  // error: Sequential
  const nn::Sequential net{3};
#endif
#ifdef WT_TRAP_three_members_of_a_batch
  // error: 3 names provided
  for (auto& [a, b, c] : data::Loader{data::TensorDataset{x, y}}) (void)a;
#endif
#ifdef WT_TRAP_loader_of_a_reference
  // error: constraint failure
  using Dangling = data::Loader<const data::TensorDataset&>;
  (void)sizeof(Dangling);
#endif
#ifdef WT_TRAP_loader_of_no_dataset
  // error: Loader
  const data::Loader loader{x};
#endif
#ifdef WT_TRAP_collate_with_a_mutable_lambda
  // error: as const (several workers call it at once)
  data::collate(data::TensorDataset{x, y}, [n = 0](data::Batch b) mutable { return ++n, b; });
#endif
#ifdef WT_TRAP_step_with_unknown_tensors
  // error: TrainStep: the batch needs tensors()
  step(Untold(), [](const Untold& b) { return sum(b.x); });
#endif
#ifdef WT_TRAP_step_without_size
  // error: TrainStep: the batch needs size()
  step(Told(), [](const Told& b) { return sum(b.x); });
#endif
#ifdef WT_TRAP_step_without_narrow
  // error: TrainStep: the batch needs narrow(begin, n)
  step(Counted(), [](const Counted& b) { return sum(b.x); });
#endif
#ifdef WT_TRAP_linear_options_nested
  // error: Options
  const nn::Linear::Options o;
#endif
#ifdef WT_TRAP_sgd_options_nested
  // error: Options
  const optim::Sgd::Options o;
#endif
#ifdef WT_TRAP_loader_options_nested
  // error: Options
  const data::Loader<data::TensorDataset>::Options o;
#endif
#ifdef WT_TRAP_copied_operand
  // error: deleted
  const In a(x), b(a);
#endif
#ifdef WT_TRAP_forward_of_derived_member
  // error: run the forward of the class it derives from
  (void)Holder<Doubled>()(x);
#endif
#ifdef WT_TRAP_forward_of_derived_step
  // error: run the forward of the class it derives from
  (void)nn::Sequential{Doubled{2, 2}}(x);
#endif
#ifdef WT_TRAP_forward_of_derived_list
  // error: run the forward of the class it derives from
  (void)nn::ModuleList<Doubled>(2, [] { return Doubled{2, 2}; });
#endif
#ifdef WT_TRAP_ragged_floats_as_shape
  // error: Shape
  (void)zeros({2.5, 3});
#endif
  (void)x, (void)y, (void)step;
}

// Tensor: a reference-counted handle to n-dimensional data on a device, with optional gradient
// state. Copies are the same tensor. Operators on tensors are free functions in autograd/ops.h;
// the members here that compute are the same operators in method form.
#pragma once
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/dtype.h"
#include "warptape/core/frame.h"
#include "warptape/core/method_list.h"
#include "warptape/core/scalar.h"
#include "warptape/core/shape.h"
#include "warptape/core/tensor_arguments.h"
#include "warptape/core/tensor_impl.h"

namespace wt {

class Tensor;

// One entry of an index list: an integer (drops the axis), a Slice, a tensor (i64 indices or a bool
// mask), `ellipsis` or `newaxis`.
class Index;
// What a write into a temporary, buf[i].copy_(x), gives back: the tensor, which may be left alone.
class Written;

// One entry by itself: x[mask].
class LoneIndex;

// Of operators that have a method form; their headers have what they are (autograd/ops.h).
class In;
class Operand;
struct AddcOptions;
struct AddmmOptions;
struct ClampOptions;
struct DiffOptions;
struct DivOptions;
struct IndexAddOptions;
struct IscloseOptions;
struct IstftOptions;
struct MultinomialOptions;
struct NanToNumOptions;
struct PlacedResult;
struct QrResult;
struct QuantileOptions;
struct ScatterReduceOptions;
struct SlogdetResult;
struct SortResult;
struct StftOptions;
struct UniqueResult;
enum class ScatterReduction : u8;

namespace detail {
[[noreturn]] WT_COLD WT_API void use_of_undefined(Frame at = {});
template <class T>
constexpr DType dtype_of_type();
// Waits for a copy that a device makes from or to this cpu tensor.
WT_API void wait_for_host_access(const TensorImpl* p);
}  // namespace detail

class WT_GUARD Tensor {
 public:
  // An undefined tensor: every use but assignment, `defined()` and destruction throws.
  Tensor() = default;
  WT_HOT Tensor(const Tensor& o) : p_(o.p_) {
    if (p_) retain(p_);
  }
  WT_HOT Tensor(Tensor&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  // Only lvalues can be assigned: `x[i] = v` does not compile (write with index_put_).
  WT_HOT Tensor& operator=(const Tensor& o) & {
    Tensor copy(o);
    std::swap(p_, copy.p_);
    return *this;
  }
  WT_HOT Tensor& operator=(Tensor&& o) & noexcept {
    Tensor moved(std::move(o));
    std::swap(p_, moved.p_);
    return *this;
  }
  WT_HOT ~Tensor() {
    if (p_) release(p_);
  }

  bool defined() const { return p_ != nullptr; }
  // The same object (not equal values).
  bool same_as(const Tensor& o) const { return p_ == o.p_; }

  Shape shape(Frame at = Frame::here()) const {
    const Geometry& g = geometry(at);
    return Shape(g.shape, g.ndim);
  }
  Shape strides(Frame at = Frame::here()) const {
    const Geometry& g = geometry(at);
    return Shape(g.strides, g.ndim);
  }
  int ndim(Frame at = Frame::here()) const { return geometry(at).ndim; }
  i64 numel(Frame at = Frame::here()) const { return geometry(at).numel; }
  // PyTorch's names of shape() and ndim().
  Shape size(Frame at = Frame::here()) const { return shape(at); }
  int dim(Frame at = Frame::here()) const { return ndim(at); }
  // Size of an axis; negative counts from the end. Throws ShapeError.
  WT_API i64 size(i64 axis, Frame at = Frame::here()) const;
  DType dtype(Frame at = Frame::here()) const { return geometry(at).dtype; }
  Device device(Frame at = Frame::here()) const { return device_of(checked(at)); }
  bool is_contiguous(Frame at = Frame::here()) const { return geometry(at).dense; }
  WT_API bool is_contiguous(MemoryFormat format, Frame at = Frame::here()) const;
  // Writes since the storage was made; shared by all views of one root.
  u32 version(Frame at = Frame::here()) const { return checked(at)->cell->version; }
  bool is_view(Frame at = Frame::here()) const { return (checked(at)->flags & kIsView) != 0; }

  // Elements in memory order from the first one; only for cpu tensors of this dtype: simt's memory
  // stands for a GPU's, and what reads it would break on one. Reading form. Throws DtypeError,
  // PlacementError.
  template <class T>
  const T* data(Frame at = Frame::here()) const {
    return static_cast<const T*>(
        host_data(detail::dtype_of_type<std::remove_cv_t<T>>(), false, at));
  }
  // Writing form: counts as a write (bumps the version).
  template <class T>
  T* mutable_data(Frame at = Frame::here()) const {
    return static_cast<T*>(host_data(detail::dtype_of_type<T>(), true, at));
  }
  // The value of a one-element tensor; waits for the device. Throws ShapeError, PlacementError on
  // meta, and DtypeError for an integer that no double is equal to (beyond 2^53): item<i64>() has
  // it.
  WT_API double item(Frame at = Frame::here()) const;
  // The same as a T: item<i64>(). Among floats it rounds; DtypeError for any other value that no T
  // is equal to. As bool: whether it is not zero.
  template <Number T>
  T item(Frame at = Frame::here()) const;
  // All elements in logical order, converted to T; waits for the device.
  template <class T>
  std::vector<T> to_vector(Frame at = Frame::here()) const;

  // --- gradients ---
  bool requires_grad(Frame at = Frame::here()) const { return checked(at)->node != nullptr; }
  // Makes this a leaf whose gradient is wanted (or stops that). Throws for integer dtypes and for
  // non-leaf tensors.
  WT_API Tensor& set_requires_grad(bool on = true, Frame at = Frame::here()) &;
  WT_API Tensor set_requires_grad(bool on = true, Frame at = Frame::here()) &&;
  // PyTorch's name of set_requires_grad().
  WT_API Tensor& requires_grad_(bool on = true, Frame at = Frame::here()) &;
  WT_API Tensor requires_grad_(bool on = true, Frame at = Frame::here()) &&;
  WT_API bool is_leaf(Frame at = Frame::here()) const;
  // The gradient of a leaf (or after retain_grad()), a tensor of its own; undefined when there is
  // none. After a TrainStep it is that of the sum of the losses, not of their mean. Throws
  // NumericError after a backward that threw and before zero_grad().
  WT_API Tensor grad(Frame at = Frame::here()) const;
  WT_API void set_grad(const Tensor& g, Frame at = Frame::here()) const;
  WT_API void zero_grad(Frame at = Frame::here()) const;
  // backward() also keeps the gradient of this tensor, which is no leaf, for grad(): after all its
  // hooks, added up over several backwards until zero_grad(). Nothing for leaves, which always keep
  // theirs. Throws UsageError for a tensor that needs no gradient.
  WT_API void retain_grad(Frame at = Frame::here()) const;
  // d this / d leaves, added into each leaf's grad. This must be one element, or `seed` given.
  WT_API void backward(BackwardOptions options = {}, Frame at = Frame::here()) const;
  WT_API void backward(const Tensor& seed, BackwardOptions options = {},
                       Frame at = Frame::here()) const;
  // The same elements, no gradient: a view.
  WT_API Tensor detach(Frame at = Frame::here()) const;

  // --- views (no copy; `&&` forms keep one owner) ---
  WT_API Tensor operator[](Position i) const&;  // select(0, i)
  WT_API Tensor operator[](Position i) &&;
  // x[{0, Slice{1, 3}, t}] reads; a list made at run time is a std::vector<Index>. Without a tensor
  // among the entries the result is a view, with one it is a copy (operator index() in
  // autograd/ops.h says what comes out).
  WT_API Tensor operator[](std::initializer_list<Index> at) const&;
  WT_API Tensor operator[](std::initializer_list<Index> at) &&;
  WT_API Tensor operator[](std::span<const Index> at) const&;
  WT_API Tensor operator[](std::span<const Index> at) &&;
  // One entry that is no integer: x[mask], x[rows], x[Slice{0, 2}].
  WT_API Tensor operator[](const LoneIndex& at) const&;
  WT_API Tensor operator[](const LoneIndex& at) &&;
  WT_API Tensor view(const Shape& shape, Frame at = Frame::here()) const&;
  WT_API Tensor view(const Shape& shape, Frame at = Frame::here()) &&;
  WT_API Tensor reshape(const Shape& shape, Frame at = Frame::here()) const&;
  WT_API Tensor reshape(const Shape& shape, Frame at = Frame::here()) &&;
  WT_API Tensor flatten(i64 first = 0, i64 last = -1, Frame at = Frame::here()) const&;
  WT_API Tensor flatten(i64 first = 0, i64 last = -1, Frame at = Frame::here()) &&;
  WT_API Tensor transpose(i64 a, i64 b, Frame at = Frame::here()) const&;
  WT_API Tensor transpose(i64 a, i64 b, Frame at = Frame::here()) &&;
  WT_API Tensor t(Frame at = Frame::here()) const&;  // last two axes swapped
  WT_API Tensor t(Frame at = Frame::here()) &&;
  WT_API Tensor permute(const Dims& order, Frame at = Frame::here()) const&;
  WT_API Tensor permute(const Dims& order, Frame at = Frame::here()) &&;
  WT_API Tensor expand(const Shape& shape, Frame at = Frame::here()) const&;
  WT_API Tensor expand(const Shape& shape, Frame at = Frame::here()) &&;
  WT_API Tensor squeeze(Frame at = Frame::here()) const&;
  WT_API Tensor squeeze(Frame at = Frame::here()) &&;
  WT_API Tensor squeeze(i64 axis, Frame at = Frame::here()) const&;
  WT_API Tensor squeeze(i64 axis, Frame at = Frame::here()) &&;
  WT_API Tensor unsqueeze(i64 axis, Frame at = Frame::here()) const&;
  WT_API Tensor unsqueeze(i64 axis, Frame at = Frame::here()) &&;
  WT_API Tensor select(i64 axis, i64 index, Frame at = Frame::here()) const&;
  WT_API Tensor select(i64 axis, i64 index, Frame at = Frame::here()) &&;
  WT_API Tensor slice(i64 axis, Slice range, Frame at = Frame::here()) const&;
  WT_API Tensor slice(i64 axis, Slice range, Frame at = Frame::here()) &&;
  WT_API Tensor narrow(i64 axis, i64 begin, i64 length, Frame at = Frame::here()) const&;
  WT_API Tensor narrow(i64 axis, i64 begin, i64 length, Frame at = Frame::here()) &&;
  // All windows of `size` elements, `step` apart, along an axis: they become the last axis.
  WT_API Tensor unfold(i64 axis, i64 size, i64 step, Frame at = Frame::here()) const&;
  WT_API Tensor unfold(i64 axis, i64 size, i64 step, Frame at = Frame::here()) &&;

  // --- copies ---
  WT_API Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous,
                           Frame at = Frame::here()) const;
  WT_API Tensor clone(Frame at = Frame::here()) const;
  WT_API Tensor to(Device d, Frame at = Frame::here()) const;
  WT_API Tensor to(DType t, Frame at = Frame::here()) const;
  WT_API Tensor to(Device d, DType t, Frame at = Frame::here()) const;
  WT_API Tensor to(MemoryFormat format, Frame at = Frame::here()) const;
  // to() a device: cuda:`index`, and the cpu.
  WT_API Tensor cuda(int index = 0, Frame at = Frame::here()) const;
  WT_API Tensor cpu(Frame at = Frame::here()) const;

  // --- method form of operators: what PyTorch has as methods (docs in autograd/ops.h) ---
  // x.exp() is exp(x); docs/methods.md lists them all. They read x: exp(std::move(x)) may work in
  // its storage, a method does not.
#define WT_METHOD(name) WT_API Tensor name(Frame at = Frame::here()) const;
  WT_UNARY_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name) WT_API Tensor name(const Operand& other) const;
  WT_BINARY_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name) WT_API Tensor name(const In& other) const;
  WT_PAIR_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name) WT_API Tensor name(Dim axis, Frame at = Frame::here()) const;
  WT_AXIS_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name)                                                       \
  WT_API Tensor name(const Dims& dims = Dims::all(), SumOptions options = {}, \
                     Frame at = Frame::here()) const;
  WT_REDUCTION_METHODS(WT_METHOD)
#undef WT_METHOD
  WT_API Tensor addcdiv(const In& a, const In& b) const;
  WT_API Tensor addcdiv(const In& a, const In& b, const AddcOptions& options) const;
  WT_API Tensor addcmul(const In& a, const In& b) const;
  WT_API Tensor addcmul(const In& a, const In& b, const AddcOptions& options) const;
  WT_API Tensor addmm(const In& a, const In& b) const;
  WT_API Tensor addmm(const In& a, const In& b, const AddmmOptions& options) const;
  WT_API bool allclose(const In& other) const;
  WT_API bool allclose(const In& other, const IscloseOptions& options) const;
  WT_API Tensor argsort(Dim axis = -1, SortOptions options = {}, Frame at = Frame::here()) const;
  WT_API Tensor bincount(i64 minlength = 0, Frame at = Frame::here()) const;
  WT_API Tensor broadcast_to(const Shape& shape, Frame at = Frame::here()) const;
  WT_API std::vector<Tensor> chunk(i64 chunks, i64 axis = 0, Frame at = Frame::here()) const;
  WT_API Tensor clamp(Scalar lo, Scalar hi, Frame at = Frame::here()) const;
  WT_API Tensor clamp(const ClampOptions& options, Frame at = Frame::here()) const;
  WT_API Tensor clamp(const In& lo, const In& hi) const;
  WT_API Tensor count_nonzero(const Dims& dims = Dims::all(), Frame at = Frame::here()) const;
  WT_API Tensor diag(i64 offset = 0, Frame at = Frame::here()) const;
  WT_API Tensor diag_embed(i64 offset = 0, i64 axis1 = -2, i64 axis2 = -1,
                           Frame at = Frame::here()) const;
  WT_API Tensor diagonal(i64 offset = 0, i64 axis1 = 0, i64 axis2 = 1,
                         Frame at = Frame::here()) const;
  WT_API Tensor diff(Frame at = Frame::here()) const;
  WT_API Tensor diff(const DiffOptions& options, Frame at = Frame::here()) const;
  WT_API Tensor div(const Operand& other, const DivOptions& options) const;
  WT_API bool equal(const In& other) const;
  WT_API Tensor expand_as(const Tensor& other, Frame at = Frame::here()) const;
  WT_API Tensor flip(const Dims& dims, Frame at = Frame::here()) const;
  WT_API Tensor gather(i64 axis, const In& index) const;
  WT_API Tensor hardshrink(double lambda = 0.5, Frame at = Frame::here()) const;
  WT_API Tensor index_add(i64 axis, const In& index, const In& source) const;
  WT_API Tensor index_add(i64 axis, const In& index, const In& source,
                          const IndexAddOptions& options) const;
  WT_API Tensor index_put(std::initializer_list<Index> at, const In& value,
                          IndexPutOptions options = {}) const;
  WT_API Tensor index_select(i64 axis, const In& index) const;
  WT_API Tensor isclose(const In& other, const IscloseOptions& options) const;
  WT_API Tensor istft(i64 n_fft, const IstftOptions& options, Frame at = Frame::here()) const;
  WT_API PlacedResult kthvalue(i64 k, Dim axis = -1, SumOptions options = {},
                               Frame at = Frame::here()) const;
  WT_API Tensor lerp(const In& end, const Operand& weight) const;
  WT_API Tensor masked_fill(const In& mask, const Operand& value) const;
  WT_API PlacedResult max_with_indices(Dim axis, SumOptions options = {},
                                       Frame at = Frame::here()) const;
  WT_API PlacedResult median(Dim axis, SumOptions options = {}, Frame at = Frame::here()) const;
  WT_API PlacedResult min_with_indices(Dim axis, SumOptions options = {},
                                       Frame at = Frame::here()) const;
  WT_API Tensor movedim(const Dims& source, const Dims& destination,
                        Frame at = Frame::here()) const;
  WT_API Tensor multinomial(i64 draws, Frame at = Frame::here()) const;
  WT_API Tensor multinomial(i64 draws, const MultinomialOptions& options,
                            Frame at = Frame::here()) const;
  WT_API Tensor nan_to_num(const NanToNumOptions& options, Frame at = Frame::here()) const;
  WT_API PlacedResult nanmedian(Dim axis, SumOptions options = {}, Frame at = Frame::here()) const;
  WT_API Tensor norm(double p = 2, const Dims& dims = Dims::all(), SumOptions options = {},
                     Frame at = Frame::here()) const;
  WT_API QrResult qr(Frame at = Frame::here()) const;
  WT_API Tensor quantile(double q, Dim axis, Frame at = Frame::here()) const;
  WT_API Tensor quantile(double q, Dim axis, const QuantileOptions& options,
                         Frame at = Frame::here()) const;
  WT_API Tensor repeat(const Shape& repeats, Frame at = Frame::here()) const;
  WT_API Tensor repeat_interleave(i64 repeats, Frame at = Frame::here()) const;
  WT_API Tensor repeat_interleave(i64 repeats, i64 axis, Frame at = Frame::here()) const;
  WT_API Tensor reshape_as(const Tensor& other, Frame at = Frame::here()) const;
  WT_API Tensor roll(const Dims& shifts, const Dims& dims = Dims::all(),
                     Frame at = Frame::here()) const;
  WT_API Tensor scatter(i64 axis, const In& index, const Operand& source) const;
  WT_API Tensor scatter_add(i64 axis, const In& index, const In& source) const;
  WT_API Tensor scatter_reduce(i64 axis, const In& index, const In& source,
                               ScatterReduction reduce) const;
  WT_API Tensor scatter_reduce(i64 axis, const In& index, const In& source, ScatterReduction reduce,
                               const ScatterReduceOptions& options) const;
  WT_API Tensor select_scatter(const In& source, i64 axis, i64 index) const;
  WT_API Tensor slice_scatter(const In& source, i64 axis, Slice range) const;
  WT_API SlogdetResult slogdet(Frame at = Frame::here()) const;
  WT_API SortResult sort(Dim axis = -1, SortOptions options = {}, Frame at = Frame::here()) const;
  WT_API SortResult sort(SortOptions options, Frame at = Frame::here()) const;
  WT_API std::vector<Tensor> split(i64 size, i64 axis = 0, Frame at = Frame::here()) const;
  WT_API std::vector<Tensor> split(const std::vector<i64>& sizes, i64 axis = 0,
                                   Frame at = Frame::here()) const;
  WT_API Tensor std(const Dims& dims = Dims::all(), VarOptions options = {},
                    Frame at = Frame::here()) const;
  WT_API Tensor stft(i64 n_fft, const StftOptions& options, Frame at = Frame::here()) const;
  WT_API Tensor sum_to_size(const Shape& shape, Frame at = Frame::here()) const;  // sum_to()
  WT_API Tensor tile(const Shape& repeats, Frame at = Frame::here()) const;
  WT_API SortResult topk(i64 k, Dim axis = -1, TopkOptions options = {},
                         Frame at = Frame::here()) const;
  WT_API SortResult topk(i64 k, TopkOptions options, Frame at = Frame::here()) const;
  WT_API Tensor tril(i64 k = 0, Frame at = Frame::here()) const;
  WT_API Tensor triu(i64 k = 0, Frame at = Frame::here()) const;
  WT_API std::vector<Tensor> unbind(i64 axis = 0, Frame at = Frame::here()) const;
  WT_API UniqueResult unique(Frame at = Frame::here()) const;
  WT_API Tensor var(const Dims& dims = Dims::all(), VarOptions options = {},
                    Frame at = Frame::here()) const;
  WT_API Tensor view_as(const Tensor& other, Frame at = Frame::here()) const;
  // where(condition, x, other).
  WT_API Tensor where(const In& condition, const Operand& other) const;

  // --- writing ---
  // Throw InplaceError while gradients are recorded on a view, on a tensor with live views, or on a
  // leaf that requires grad. A part is written through a view of it: buf[i].copy_(x).
#define WT_WRITES(name, ...)         \
  WT_API Tensor& name(__VA_ARGS__)&; \
  WT_API Written name(__VA_ARGS__)&&
  // The source's values, which broadcast, in this tensor's dtype and on its device.
  WT_WRITES(copy_, const Tensor& source, Frame at = Frame::here());
  WT_WRITES(fill_, Scalar value, Frame at = Frame::here());
  WT_WRITES(zero_, Frame at = Frame::here());
  // x = x + alpha * other, x - alpha * other, x * other, x / other; also as x += other and so on,
  // where other may be a loss too. The other operand broadcasts to x's shape and takes its dtype;
  // DtypeError where the result would be of a higher kind (bool, integer, floating), as quotients
  // of integers are.
  WT_WRITES(add_, const Tensor& other, AddOptions options = {}, Frame at = Frame::here());
  WT_WRITES(add_, Scalar number, Frame at = Frame::here());
  WT_WRITES(sub_, const Tensor& other, AddOptions options = {}, Frame at = Frame::here());
  WT_WRITES(sub_, Scalar number, Frame at = Frame::here());
  WT_WRITES(mul_, const Tensor& other, Frame at = Frame::here());
  WT_WRITES(mul_, Scalar number, Frame at = Frame::here());
  WT_WRITES(div_, const Tensor& other, Frame at = Frame::here());
  WT_WRITES(div_, Scalar number, Frame at = Frame::here());
  // x = x + weight * (end - x): lerp() in autograd/ops.h.
  WT_WRITES(lerp_, const Tensor& end, const Tensor& weight, Frame at = Frame::here());
  WT_WRITES(lerp_, const Tensor& end, Scalar weight, Frame at = Frame::here());
#define WT_IN_PLACE(name, ...)       \
  WT_API Tensor& name(__VA_ARGS__)&; \
  WT_API Tensor name(__VA_ARGS__)&&
  // Activations, in the storage of what they are given (docs in autograd/ops/pointwise.h). Where
  // the result does not tell the gradient they keep a copy while recording, or less in a SaveScope.
  WT_IN_PLACE(clamp_, Scalar lo, Scalar hi, Frame at = Frame::here());
  WT_IN_PLACE(elu_, double alpha = 1, Frame at = Frame::here());
  WT_IN_PLACE(gelu_, Frame at = Frame::here());
  WT_IN_PLACE(hardsigmoid_, Frame at = Frame::here());
  WT_IN_PLACE(hardswish_, Frame at = Frame::here());
  WT_IN_PLACE(leaky_relu_, double slope = 0.01, Frame at = Frame::here());
  WT_IN_PLACE(mish_, Frame at = Frame::here());
  WT_IN_PLACE(relu_, Frame at = Frame::here());
  WT_IN_PLACE(sigmoid_, Frame at = Frame::here());
  WT_IN_PLACE(silu_, Frame at = Frame::here());
  WT_IN_PLACE(softplus_, double beta = 1, double threshold = 20, Frame at = Frame::here());
  WT_IN_PLACE(tanh_, Frame at = Frame::here());
  // Dropout in place: the same draw and the same numbers as dropout().
  WT_IN_PLACE(dropout_, double p = 0.5, bool training = true, Frame at = Frame::here());
#undef WT_IN_PLACE
  // x[{...}] = value, which broadcasts. Where tensors in the list name an element twice the last
  // one counts; with accumulate (floats only) all are added, in an order that is fixed. Recorded as
  // index_put() if x or the value needs a gradient. Throws IndexError: on cpu before anything is
  // written; on other devices at the next wait, and what the bad index named is not written.
  WT_WRITES(index_put_, std::initializer_list<Index> at, const Tensor& value,
            IndexPutOptions options = {}, Frame where = Frame::here());
  WT_WRITES(index_put_, std::span<const Index> at, const Tensor& value,
            IndexPutOptions options = {}, Frame where = Frame::here());
  WT_WRITES(index_put_, std::initializer_list<Index> at, Scalar value, IndexPutOptions options = {},
            Frame where = Frame::here());
#undef WT_WRITES

  // --- internal ---
  WT_HOT explicit Tensor(TensorImpl* owned) : p_(owned) {}
  WT_HOT TensorImpl* impl() const { return p_; }
  WT_HOT TensorImpl* release_impl() {
    TensorImpl* p = p_;
    p_ = nullptr;
    return p;
  }
  // Moves the elements' home into an arena (contents are the caller's business): keeps the version.
  // Throws InplaceError, naming the line, if another live tensor views the storage.
  void rebind(Storage* storage, i64 byte_offset, VersionCell* cell) const;

 private:
  friend class In;
  const TensorImpl* checked(Frame at) const {
    if (!p_) [[unlikely]]
      detail::use_of_undefined(at);
    return p_;
  }
  const Geometry& geometry(Frame at) const { return checked(at)->geometry; }
  WT_API void* host_data(DType t, bool writing, Frame at) const;

  TensorImpl* p_ = nullptr;
};
static_assert(sizeof(Tensor) == sizeof(void*));

class Written : public Tensor {
 public:
  explicit Written(Tensor&& t) : Tensor(std::move(t)) {}
};

class Index {
 public:
  enum class Kind : u8 { integer, slice, tensor, ellipsis, newaxis };
  template <Integer T>
  Index(T i, Frame where = Frame::here())  // NOLINT
      : kind(Kind::integer), at(where), integer(Dim(i).value) {}
  Index(Slice s, Frame where = Frame::here())  // NOLINT
      : kind(Kind::slice), at(where), slice(s) {}
  Index(Tensor t, Frame where = Frame::here())  // NOLINT
      : kind(Kind::tensor), at(where), tensor(std::move(t)) {}
  Index(Ellipsis, Frame where = Frame::here()) : kind(Kind::ellipsis), at(where) {}  // NOLINT
  Index(NewAxis, Frame where = Frame::here()) : kind(Kind::newaxis), at(where) {}    // NOLINT
  Kind kind;
  Frame at;
  i64 integer = 0;
  Slice slice{};
  Tensor tensor{};
};

class LoneIndex {
 public:
  LoneIndex(Tensor t, Frame where = Frame::here()) : index(std::move(t), where) {}  // NOLINT
  LoneIndex(Slice s, Frame where = Frame::here()) : index(s, where) {}              // NOLINT
  LoneIndex(Ellipsis e, Frame where = Frame::here()) : index(e, where) {}           // NOLINT
  LoneIndex(NewAxis n, Frame where = Frame::here()) : index(n, where) {}            // NOLINT
  Index index;
};

// PyTorch's layout: nested brackets, 4 digits, summarised beyond 1000 elements, then dtype and
// device.
WT_API std::ostream& operator<<(std::ostream& out, const Tensor& t);
WT_API std::string to_string(const Tensor& t);
// Its name: "f32". (core/dtype.h is for device code too and knows no stream.)
WT_API std::ostream& operator<<(std::ostream& out, DType t);
// "[64, 3] f32 cpu": for messages.
WT_API std::string describe(const Tensor& t);

namespace detail {
template <class T>
constexpr DType dtype_of_type() {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 8   ? DType::i64
           : sizeof(T) == 4 ? DType::i32
           : sizeof(T) == 2 ? DType::i16
                            : DType::i8;
  else if constexpr (std::is_integral_v<T>)
    return sizeof(T) == 8   ? DType::u64
           : sizeof(T) == 4 ? DType::u32
           : sizeof(T) == 2 ? DType::u16
                            : DType::u8;
  else
    static_assert(sizeof(T) == 0, "not an element type");
}
WT_API void copy_out(const Tensor& t, DType as, void* destination, Frame at);
WT_API void item_out(const Tensor& t, DType as, void* value, Frame at);
}  // namespace detail

template <Number T>
T Tensor::item(Frame at) const {
  T value;
  detail::item_out(*this, detail::dtype_of_type<T>(), &value, at);
  return value;
}

template <class T>
std::vector<T> Tensor::to_vector(Frame at) const {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<u8> bytes(static_cast<size_t>(numel(at)));
    detail::copy_out(*this, DType::boolean, bytes.data(), at);  // anything but zero is true
    return std::vector<bool>(bytes.begin(), bytes.end());
  } else {
    std::vector<T> values(static_cast<size_t>(numel(at)));
    detail::copy_out(*this, detail::dtype_of_type<T>(), values.data(), at);
    return values;
  }
}

// Behind the error below; never defined. Of a Tensor alone: nothing is to be converted to one for
// it, least of all a std::ranges::subrange of tensors, which would come upon the error.
template <std::size_t I, std::same_as<Tensor> T>
T get(const T& t);

}  // namespace wt

// `auto [values, places] = max(x, 1)`: a tensor is one thing, and the error says what to write.
template <>
struct std::tuple_size<wt::Tensor> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, wt::Tensor> {
  static_assert(I == std::size_t(-1),
                "this is one tensor: the largest elements with their places are "
                "max_with_indices(x, axis), the least ones min_with_indices(x, axis)");
  using type = wt::Tensor;
};

// An owned handle of a CUDA library. Destructors never throw, and do nothing wrong when they run
// after the runtime was unloaded: errors are ignored there.
#pragma once
#include <utility>

namespace wt {

// Traits: using Type = a pointer type; static void destroy(Type) noexcept.
template <class Traits>
class CudaHandle {
 public:
  using Type = typename Traits::Type;
  CudaHandle() = default;
  explicit CudaHandle(Type owned) : p_(owned) {}
  CudaHandle(CudaHandle&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  CudaHandle& operator=(CudaHandle&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~CudaHandle() {
    if (p_) Traits::destroy(p_);
  }
  Type get() const { return p_; }
  Type release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  Type p_ = nullptr;
};

}  // namespace wt

// What std::unique_ptr is for a member of a public header, at a fraction of what the compiler takes
// for it: a unique_ptr of one more type costs every file that includes the header 1.4 MB, most of
// it for the tuple inside.
#pragma once
#include <cstddef>
#include <memory>

namespace wt {

template <class T>
class Owned {
 public:
  Owned() = default;
  Owned(std::nullptr_t) {}
  explicit Owned(T* p) : p_(p) {}
  template <class U>
  Owned(std::unique_ptr<U> p) : p_(p.release()) {}
  Owned(Owned&& o) noexcept : p_(o.release()) {}
  Owned& operator=(Owned&& o) noexcept {
    reset(o.release());
    return *this;
  }
  ~Owned() { reset(); }

  T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  T* release() noexcept {
    T* const p = p_;
    p_ = nullptr;
    return p;
  }
  void reset(T* p = nullptr) noexcept {
    static_assert(sizeof(T) > 0, "only where T is complete");
    T* const old = p_;
    p_ = p;
    delete old;
  }

 private:
  T* p_ = nullptr;
};

}  // namespace wt

// Device memory of simt for tests: an owning array with copies in and out.
#pragma once
#include <cstring>
#include <vector>

#include "warptape/kernels/simt/executor.h"

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n), data_(wt::simt_arena_alloc(n * sizeof(T))) {}
  explicit DeviceArray(const std::vector<T>& v) : DeviceArray(v.size()) {
    const wt::SimtUnprotect open;
    std::memcpy(data_, v.data(), n_ * sizeof(T));
  }
  ~DeviceArray() { wt::simt_arena_free(data_); }
  DeviceArray(const DeviceArray&) = delete;

  std::vector<T> host() const {
    std::vector<T> v(n_);
    const wt::SimtUnprotect open;
    std::memcpy(v.data(), data_, n_ * sizeof(T));
    return v;
  }
  T* data() const { return static_cast<T*>(data_); }
  operator T*() const { return data(); }

 private:
  size_t n_;
  void* data_;
};

// Sets options for a scope.
struct WithSimt {
  explicit WithSimt(wt::SimtOrder order, uint64_t seed = 1) : WithSimt() {
    wt::simt_options().order = order;
    wt::simt_options().seed = seed;
  }
  WithSimt() : before(wt::simt_options()) {}
  ~WithSimt() { wt::simt_options() = before; }
  wt::SimtOptions before;
};

// Launches that outlive their process: a contract's arguments, their type erased, as scalars and
// operands that a file can hold (autograd/saved_graph.h). What a file may say is bounded here: each
// scalar by its type, sizes and operands by what the contract promises of them, so that no kernel
// is launched on memory that it was not given. Host code only.
#pragma once
#include <concepts>
#include <memory>
#include <string_view>

#include "warptape/kernels/contract.h"

namespace wt::detail {

// Writes the scalars of arguments, or reads them: then each is set to what stands in the file.
class LaunchFields {
 public:
  virtual ~LaunchFields() = default;
  template <class... T>
  void operator()(T&... fields) {
    (field(fields), ...);
  }
  // An enum with `count` values from 0 on.
  template <class E>
  void choice(E& e, int count) {
    u64 v = u64(e);
    limited(v, u64(count - 1));
    e = E(v);
  }

 private:
  virtual void integer(i64& v) = 0;
  virtual void real(double& v) = 0;
  virtual void limited(u64& v, u64 most) = 0;  // a reader refuses what is more

  void field(i64& v) { integer(v); }
  void field(double& v) { real(v); }
  void field(DType& t) { choice(t, kNumDTypes); }
  template <class T>
  requires std::same_as<T, bool> || std::same_as<T, u8> || std::same_as<T, u32> ||
      std::same_as<T, int>
  void field(T& n) {
    constexpr u64 kMost = std::same_as<T, bool> ? 1 : std::same_as<T, u8> ? 0xFF : 0x7FFFFFFF;
    u64 v = u64(n);
    limited(v, kMost);
    n = T(v);
  }
};

// Gets a contract's line of kernels/dispatch/run_operands.h: looks at the operands, or sets them.
class LaunchOperands {
 public:
  virtual ~LaunchOperands() = default;
  template <std::same_as<View>... V>
  LaunchOperands& out(V&... views) {
    (view(views, true), ...);
    return *this;
  }
  template <std::same_as<View>... V>
  LaunchOperands& in(V&... views) {
    (view(views, false), ...);
    return *this;
  }
  LaunchOperands& out(void*& data, i64 elements, DType t) {
    memory(data, elements, t, true);
    return *this;
  }
  LaunchOperands& in(void*& data, i64 elements, DType t) {
    memory(data, elements, t, false);
    return *this;
  }
  LaunchOperands& in(const void*& data, i64 elements, DType t) {
    memory(const_cast<void*&>(data), elements, t, false);
    return *this;
  }

 private:
  virtual void view(View& v, bool written) = 0;
  // `elements` from the first to the last one.
  virtual void memory(void*& data, i64 elements, DType t, bool written) = 0;
};

// The arguments of one launch.
class AnyLaunch {
 public:
  virtual ~AnyLaunch() = default;
  virtual const char* contract() const = 0;
  virtual void fields(LaunchFields& f) = 0;
  virtual void operands(LaunchOperands& o) = 0;  // behind the fields, and only if these are sound
  // Null, or what is wrong with them, before and after the operands are known.
  virtual const char* why_not_fields() const = 0;
  virtual const char* why_not() const = 0;
  // Kernels that look at indices are told where bad ones are reported.
  virtual void report_to(MailboxRecord* mailbox, u32 op_id) = 0;
  // Throws NotAvailable where no variant of the device takes the arguments.
  virtual void check(const Device& d, const OpInfo* op) const = 0;
  virtual void run(const Launch& l) const = 0;
};
// A copy of `args`, which points to what they point to; null: default arguments. Null is returned
// for contracts that cannot be saved.
std::unique_ptr<AnyLaunch> any_launch(std::string_view contract, const void* args);

// Elements and the way to the last one stay below this, so that bytes can be counted.
inline constexpr i64 kMostSavedElements = i64{1} << 47;
struct SavedAxis {
  i64 size, stride;
};
// Sizes and strides are not negative and the elements can be counted.
bool sound_axes(std::initializer_list<SavedAxis> axes);
bool sound_geometry(const Geometry& g);

}  // namespace wt::detail

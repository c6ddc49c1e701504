// What the library throws. It never prints, never exits, never leaves half-changed state.
//
// what() is "<Kind>: [operator] requirement: both conflicting numbers", then one indented line an
// operand (name, shape, dtype, device), then the user's source line, then at most one "Try" line.
// The wording is part of the interface and tested.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include "warptape/core/macros.h"
#include "warptape/core/str.h"

namespace wt {

// Base of everything thrown here. `exit_code()` is what the `wt` tool returns for it.
class WT_API Error : public std::runtime_error {
 public:
  Error(const char* kind, int exit_code, const std::string& message)
      : std::runtime_error(std::string(kind) + ": " + message), kind_(kind), code_(exit_code) {}
  const char* kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return code_; }

 private:
  const char* kind_;
  int code_;
};

// One concrete type: its name is its kind, `exit_code` its process exit code. The second
// constructor is for types derived from it.
#define WT_ERROR_TYPE(Name, Base, code)                                       \
  class WT_API Name : public Base {                                           \
   public:                                                                    \
    explicit Name(const std::string& message) : Base(#Name, code, message) {} \
                                                                              \
   protected:                                                                 \
    Name(const char* kind, int exit_code, const std::string& message)         \
        : Base(kind, exit_code, message) {}                                   \
  }

WT_ERROR_TYPE(UsageError, Error, 2);           // the caller asked for something impossible
WT_ERROR_TYPE(ShapeError, UsageError, 2);      // sizes, ranks, axes that do not fit
WT_ERROR_TYPE(DtypeError, UsageError, 2);      // element types that do not fit
WT_ERROR_TYPE(IndexError, UsageError, 2);      // an index, label or token outside its range
WT_ERROR_TYPE(PlacementError, UsageError, 2);  // operands on different or missing devices
WT_ERROR_TYPE(InplaceError, UsageError, 2);    // writing over what somebody still needs
WT_ERROR_TYPE(NotAvailable, Error, 2);         // a part that this build or machine lacks
WT_ERROR_TYPE(DataError, Error, 3);            // a file's content: path and byte offset
WT_ERROR_TYPE(OutOfMemory, Error, 4);          // nothing was changed
WT_ERROR_TYPE(NumericError, Error, 5);         // NaN or inf where the policy says stop
WT_ERROR_TYPE(DeviceError, Error, 6);          // the hardware or its driver, nothing else
WT_ERROR_TYPE(CheckpointError, Error, 8);      // an output that cannot be written or read back
WT_ERROR_TYPE(InternalError, Error, 1);        // our bug
#undef WT_ERROR_TYPE

// Another rank died, hung, came too late or disagrees; what is known of it. Exit code 7.
class WT_API PeerFailure : public Error {
 public:
  explicit PeerFailure(const std::string& message) : Error("PeerFailure", 7, message) {}
  PeerFailure(const std::string& message, int rank, std::string host, long long last_step,
              std::string reason)
      : Error("PeerFailure", 7, message),
        rank(rank),
        last_step(last_step),
        host(std::move(host)),
        reason(std::move(reason)) {}

  int rank = -1;             // the one that failed; -1: not known
  long long last_step = -1;  // that it was heard to begin; -1: none
  std::string host;          // where it ran
  std::string reason;        // "died", "sent nothing for 120 s", ...
};

// For states that only a bug of ours can reach.
#define WT_INTERNAL_ASSERT(condition)                               \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::wt::internal_assert_failed(#condition, __FILE__, __LINE__); \
  } while (false)
[[noreturn]] WT_COLD WT_API void internal_assert_failed(const char* what, const char* file,
                                                        int line);

}  // namespace wt

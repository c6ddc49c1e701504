// The file of first uses of one device: what was tried there, a line each, appended as it happens,
// so that a process that a kernel took down has left the name. Host code only.
#pragma once
#include <map>
#include <set>
#include <string>

#include "warptape/core/device_type.h"
#include "warptape/core/dtype.h"
#include "warptape/core/error.h"
#include "warptape/core/types.h"

namespace wt::detail {

// What a variant was tried at.
struct TriedKind {
  std::string contract, variant;
  DType dtype;
  u32 size;  // size_class()
  u32 layout;
};

// Not for several threads at once.
class FirstUseFile {
 public:
  // Reads what this build found on the device; the file of another build begins anew. No file: what
  // is found is kept for this process alone. Nothing is written yet. UsageError where WT_FIRST_USE
  // names what cannot be used; else one that cannot be is named in a warning.
  explicit FirstUseFile(Device d);

  const std::string& path() const { return path_; }  // "": none
  bool agreed(const TriedKind& k) const { return agreed_.contains(text_of(k)); }
  // Why the variant is off: "" where it is not.
  std::string off(const std::string& contract, const std::string& variant) const;
  i64 count_agreed() const { return i64(agreed_.size()); }
  i64 count_off() const { return i64(off_.size()); }

  // Around a launch, which may end the process; a verdict follows.
  void trying(const TriedKind& k);
  void ran(const TriedKind& k);
  void put_agreed(const TriedKind& k);
  void put_off(const TriedKind& k, const std::string& why);

 private:
  static std::string text_of(const TriedKind& k);
  bool read();
  void begin_anew();
  void cannot_keep(const Error& e);
  void append(const std::string& line);

  std::string path_, header_;
  bool asked_for_ = false, begin_anew_ = false;
  std::set<std::string> agreed_;                                    // text_of()
  std::map<std::pair<std::string, std::string>, std::string> off_;  // contract, variant: why
};

}  // namespace wt::detail

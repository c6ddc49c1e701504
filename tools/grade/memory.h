// Device memory of a case in the program that a student's kernel is linked into: each operand has a
// block of its own, whose ends the race checker and AddressSanitizer know, between canaries.
// Internal.
#pragma once
#include <vector>

#include "warptape/tools/grade/case.h"

namespace wt::grade {

class CaseMemory {
 public:
  CaseMemory() = default;
  CaseMemory(const CaseMemory&) = delete;
  ~CaseMemory() { drop(); }

  // New blocks for this case, of the stream.
  void make(const Case& c, void* stream);
  // Gives them back; waits for queued work.
  void drop();
  bool fits(const Case& c) const;

  // Copies queued on the stream where streams are lazy, else made now.
  void write(const std::vector<std::vector<u8>>& images, void* stream);
  // The images with the canaries on both sides.
  void read(std::vector<std::vector<u8>>& images, void* stream);

  const View* views() const { return views_; }

 private:
  void fill_canaries();
  Case case_{};
  std::vector<void*> blocks_;  // null: absent
  void* sentinel_ = nullptr;   // before the first
  View views_[kMostOperands]{};
};

}  // namespace wt::grade

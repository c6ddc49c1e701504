// A progress line of bytes: MiB (of little KiB), their rate and what is left.
#pragma once
#include <string>

#include "warptape/core/progress.h"
#include "warptape/tools/wt/training/run_signals.h"

namespace wt::tools {

// Thrown out of a long reading by Ctrl-C; whoever catches it returns signals.exit_code().
struct Interrupted {};

class ByteProgress {
 public:
  ByteProgress(std::string desc, u64 total, const RunSignals& signals)
      : shift_(total >> 24 ? 20 : 10),
        line_({.desc = std::move(desc),
               .total = i64(total >> shift_),
               .unit = shift_ == 20 ? "MiB" : "KiB"}),
        signals_(signals) {}
  // `more` bytes are done. Throws Interrupted once the user wants to end.
  void add(u64 more) {
    if (signals_.stop_requested()) throw Interrupted{};
    bytes_ += more;
    line_.update(i64(bytes_ >> shift_) - line_.count());
  }
  void close() { line_.close(); }
  double seconds() const { return line_.elapsed(); }
  u64 bytes() const { return bytes_; }

 private:
  int shift_;
  Progress line_;
  const RunSignals& signals_;
  u64 bytes_ = 0;
};

}  // namespace wt::tools

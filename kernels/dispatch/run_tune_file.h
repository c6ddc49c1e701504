// The file that `wt tune` writes about one device: a row for each variant that was tried at some
// size, whether its values are right, and how long it takes. kernels/dispatch/run_tuned.h has what
// `run` makes of it. Host code only.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/device_type.h"
#include "warptape/core/types.h"

namespace wt {

enum class TuneVerdict : u8 {
  right,    // agrees with the cpu's reference, and with itself
  wrong,    // values differ from the reference's
  unequal,  // right, but repeated launches differ in a bit though the variant is called
            // deterministic
  failed,   // threw, or the process that tried it ended
};
const char* tune_verdict_name(TuneVerdict v);

struct TuneRow {
  std::string contract, dtype;
  std::string size;   // which of the contract's sizes: "small", "host 0", "real 1"
  std::string shape;  // the same in words
  std::string variant;
  i64 bytes = 0;
  TuneVerdict verdict = TuneVerdict::right;
  double median_us = 0, spread = 0;  // 0: not timed. spread: (p90 - p10) / median
  double fraction = 0;               // of the time that `bound` allows; 0: not known
  std::string bound = {};            // "copy", "gemm"
};

struct TuneFile {
  std::string device, driver, runtime, version, date;
  double copy_gb_s = 0;   // what a copy within the device reaches; 0: not measured
  bool complete = false;  // not stopped halfway
  std::vector<TuneRow> rows = {};

  // A text with a line a row, columns separated by tabs, and the number of rows at its end.
  std::string text() const;
  // DataError that names `source` for anything that is not such a text.
  static TuneFile parse(const std::string& text, const std::string& source);
};

// The file of `d` at `path`. DataError where there is none, or it is of another device.
TuneFile read_tune_file(Device d, const std::string& path);

// Rows that benchmark() has added (kernels/dispatch/run_benchmark.h): `size` is this, the layout of
// the arguments, their sizes as one number, and " high" where f32 products may be rounded; `shape`
// is the build that timed them. They hold at their bytes alone.
inline constexpr const char* kTimedAtFirstUse = "first use ";
bool timed_at_first_use(const TuneRow& r);

// Name of the device that the file of `d` has to be of.
std::string tune_device_name(Device d);
// Where the file of `d` lies; "" where there is no folder for it.
std::string tune_path(Device d);
// For `wt info`: the file in force for `d` and its age, or why there is none.
std::string describe_tuning(Device d);

}  // namespace wt

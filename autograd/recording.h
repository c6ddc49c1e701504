// What record::Recorder (autograd/recorder.h) has written of a run, read back: docs/run_diff.md has
// the format.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "warptape/core/geometry.h"
#include "warptape/core/input_file.h"
#include "warptape/core/parse_limits.h"

namespace wt::record {

inline constexpr int kSketch = 64, kSamples = 4;

// Of one tensor's values, in logical order, whatever its strides. What is not finite counts in
// `hash` and `nonfinite` alone.
struct Digest {
  u64 hash = 0;       // of the bits: equal bits have equal hashes, others practically never
  i64 nonfinite = 0;  // elements that are NaN or infinite
  double mean = 0, rms = 0, largest = 0;  // largest: magnitude
  // Element i is added to number i mod 64 with a sign that i alone decides. So the sketch of a
  // difference is the difference of the sketches, and the root of the sum of its squares estimates
  // the difference's 2-norm (within some 15 %) without either tensor being there.
  std::array<double, kSketch> sketch{};
  std::array<double, kSamples> samples{};  // elements (n - 1) k / 3
};
// `data`: where the first element lies, in host memory. Any dtype.
WT_API Digest digest_of(const void* data, const Geometry& g);

enum class What : u8 {
  result,    // of an operator
  gradient,  // what a node's backward has left at one of its inputs
  noted      // Recorder::note()
};

struct Entry {
  What what = What::result;
  bool backward = false;  // made within a backward
  bool sum = false;       // a gradient to which others' shares had been added before
  DType dtype = DType::f32;
  u16 index = 0;  // the operator's output, or the node's input
  // Of Step::strings. op: operator, or the name of what was noted; inside: in a backward the
  // operator whose backward it is; line: "net.cpp:57"; kernel: "matmul:tiled", the last that ran.
  u32 op = 0, inside = 0, module = 0, line = 0, kernel = 0;
  std::vector<i64> shape{};
  Digest digest{};

  i64 numel() const {
    i64 n = 1;
    for (const i64 s : shape) n *= s;
    return n;
  }
};

// Everything recorded of one step, in the order in which it was made.
struct Step {
  i64 number = 0;
  std::vector<std::string> strings{};
  std::vector<Entry> entries{};

  const std::string& text(u32 of) const { return strings[of]; }
};

struct RecordingHeader {
  int rank = 0, ranks = 1;
  i64 every = 1;
  std::string label{};  // "charlm on cpu, f32": Recorder's option
};

// Reads step after step; what it holds in memory is one of them. DataError, with file and byte, for
// what is no recording and for damage. The end of a file that was cut off in the middle of a step
// (its writer was killed) is an end.
class WT_API RecordingFile {
 public:
  explicit RecordingFile(const std::string& path, const ParseLimits& limits = {});
  const std::string& path() const { return file_.path(); }
  const RecordingHeader& header() const { return header_; }
  // False at the end.
  bool next(Step& step);
  // At the end: the last step is there in part, and left out.
  bool cut_off() const { return cut_off_; }
  u64 offset() const { return at_; }  // of the next step

 private:
  void read_header();

  InputFile file_;
  ParseLimits limits_;
  RecordingHeader header_{};
  u64 at_ = 0;
  i64 last_ = -1;
  bool cut_off_ = false;
};

// --- for the Recorder ---
std::string header_bytes(const RecordingHeader& h);
std::string step_bytes(const Step& s);

}  // namespace wt::record

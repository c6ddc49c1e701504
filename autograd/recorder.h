// What a run computes, step by step, in a file that another run's can be laid beside: wt diff A B
// says where two runs first part (docs/run_diff.md).
//
//   record::Recorder recorder{"runs/a/tensors.wtd", {.every = 10}};
//   for (i64 n = 1; loader.next(batch); ++n)
//     recorder.step(n, [&] { train(batch); });
//
// Of every operator's result and every gradient that a backward node hands on, in the steps that
// are recorded: a hash of the bits, dtype, shape, mean, root mean square, largest magnitude, how
// many are not finite and a sketch of 64 numbers, under operator, module, line, kernel variant,
// forward or backward. That is about 0.7 KiB each. Nothing is computed differently: no operator
// runs for it, no version, random number or graph changes.
//
// It is about the thread that records; ranks have a Recorder and a file each. Values are looked at
// on the host, for which a device is waited for and copied from: in recorded steps alone. A
// TrainStep with a graph runs recorded steps eagerly; what another capture() replays is not seen,
// nor are tensors inside of vmap() and on meta.
#pragma once
#include <memory>
#include <string>
#include <type_traits>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

class Tensor;

namespace record {

struct RecorderOptions {
  i64 every = 1;  // recorded are step 1 and the steps that this divides
  int rank = 0, ranks = 1;
  // The steps before this one stay in a file that is there, later ones are cut off: for a run that
  // goes on. 0: the file begins anew.
  i64 keep_before = 0;
  std::string label{};  // shown by wt diff: "charlm on cpu, f32"
};

class WT_API Recorder {
 public:
  // UsageError for an `every` below 1; CheckpointError where the file cannot be written, DataError
  // where one to go on with is no recording.
  explicit Recorder(const std::string& path, const RecorderOptions& options = {});
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool counts(i64 step) const;
  // Runs f() as this step, recorded if it is one that counts, and returns what it returns. Where
  // f() throws, what it has done so far is written. CheckpointError: what was recorded could not be
  // written; the file is as it was before the step. UsageError: another Recorder records on this
  // thread, or a capture, or the number is not above the last one's.
  template <class F>
  decltype(auto) step(i64 number, F&& f) {
    begin(number);
    const Unfinished rest{*this};
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      f();
      end();
    } else {
      decltype(auto) result = f();
      end();
      return result;
    }
  }
  // The same in two halves. abandon() is end() for who is on the way out: it throws nothing.
  void begin(i64 step);
  void end();
  void abandon() noexcept;
  // In a recorded step: t under a name of the caller's, as parameters before the step; else
  // nothing.
  void note(const std::string& name, const Tensor& t);
  bool recording() const;

 private:
  struct Unfinished {
    Recorder& r;
    ~Unfinished() { r.abandon(); }
  };
  class Work;
  std::unique_ptr<Work> work_;
};

// Whether this thread's results are being recorded.
WT_API bool recording() noexcept;

}  // namespace record
}  // namespace wt

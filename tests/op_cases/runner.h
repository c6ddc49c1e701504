// Walks the table of cases: every sample x dtype x layout x device x variant.
//
// A failure prints how to run that case alone:
//   WT_OPTEST='--op softmax --sample 2 --dtype f16 --layout t --seed 991 --device simt
//              --variant softmax_forward:naive' wt_tests '[ops]'
// Parts may be left out: all that fit are run. --shape 3,257 picks by the first input's shape.
// WT_TEST_DEVICES=cpu,simt,cuda names the devices; without it all that are there.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

// c: contiguous; t: last two axes swapped in memory; s: every third element; e: the first axis that
// has more than one element is expanded; f: steps of more than 2^31 elements along one axis (cpu,
// in memory that is reserved and hardly touched).
inline constexpr const char* kLayouts = "ctsef";

struct Case {
  const OpCase* row;
  int sample;
  DType dtype;
  char layout;
  u64 seed;
  const Sample& call() const { return row->samples[size_t(sample)]; }
};
struct Place {
  Device device;
  std::string variant;  // "contract:name"; empty: what `run` chooses
};
// Far layouts are for the cpu: no other device has the room.
bool runs_on(const Case& c, Device d);
// False while kernels of the row are missing on a device: what runs there is then no test of it.
bool has_kernels(const OpCase& row, Device d);
// "" or the operators whose kernels this build lacks even on the cpu (LAPACK): what tests say when
// they are skipped.
std::string missing_on_cpu();
std::string reproducer(const Case& c, const Place& p);

// What WT_OPTEST asks for; everything without it.
struct Selection {
  std::map<std::string, std::string> wanted;
  bool all() const { return wanted.empty(); }
  bool fits(const std::string& key, const std::string& value) const {
    const auto w = wanted.find(key);
    return w == wanted.end() || w->second == value;
  }
};
const Selection& selection();

const OpInfo* info_of(const std::string& op);
std::vector<Device> test_devices();
// All cases of a row, whatever the device: their number is what `wt ops` prints.
std::vector<Case> all_cases(const OpCase& row);
// "contract:name" for each variant of the row's contracts on a device, after "" for the default.
std::vector<std::string> variants_of(const OpCase& row, Device d);

// Values against the oracle and gradients against the cpu's in f64. Returns what is wrong, or "".
// `refused`: the variant does not take these arguments; `lacks`: because driver or build have not
// what it needs, whatever the arguments.
struct Outcome {
  std::string wrong;
  bool refused = false;
  bool missing = false;  // not all kernels that a gradient needs are built on this device
  bool lacks = false;
};
Outcome run_case(const Case& c, const Place& p);

// Finite differences, first and second, on the cpu in f64, of at most so many samples. Returns what
// is wrong, or "".
struct Derivatives {
  int proved = 0;  // 0, 1 or 2
  std::string wrong;
};
inline constexpr int kAllSamples = 1 << 30;
Derivatives check_derivatives(const OpCase& row, int most = kAllSamples);

// The text of tools/op_facts.inc: what these checks prove, for `wt ops`.
std::string op_facts();

}  // namespace wt_test

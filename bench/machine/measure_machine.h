// What a machine can do, figure by figure: behind `wt bench machine`, whose file core/machine.h
// reads.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/core/machine.h"

namespace wt::bench {

struct MachineOptions {
  std::vector<Device> devices{Device::cpu()};
  std::string disk = ".";         // a folder on the disk to be measured
  i64 disk_bytes = i64{1} << 30;  // of the file, at most what three seconds write
  double seconds = 0.3;           // of one measurement, about
  i64 copy_bytes = 0,
      matrix = 0;  // of copies and transfers, n of products; 0: what suits the device
  int ranks = 0;   // threads of the all-reduce; 0: two to four, as there are processors
  std::vector<std::string> only{};  // parts, of machine_parts(); empty: all
};
// "disk", "copy", "transfer", "product", "launch", "allreduce".
std::vector<std::string> machine_parts();

// Each figure as it comes; of what cannot be measured a figure of value 0 whose note says why.
// Where ranks are processes (mpirun) all of them take part in the all-reduce and the first one
// alone measures the rest: false on the others.
bool measure_machine(const MachineOptions& o, const std::function<void(machine::Figure)>& each);

// What a device is called in the file, and whether it stands in for a GPU.
machine::MeasuredDevice describe_measured(Device d);

// The file's content after a measurement: of what was measured now the new figures, of other
// devices the ones that it had, if it is of this machine.
machine::Measured merged(const machine::Known& before, const MachineOptions& o,
                         const std::vector<machine::Figure>& now);

}  // namespace wt::bench

// What this machine can do, as `wt bench machine` has measured it and kept it in a file.
//
//   const machine::Known known = machine::measured();
//   if (known.there()) std::cout << known.figures.copy_gb_s(Device::cpu()) << " GB/s\n";
//   else std::cout << known.why_not << "\n";                // "... wt bench machine makes it"
//
// The file lies in the user's cache folder ($XDG_CACHE_HOME/warptape or ~/.cache/warptape), one a
// kind of machine; WT_MACHINE names another one, or is "off". It is text, a figure a line, in units
// of powers of 1000.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/dtype.h"

namespace wt::machine {

struct Figure {
  std::string place{};  // "cpu", "simt", "cuda:0"; "disk"
  // "copy", "to device", "to host", "product", "launch", "all-reduce", "read", "write"
  std::string what{};
  std::string how{};  // "pinned", "pageable", "cold", "warm", "tf32", "back to back"; may be empty
  std::string dtype{};  // of products
  double value = 0;     // in the median
  double spread = 0;    // (p90 - p10) / median
  std::string unit{};   // "GB/s", "GFLOP/s", "us"
  i64 size = 0;         // bytes; of products n, which are of [n, n] x [n, n]; of launches 1
  std::string note{};   // what has to be known: "not cold: ...", "host time of the executor"
};

struct MeasuredDevice {
  std::string place{}, name{};  // "cuda:0", "NVIDIA H200"
  bool stands_in = false;  // simt, or emulated: its times are the host's and say nothing of a GPU
};

struct WT_API Measured {
  std::string processor{};
  int processors = 0;     // logical ones that the measuring process could use
  i64 memory_bytes = 0;   // of the host
  std::string version{};  // of warptape
  std::string date{};     // "2026-11-29 08:30:00 UTC"
  std::vector<MeasuredDevice> devices{};
  std::vector<Figure> figures{};

  // The first one that fits; an empty `how` or `dtype` fits all. Null: none.
  const Figure* find(const std::string& place, const std::string& what, const std::string& how = "",
                     const std::string& dtype = "") const;

  // What follows is 0 where it was not measured, and of cuda where another GPU has the number now.
  // Bytes that a copy within the device's memory reads and writes: the roof of what moves bytes.
  double copy_gb_s(Device d) const;
  // Of a product of matrices, in which a multiplication and an addition are two FLOPs. tf32: of f32
  // matrices under set_matmul_precision(MatmulPrecision::high).
  double product_gflop_s(Device d, DType t, bool tf32 = false) const;
  double to_device_gb_s(Device d, bool pinned) const;
  double to_host_gb_s(Device d, bool pinned) const;
  // Time between two launches of the smallest kernel when many are queued.
  double launch_us(Device d) const;
  // Of the disk under the folder that was measured last. Cold: none where the system kept the file
  // in memory all the same.
  double disk_read_gb_s(bool cold) const;
  // The device's times are those of a stand-in for a GPU.
  bool stands_in(Device d) const;

  // The file's text, with a check sum at its end.
  std::string text() const;
  // DataError that names `source` for anything that is not such a text.
  static Measured parse(const std::string& text, const std::string& source);
};

struct Known {
  Measured figures{};  // empty where there are none
  std::string path{}, why_not{};
  bool there() const { return why_not.empty(); }
};

// Reads the file. One that is damaged, of another version or of another machine is not used:
// why_not says which, and a warning does once a process.
WT_API Known measured();

// Where the file is, or will be; "" where there is no place for it (WT_MACHINE=off, no home).
WT_API std::string measured_file();
// Puts `m` there, at once and as a whole. Throws CheckpointError where that cannot be written and
// UsageError where there is no place.
WT_API void keep_measured(const Measured& m);
// Without figures: what the file says of this machine.
WT_API Measured this_machine();
// In what `m` is of another machine than this; empty: it is of this one.
WT_API std::string differs_from_here(const Measured& m);

}  // namespace wt::machine

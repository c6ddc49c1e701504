// The devices that kernel tests walk: WT_TEST_DEVICES=cpu,simt,cuda, or cpu and simt.
#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/kernels/simt/executor.h"

namespace wt_test {

// Whether a walk over many cases is taken whole. An instrumented flavour and the emulated device,
// ten to a hundred times as slow, are there for accesses, races and PTX: they take cases that
// differ in those, and numbers are left to the plain flavour.
inline bool whole_walk() {
  static const bool emulated = std::getenv("WT_EMU_SUMMARY") != nullptr;
  return !emulated && wt::simt_flavour() == std::string("plain");
}

// Throws for a name that is no device, and NotAvailable for one that is named and not there: a gate
// that asks for cuda must not pass without it.
inline std::vector<wt::Device> kernel_devices() {
  const char* wanted = std::getenv("WT_TEST_DEVICES");
  std::string text = wanted && *wanted ? wanted : "cpu,simt";
  std::vector<wt::Device> devices;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = text.find(',', begin) == text.npos ? text.size() : text.find(',', begin);
    const wt::Device d = wt::Device::parse(text.substr(begin, end - begin).c_str());
    wt::require_available(d);
    devices.push_back(d);
    begin = end + 1;
  }
  return devices;
}

}  // namespace wt_test

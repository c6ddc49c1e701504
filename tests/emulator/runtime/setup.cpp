// The settings of these tests; a seed that the environment gives stays.
#include <cstdlib>

namespace {

const bool set = [] {
  setenv("WT_EMU_CHECK", "report", 1);
  setenv("WT_EMU_DEVICES", "2", 1);
  setenv("WT_EMU_MEMORY", "256M", 1);
  return true;
}();

}  // namespace

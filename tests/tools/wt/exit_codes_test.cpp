#include "warptape/tools/wt/exit_codes.h"

#include <new>

#include "warptape/tests/support/catch.h"

using namespace wt::tools;

TEST_CASE("every kind of error has its exit code") {
  CHECK(exit_code_of(wt::ShapeError("x")) == kExitUsage);
  CHECK(exit_code_of(wt::NotAvailable("x")) == kExitUsage);
  CHECK(exit_code_of(wt::DataError("x")) == kExitData);
  CHECK(exit_code_of(wt::OutOfMemory("x")) == kExitMemory);
  CHECK(exit_code_of(std::bad_alloc()) == kExitMemory);
  CHECK(exit_code_of(wt::NumericError("x")) == kExitNumeric);
  CHECK(exit_code_of(wt::DeviceError("x")) == kExitDevice);
  CHECK(exit_code_of(wt::PeerFailure("x")) == kExitPeer);
  CHECK(exit_code_of(wt::CheckpointError("x")) == kExitOutput);
  CHECK(exit_code_of(wt::InternalError("x")) == kExitBug);
  CHECK(exit_code_of(std::runtime_error("x")) == kExitBug);
}

// NCCL as a library that may be there or not.
#include <cstring>
#include <fstream>

#include "warptape/dist/nccl/nccl_api.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_nccl.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::dist;
using wt_test::Environment;
using wt_test::FakeNccl;

namespace {

void* some(const char*) {
  static int library;
  return &library;
}
void* none(const char*) { return nullptr; }
void* fakes(void*, const char* name) { return FakeNccl::symbol(name); }

std::string why_not(const LibraryLoader& loader) {
  const NcclFound found = find_nccl(loader);
  CHECK(found.api == nullptr);
  return found.why_not;
}

}  // namespace

TEST_CASE("nccl: a library that is absent, too old, or none says so") {
  const auto no_symbol = [](void*, const char*) -> void* { return nullptr; };
  const auto old = [](void*, const char*) -> void* {
    return reinterpret_cast<void*>(+[](int* v) {
      *v = 21705;
      return 0;
    });
  };
  const auto ancient = [](void*, const char*) -> void* {
    return reinterpret_cast<void*>(+[](int* v) {
      *v = 2804;
      return 0;
    });
  };
  {
    const Environment unset("WT_NCCL", nullptr), root("NCCL_ROOT", nullptr);
    CHECK(why_not({none, fakes}) ==
          "there is no libnccl.so.2 (pip install nvidia-nccl-cu13, or WT_NCCL=FILE)");
  }
  {
    const Environment is_off("WT_NCCL", "off");
    CHECK(why_not({some, fakes}) == "WT_NCCL=off");
  }
  const Environment named("WT_NCCL", "/lib/x.so");
  CHECK(why_not({none, fakes}) == "WT_NCCL: /lib/x.so cannot be loaded");
  CHECK(why_not({some, no_symbol}) ==
        "/lib/x.so is no NCCL: it has no ncclGetVersion that answers");
  CHECK(why_not({some, old}) == "/lib/x.so is NCCL 2.17.5, older than 2.18.0");
  CHECK(why_not({some, ancient}) == "/lib/x.so is NCCL 2.8.4, older than 2.18.0");
}

TEST_CASE("nccl: each function of the table is asked for, and missed") {
  const Environment named("WT_NCCL", "/lib/x.so");
  static std::vector<std::string> asked;
  static std::string lacking;
  asked.clear();
  lacking.clear();
  const auto symbol = [](void*, const char* name) -> void* {
    asked.push_back(name);
    return name == lacking ? nullptr : FakeNccl::symbol(name);
  };
  const NcclFound found = find_nccl({some, symbol});
  REQUIRE(found.api != nullptr);
  CHECK(found.file == "/lib/x.so");
  CHECK(std::memcmp(found.api, &FakeNccl::api(), sizeof(NcclApi)) == 0);
  const std::vector<std::string> names = asked;
  CHECK(names.size() == sizeof(NcclApi) / sizeof(void*));
  for (const std::string& name : names) {
    lacking = name;
    CHECK(mentions(why_not({some, symbol}), name));
  }
}

TEST_CASE("nccl: the search goes on to the roots and the wheels, and tells what is broken") {
  const TempDir dir;
  const Environment named("WT_NCCL", nullptr), root("NCCL_ROOT", "/opt/nccl"),
      home("NCCL_HOME", nullptr), toolkit("CUDA_HOME", nullptr), conda("CONDA_PREFIX", nullptr),
      wheels("VIRTUAL_ENV", dir.path.c_str());
  std::filesystem::create_directories(dir.path + "/lib/python3.11");
  static std::vector<std::string> tried;
  tried.clear();
  const auto open = [](const char* file) -> void* {
    tried.push_back(file);
    return nullptr;
  };
  const auto error = [] { return tried.back() + ": cannot open shared object file: No such file"; };
  CHECK(mentions(why_not({open, fakes, error}), "there is no libnccl.so.2"));
  CHECK(tried == std::vector<std::string>{
                     "libnccl.so.2", "/opt/nccl/lib/libnccl.so.2", "/opt/nccl/lib64/libnccl.so.2",
                     dir.path + "/lib/libnccl.so.2",
                     dir.path + "/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"});
  const auto broken = [] {
    return tried.size() == 2 ? std::string("file too short")
                             : tried.back() + ": cannot open shared object file: No such file";
  };
  tried.clear();
  CHECK(why_not({open, fakes, broken}) ==
        "/opt/nccl/lib/libnccl.so.2 cannot be loaded: file too short");
}

TEST_CASE("nccl: the system's loader has words for a file that is no library") {
  const TempDir dir;
  const std::string file = dir.path + "/libnccl.so.2";
  std::ofstream(file) << "no library";
  const Environment named("WT_NCCL", file.c_str());
  const std::string text = why_not(system_loader);
  CHECK(mentions(text, "WT_NCCL: " + file + " cannot be loaded: "));
  CHECK(text.size() > ("WT_NCCL: " + file + " cannot be loaded: ").size());
}

TEST_CASE("nccl: wt info's line") {
  replace_nccl(nullptr, "there is none");
  CHECK(describe_nccl() == "not used: there is none");
  CHECK(nccl_api() == nullptr);
  CHECK(std::string(nccl_why_not()) == "there is none");
  replace_nccl(&FakeNccl::api());
  CHECK(describe_nccl() == "2.28.9");
  CHECK(nccl_why_not() == nullptr);
  restore_nccl();
}

// The binary interface is NCCL's own where there is a library: no GPU is asked for.
TEST_CASE("nccl: the real library has all functions, and speaks of its errors") {
  const NcclFound found = find_nccl(system_loader);
  if (!found.api) SKIP_TEST(found.why_not.c_str());
  int version = 0;
  CHECK(found.api->version(&version) == kNcclSuccess);
  CHECK(version >= kOldestNccl);
  CHECK(std::string(found.api->error_text(kNcclSuccess)) == "no error");
  CHECK(mentions(found.api->error_text(kNcclInProgress), "in progress"));
  CHECK(mentions(found.api->error_text(kNcclInvalidUsage), "invalid usage"));
  void* comm = nullptr;  // an argument that is refused before a device is looked for
  CHECK(found.api->comm_finalize(nullptr) != kNcclInProgress);
  CHECK(found.api->comm_async_error(comm, &version) == kNcclInvalidArgument);
}

// How many workers a loader takes, and what the errors of a dataset say of their origin.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "warptape/core/error.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/data/loader/loader_parts.h"
#include "warptape/data/loader/loader_threads.h"
#include "warptape/data/loader/type_name.h"

namespace wt::data::detail {
namespace {

// The first template arguments of a name may be as long as a page.
constexpr size_t kLongestName = 80;
constexpr size_t kIndicesShown = 8;

std::string origin_text(const std::type_info& dataset, std::span<const i64> samples,
                        const LoaderState& at) {
  std::string text = str("\n  in batch ", at.batch, " of epoch ", at.epoch, ", dataset ",
                         short_type_name(dataset), worker_text(), ", samples");
  for (size_t i = 0; i < std::min(samples.size(), kIndicesShown); ++i)
    text += str(i ? ", " : " ", samples[i]);
  if (samples.size() > kIndicesShown) text += str(", ... (", samples.size(), " in all)");
  return text;
}

// Before the line that says what to try, which is the last one.
std::string with_origin(std::string what, const std::string& origin) {
  const size_t at = what.rfind("\n  Try ");
  return what.insert(at == what.npos ? what.size() : at, origin);
}

// Where the exception is exactly an E: of a type derived from it by others, part would be lost.
template <class E>
void rethrow_library(const Error& e, const std::string& origin) {
  if (typeid(e) != typeid(E)) return;
  const std::string what = e.what();
  throw E(with_origin(what.substr(std::string(e.kind()).size() + 2), origin));
}
template <class E>
void rethrow_standard(const std::exception& e, const std::string& origin) {
  if (typeid(e) == typeid(E)) throw E(with_origin(e.what(), origin));
}

}  // namespace

std::string type_name(const std::type_info& t) {
  int status = 0;
  char* text = abi::__cxa_demangle(t.name(), nullptr, nullptr, &status);
  const std::string name = text ? text : t.name();
  std::free(text);
  return name;
}

std::string short_type_name(const std::type_info& t) {
  const std::string name = type_name(t);
  return name.size() > kLongestName ? name.substr(0, kLongestName) + "..." : name;
}
std::string worker_text() { return worker_number() < 0 ? "" : str(", worker ", worker_number()); }

void rethrow_with_origin(const std::type_info& dataset, std::span<const i64> samples,
                         const LoaderState& at) {
  rethrow_with_origin(origin_text(dataset, samples, at));
}

void rethrow_with_origin(const std::string& origin) {
  try {
    throw;
  } catch (const Error& e) {
    rethrow_library<UsageError>(e, origin);
    rethrow_library<ShapeError>(e, origin);
    rethrow_library<DtypeError>(e, origin);
    rethrow_library<IndexError>(e, origin);
    rethrow_library<PlacementError>(e, origin);
    rethrow_library<InplaceError>(e, origin);
    rethrow_library<NotAvailable>(e, origin);
    rethrow_library<DataError>(e, origin);
    rethrow_library<OutOfMemory>(e, origin);
    rethrow_library<NumericError>(e, origin);
    rethrow_library<DeviceError>(e, origin);
    rethrow_library<CheckpointError>(e, origin);
    throw;
  } catch (const std::exception& e) {
    rethrow_standard<std::runtime_error>(e, origin);
    rethrow_standard<std::logic_error>(e, origin);
    rethrow_standard<std::invalid_argument>(e, origin);
    rethrow_standard<std::out_of_range>(e, origin);
    throw;
  }
}

WorkerChoice choose_workers(int asked, InMemory memory, i64 batches) {
  if (asked != kAuto) return {asked, str(asked, ": the options say so")};
  if (memory == InMemory::yes)
    return {0,
            "0: the dataset is in memory, where a batch is one copy: handing it from thread to "
            "thread costs more than making it"};
  const i64 processors = wt::detail::processors();
  const i64 n = std::clamp<i64>(batches, 1, std::min<i64>(processors, 1024));
  return {int(n),
          str(n, ": the dataset ",
              memory == InMemory::no ? "says that it is not in memory"
                                     : "does not say that it is in memory",
              "; there are ", processors, " processors, an epoch has ", batches, " batches")};
}

}  // namespace wt::data::detail

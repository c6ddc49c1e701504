// What the files of a Loader share. Internal.
#pragma once
#include <span>
#include <string>
#include <typeinfo>

#include "warptape/data/loader.h"

namespace wt::data::detail {

struct WorkerChoice {
  int workers = 0;
  std::string why{};
};
// For options that were checked; `batches` of an epoch.
WorkerChoice choose_workers(int asked, InMemory memory, i64 batches);
// "a::Set", cut where it is as long as a page; ", worker 1" in a worker, else nothing.
std::string short_type_name(const std::type_info& t);
std::string worker_text();
// In a catch block: throws what was caught, with "in batch 3 of epoch 0, dataset D, worker 1,
// samples 3, 9" in the text where its type allows that.
[[noreturn]] WT_COLD void rethrow_with_origin(const std::type_info& dataset,
                                              std::span<const i64> samples, const LoaderState& at);
// As above, with `origin` as it is.
[[noreturn]] WT_COLD void rethrow_with_origin(const std::string& origin);

}  // namespace wt::data::detail

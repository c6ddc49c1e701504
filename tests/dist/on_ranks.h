// Code on several local ranks, and what it throws there.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

namespace wt_test {

// How a rank ended: nothing, or the PeerFailure it threw.
struct RankEnd {
  std::string text, reason, host;
  int rank = -2;  // -2: it threw nothing
  long long step = -1;
  int exit_code = 0;
};

// fn on each rank; a PeerFailure ends its rank alone, and is told. Catch's own macros are for one
// thread: fn leaves what it sees in variables.
inline std::vector<RankEnd> ends_of(int ranks, const wt::dist::LocalOptions& options,
                                    const std::function<void(wt::dist::Communicator&)>& fn) {
  std::vector<RankEnd> ends(static_cast<size_t>(ranks));
  wt::dist::spawn(ranks,
                  [&](wt::dist::Communicator& comm) {
                    try {
                      fn(comm);
                    } catch (const wt::PeerFailure& e) {
                      ends[size_t(comm.rank())] = {e.what(), e.reason,    e.host,
                                                   e.rank,   e.last_step, e.exit_code()};
                    }
                  },
                  {.local = options});
  return ends;
}

// The bytes of a contiguous tensor.
inline std::vector<unsigned char> bytes_in(const wt::Tensor& t) {
  const auto* const p = static_cast<const unsigned char*>(t.impl()->data);
  return {p, p + t.numel() * wt::item_size(t.dtype())};
}

}  // namespace wt_test

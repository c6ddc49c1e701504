// What ranks must have in common, compared. Internal.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"

namespace wt::dist::detail {

// The bytes of every rank, rank by rank; all give equally many. Waits for them.
std::vector<char> gather_bytes(Communicator& comm, std::span<const char> mine);

// Something that has to be the same on every rank, and the text that says what it is here. Of a
// text of several lines the first one that differs is told.
struct Fact {
  const char* name;
  std::string value;
};
// Throws PeerFailure, on every rank alike, naming what differs on which rank. Every rank gives the
// same names. What is the same everywhere costs 8 bytes a fact and rank.
void check_agreement(Communicator& comm, std::span<const Fact> facts, i64 step);

// The one PeerFailure of replicas that do not fit together: "[DataParallel] <text>".
[[noreturn]] void throw_disagreement(int rank, i64 step, const std::string& text);

// "rank 2" or "ranks 0, 2".
std::string rank_list(std::span<const int> ranks);

}  // namespace wt::dist::detail

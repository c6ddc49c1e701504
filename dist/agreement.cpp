#include "warptape/dist/agreement.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/crc32c.h"

namespace wt::dist::detail {

std::vector<char> gather_bytes(Communicator& comm, std::span<const char> mine) {
  const i64 n = i64(mine.size());
  const TensorOptions bytes{.dtype = DType::u8, .device = Device::cpu()};
  const Tensor in = empty({n}, bytes), out = empty({n * comm.size()}, bytes);
  if (n > 0) std::memcpy(in.mutable_data<u8>(), mine.data(), size_t(n));
  comm.control().all_gather(out, in, Frame{});
  std::vector<char> all(size_t(out.numel()));
  if (!all.empty()) std::memcpy(all.data(), out.data<u8>(), all.size());
  return all;
}

void throw_disagreement(int rank, i64 step, const std::string& text) {
  throw PeerFailure("[DataParallel] " + text, rank, "", step, text);
}

std::string rank_list(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += str(i == 0 ? "" : ", ", ranks[i]);
  return text;
}

namespace {

struct Mark {
  u32 crc = 0, size = 0;
  friend bool operator==(const Mark&, const Mark&) = default;
};

Mark mark_of(const std::string& s) { return {crc32c(s.data(), s.size()), u32(s.size())}; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The first line that differs, of both; "nothing" where one has no more.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const std::vector<std::string> x = lines_of(a), y = lines_of(b);
  for (size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
    const std::string& p = i < x.size() ? x[i] : "nothing";
    const std::string& q = i < y.size() ? y[i] : "nothing";
    if (p != q) return {p, q};
  }
  return {a, b};
}

// The texts of all ranks, padded to the longest.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& mine, u32 longest) {
  std::string padded = mine;
  padded.resize(longest, '\0');
  const std::vector<char> all = gather_bytes(comm, padded);
  std::vector<std::string> texts;
  for (int r = 0; r < comm.size(); ++r) {
    const char* const begin = all.data() + size_t(r) * longest;
    texts.emplace_back(begin, strnlen(begin, longest));
  }
  return texts;
}

}  // namespace

void check_agreement(Communicator& comm, std::span<const Fact> facts, i64 step) {
  if (comm.size() == 1) return;
  std::vector<Mark> mine;
  for (const Fact& f : facts) mine.push_back(mark_of(f.value));
  const size_t n = mine.size();
  const std::vector<char> bytes =
      gather_bytes(comm, {reinterpret_cast<const char*>(mine.data()), n * sizeof(Mark)});
  std::vector<Mark> all(n * size_t(comm.size()));
  if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  for (size_t f = 0; f < n; ++f) {
    int other = 0;
    u32 longest = 0;
    for (int r = comm.size() - 1; r >= 0; --r) {
      const Mark& m = all[size_t(r) * n + f];
      if (m != all[f]) other = r;
      longest = std::max(longest, m.size);
    }
    if (other == 0) continue;
    const std::vector<std::string> texts = gather_texts(comm, facts[f].value, longest);
    const auto [here, there] = first_difference(texts[0], texts[size_t(other)]);
    throw_disagreement(other, step,
                       str("ranks differ in their ", facts[f].name, ": rank ", other, " has ",
                           there, ", rank 0 has ", here));
  }
}

}  // namespace wt::dist::detail

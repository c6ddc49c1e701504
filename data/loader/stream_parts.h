// The order in which a StreamLoader reads and gives records. Internal.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "warptape/core/philox.h"
#include "warptape/data/loader/prefetch.h"
#include "warptape/data/stream_loader.h"

namespace wt::data::detail {

struct RecordAt {
  i64 part = -1, record = -1;  // of the part; -1: none
};
struct Piece {
  std::unique_ptr<AnyRecord> record{};  // null: skipped
  RecordAt at{};
  i64 number = 0;  // of those read
};

// This process's records of an epoch: the parts that it reads, by turns.
class PartsByTurns {
 public:
  PartsByTurns(const AnyStream& stream, const StreamOptions& o, i64 epoch);
  // The next record, or only its place; false at the end.
  bool advance(bool read, Piece& piece);
  const RecordAt& at() const { return at_; }  // that was asked for last

 private:
  struct Turn {
    size_t next = 0;  // its next part, in parts_
    i64 part = 0, record = 0;
    std::unique_ptr<AnyReader> reader{};
  };
  bool advance_any(bool read, Piece& piece);

  const AnyStream& stream_;
  const i64 epoch_;
  std::vector<i64> parts_;
  std::vector<Turn> turns_;  // that have parts left
  size_t turn_ = 0, stride_ = 0;
  i64 world_, others_ = 0;  // records of other processes, before the next one of this
  RecordAt at_;
};

// The records in the order in which they are given: drawn from a buffer, with shuffle.
class RecordOrder {
 public:
  RecordOrder(const AnyStream& stream, const StreamOptions& o, i64 epoch);
  bool advance(bool read, Piece& piece);
  // Passes records until `place` of them are given, or all; says how many.
  i64 go_to(i64 place, const std::atomic<bool>& abandoned);
  const RecordAt& at() const { return in_->at(); }

 private:
  bool read_one(bool read, Piece& piece);

  const AnyStream& stream_;
  const StreamOptions& o_;
  const i64 epoch_;
  const PhiloxKey key_;
  std::unique_ptr<PartsByTurns> in_;
  bool ended_ = false;
  i64 read_ = 0, given_ = 0;
  std::vector<Piece> held_;
};

// Batches of an epoch from one on. make() is called for all of them, each once, from any threads:
// records are read by whoever's turn it is, and decoded at once.
class RecordFeed {
 public:
  RecordFeed(std::shared_ptr<const AnyStream> stream, const StreamOptions& o,
             const StreamPosition& from, std::shared_ptr<LoaderTimes> times);
  // Null behind the last one, and after one whose reading threw.
  Owned<AnyBatch> make(i64 k, const DevicePrefetch* to_device);

  std::atomic<bool> abandoned = false;  // nobody wants what is read

 private:
  void open();
  std::vector<Piece> read(i64 k);
  std::string origin(const RecordAt& at, i64 batch) const;

  const std::shared_ptr<const AnyStream> stream_;
  const StreamOptions o_;
  const StreamPosition from_;
  const std::shared_ptr<LoaderTimes> times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  i64 turn_;
  bool ended_ = false;
  std::optional<RecordOrder> order_;
};

}  // namespace wt::data::detail

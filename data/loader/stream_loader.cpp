#include "warptape/data/stream_loader.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "warptape/core/error.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/data/draws.h"
#include "warptape/data/loader/loader_parts.h"
#include "warptape/data/loader/loader_threads.h"
#include "warptape/data/loader/prefetch.h"
#include "warptape/data/loader/stream_parts.h"

namespace wt::data::detail {

// --- the order of reading ---

PartsByTurns::PartsByTurns(const AnyStream& stream, const StreamOptions& o, i64 epoch)
    : stream_(stream), epoch_(epoch), world_(1) {
  const i64 parts = stream.parts();
  if (parts < 1) throw UsageError(str("[StreamLoader] the source says it has ", parts, " parts"));
  parts_ = epoch_order(parts, o.shuffle, o.seed, epoch);
  if (o.world > 1 && parts >= o.world) {
    std::vector<i64> mine;
    for (i64 i = o.rank; i < parts; i += o.world) mine.push_back(parts_[size_t(i)]);
    parts_ = std::move(mine);
  } else {  // by records
    world_ = o.world;
    others_ = o.rank;
  }
  turns_.resize(size_t(std::min(o.interleave, i64(parts_.size()))));
  for (size_t i = 0; i < turns_.size(); ++i) turns_[i].next = i;
  stride_ = turns_.size();
}

bool PartsByTurns::advance(bool read, Piece& piece) {
  for (; others_ > 0; --others_)
    if (!advance_any(false, piece)) return false;
  if (!advance_any(read, piece)) return false;
  others_ = world_ - 1;
  return true;
}

bool PartsByTurns::advance_any(bool read, Piece& piece) {
  while (!turns_.empty()) {
    Turn& t = turns_[turn_];
    if (!t.reader) {
      if (t.next >= parts_.size()) {  // no part is left for it
        turns_.erase(turns_.begin() + std::ptrdiff_t(turn_));
        if (turn_ == turns_.size()) turn_ = 0;
        continue;
      }
      at_ = {parts_[t.next], -1};
      t.reader = stream_.open(at_.part, epoch_);
      t.part = at_.part;
      t.record = 0;
      t.next += stride_;
    }
    at_ = {t.part, t.record};
    piece.at = at_;
    piece.record = read ? t.reader->next() : nullptr;
    if (read ? bool(piece.record) : t.reader->skip()) {
      ++t.record;
      turn_ = (turn_ + 1) % turns_.size();
      return true;
    }
    t.reader.reset();
  }
  return false;
}

// --- the order of giving ---

RecordOrder::RecordOrder(const AnyStream& stream, const StreamOptions& o, i64 epoch)
    : stream_(stream),
      o_(o),
      epoch_(epoch),
      key_(detail::shuffle_key(o.seed, detail::ShuffleFork::records)),
      in_(std::make_unique<PartsByTurns>(stream, o, epoch)) {}

bool RecordOrder::read_one(bool read, Piece& piece) {
  if (ended_ || !in_->advance(read, piece)) {
    ended_ = true;
    return false;
  }
  piece.number = read_++;
  return true;
}

bool RecordOrder::advance(bool read, Piece& piece) {
  if (!o_.shuffle) {
    if (!read_one(read, piece)) return false;
    ++given_;
    return true;
  }
  Piece next;
  while (i64(held_.size()) < o_.buffer && read_one(read, next)) held_.push_back(std::move(next));
  if (held_.empty()) return false;
  const i64 drawn = draw_below(philox(key_, u64(given_), u64(epoch_)), i64(held_.size()));
  Piece& place = held_[size_t(drawn)];
  piece = std::move(place);
  ++given_;
  if (read_one(read, next)) {
    place = std::move(next);
  } else {
    if (&place != &held_.back()) place = std::move(held_.back());
    held_.pop_back();
  }
  return true;
}

i64 RecordOrder::go_to(i64 place, const std::atomic<bool>& abandoned) {
  Piece piece;
  const bool read = o_.shuffle && !stream_.skips;  // else what the buffer holds is read below
  while (given_ < place && !abandoned && advance(read, piece)) {}
  if (read || held_.empty()) return given_;
  // What the buffer holds is known now, and read in a second pass over what was passed.
  std::unordered_map<i64, Piece*> wanted;
  for (Piece& p : held_) wanted.emplace(p.number, &p);
  in_ = std::make_unique<PartsByTurns>(stream_, o_, epoch_);
  for (i64 number = 0; number < read_ && !abandoned; ++number) {
    const auto found = wanted.find(number);
    if (!in_->advance(found != wanted.end(), piece))
      throw DataError("[StreamLoader] the source has become shorter while it was read");
    if (found != wanted.end()) found->second->record = std::move(piece.record);
  }
  return given_;
}

// --- batches of records, by whoever's turn it is ---

namespace {

void check_stream_options(const StreamOptions& o) {
  if (o.batch < 1)
    throw UsageError(str("[StreamLoader] the batch must be at least 1, got ", o.batch));
  if (o.buffer < 1)
    throw UsageError(str("[StreamLoader] the buffer must hold at least 1 record, got ", o.buffer));
  if (o.interleave < 1 || o.interleave > 4096)
    throw UsageError(
        str("[StreamLoader] interleave must be 1 to 4096 parts, each of which may be "
            "an open file, got ",
            o.interleave));
  if (o.world < 1 || o.rank < 0 || o.rank >= o.world)
    throw UsageError(str("[StreamLoader] rank ", o.rank, " is not one of a world of ", o.world,
                         ": ranks are 0 to world - 1"));
  if ((o.workers < 0 && o.workers != kAuto) || o.workers > 1024 || o.prefetch < 1 ||
      o.prefetch > 1024)
    throw UsageError(
        str("[StreamLoader] workers must be 0 to 1024 or kAuto, prefetch 1 to 1024, got ",
            o.workers, " and ", o.prefetch));
}

}  // namespace

RecordFeed::RecordFeed(std::shared_ptr<const AnyStream> stream, const StreamOptions& o,
                       const StreamPosition& from, std::shared_ptr<LoaderTimes> times)
    : stream_(std::move(stream)), o_(o), from_(from), times_(std::move(times)), turn_(from.batch) {}

std::string RecordFeed::origin(const RecordAt& at, i64 batch) const {
  std::string text = "\n  in ";
  if (at.record >= 0) text += str("record ", at.record, " of ");
  if (at.part >= 0) {
    text += str("part ", at.part);
    if (const std::string name = stream_->part_name(at.part); !name.empty())
      text += str(" (", name, ")");
    text += ", ";
  }
  return text + str("batch ", batch, " of epoch ", from_.epoch, ", stream ",
                    short_type_name(stream_->type), worker_text());
}

void RecordFeed::open() {
  order_.emplace(*stream_, o_, from_.epoch);
  const i64 place = from_.batch * o_.batch, reached = order_->go_to(place, abandoned);
  // The last batch may have been one that was not full.
  if (reached < place && (o_.drop_last || reached <= place - o_.batch) && !abandoned)
    throw UsageError(str("[StreamLoader] there is no batch ", from_.batch, " in epoch ",
                         from_.epoch, " (", reached,
                         " records): the position is another stream's"));
}

std::vector<Piece> RecordFeed::read(i64 k) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return turn_ == k || ended_; });
  std::vector<Piece> pieces;
  if (ended_) return pieces;
  const StageTimer timer(*times_, LoaderStage::dataset);
  try {
    if (!order_) open();
    Piece piece;
    while (i64(pieces.size()) < o_.batch && !abandoned && order_->advance(true, piece))
      pieces.push_back(std::move(piece));
  } catch (...) {
    ended_ = true;
    changed_.notify_all();
    rethrow_with_origin(origin(order_ ? order_->at() : RecordAt{}, k));
  }
  if (i64(pieces.size()) < o_.batch) {
    ended_ = true;
    if (o_.drop_last) pieces.clear();
  }
  ++turn_;
  changed_.notify_all();
  return pieces;
}

Owned<AnyBatch> RecordFeed::make(i64 k, const DevicePrefetch* to_device) {
  std::vector<Piece> pieces = read(k);
  if (pieces.empty()) return nullptr;
  AnyRecords records;
  for (Piece& p : pieces) records.push_back(std::move(p.record));
  Owned<AnyBatch> item;
  size_t at = 0;
  try {
    const StageTimer timer(*times_, LoaderStage::dataset);
    item = stream_->batch(std::move(records), from_.epoch, k * o_.batch, at);
  } catch (...) {
    rethrow_with_origin(origin(at < pieces.size() ? pieces[at].at : RecordAt{}, k));
  }
  if (to_device) to_device->pin(tensors_of(*stream_, *item));
  return item;
}

// --- the loader ---

struct StreamCore::Impl {
  std::shared_ptr<const AnyStream> stream;
  StreamOptions options;
  std::shared_ptr<LoaderTimes> times = std::make_shared<LoaderTimes>();
  std::shared_ptr<DevicePrefetch> to_device{};  // null: batches stay where they are made
  BatchAhead ahead{};
  StreamPosition state{};
  std::shared_ptr<RecordFeed> feed{};  // null: from `state` on, when a batch is asked for
  std::unique_ptr<BatchPool> pool{};   // last: its threads use what is above

  ~Impl() {
    if (feed) feed->abandoned = true;
  }
  // What comes next is read anew.
  void drop() {
    if (feed) feed->abandoned = true;
    feed.reset();
    if (pool) pool->cancel();
  }
  // Batch k of the running epoch, for which this is called in order; null behind the last.
  Owned<AnyBatch> fetch(i64 k) {
    try {
      if (!feed)
        feed = std::make_shared<RecordFeed>(stream, options, StreamPosition{state.epoch, k}, times);
      if (!pool) return feed->make(k, to_device.get());
      if (!pool->running())
        pool->start([f = feed, d = to_device](i64 j) { return f->make(j, d.get()); }, k,
                    std::numeric_limits<i64>::max());
      const StageTimer timer(*times, LoaderStage::worker_wait);
      return pool->take();
    } catch (...) {
      drop();
      throw;
    }
  }
};

StreamCore::StreamCore(std::shared_ptr<const AnyStream> stream, const StreamOptions& o)
    : impl_(new Impl{.stream = std::move(stream), .options = o}) {
  check_stream_options(o);
  Impl& i = *impl_;
  if (o.device) {
    if (!i.stream->tells_tensors) no_tensors_to_move(i.stream->batch_type);
    i.to_device = std::make_shared<DevicePrefetch>(*o.device, o.pin_memory, i.times);
  }
  if (o.workers == kAuto) i.options.workers = std::min(wt::detail::processors(), 1024);
  if (const int n = i.options.workers; n > 0)
    i.pool = std::make_unique<BatchPool>(n, n * o.prefetch);
}
StreamCore::StreamCore(StreamCore&&) noexcept = default;
StreamCore& StreamCore::operator=(StreamCore&&) noexcept = default;
StreamCore::~StreamCore() = default;

const StreamOptions& StreamCore::options() const { return impl_->options; }
int StreamCore::workers() const { return impl_->options.workers; }
LoaderStats StreamCore::stats() const { return impl_->times->stats(); }
void StreamCore::reset_stats() { impl_->times->reset(); }
const StreamPosition& StreamCore::state() const { return impl_->state; }

void StreamCore::set_state(const StreamPosition& s) {
  Impl& i = *impl_;
  if (s.epoch < 0 || s.batch < 0 || s.batch > std::numeric_limits<i64>::max() / i.options.batch)
    throw UsageError(str("[StreamLoader] there is no batch ", s.batch, " in epoch ", s.epoch));
  i.drop();
  i.ahead = {};
  i.state = s;
}

Owned<AnyBatch> StreamCore::take() {
  Impl& i = *impl_;
  const StageTimer timer(*i.times, LoaderStage::next);
  Owned<AnyBatch> item = i.to_device ? next_on_device(
                                           *i.to_device, *i.stream, i.state.batch, i.ahead,
                                           [&i](i64 k) { return i.fetch(k); }, [&i] { i.drop(); })
                                     : i.fetch(i.state.batch);
  if (item) {
    i.times->add_batch();
    ++i.state.batch;
    return item;
  }
  i.drop();
  if (i.state.batch == 0)
    throw UsageError(str("[StreamLoader] epoch ", i.state.epoch, " has no batch",
                         i.options.drop_last
                             ? str(": there are fewer records than the ", i.options.batch,
                                   " of a batch, and drop_last leaves nothing")
                             : std::string(": the source has no records")));
  i.state = {i.state.epoch + 1, 0};
  return nullptr;
}

}  // namespace wt::data::detail

// A progress line on stderr in tqdm's grammar, for loops of any kind:
//
//   for (auto& batch : wt::progress(loader, {.desc = "train"})) ...
//
//   train:  41%|████▏     | 160/391 [00:04<00:06, 36.40it/s, loss=0.84]
//
// Of a loader it says more: which epoch of how many, and samples a second.
//
//   auto bar = wt::progress(loader, {.items = "img", .epochs = 10});
//   for (auto& [x, y] : bar) bar.set_postfix("loss=" + ...);
//
//   epoch 3/10:  41%|██▉    | 160/391 [00:04<00:06, 36.40it/s, 2330img/s, loss=0.84]
//
// On a terminal it is redrawn at most ten times a second; elsewhere (a file, a Slurm log) it is a
// plain line at most every 10 s or every 5 %, never faster than one a second. It honours COLUMNS,
// the terminal's size, TERM=dumb and whether the locale has UTF-8; it uses no colour and never
// hides the cursor, so nothing stays broken however the program ends. Bars of nested loops or
// several threads stand below each other; a finished one goes above them. A dead stderr ends
// nothing.
#pragma once
#include <concepts>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "warptape/core/macros.h"
#include "warptape/core/misnamed.h"
#include "warptape/core/owned.h"
#include "warptape/core/types.h"

namespace wt {

enum class ProgressStyle { automatic, bar, ascii_bar, lines };

struct ProgressOptions {
  std::string desc = {};
  i64 total = -1;           // -1: the range's size, or unknown
  std::string unit = "it";  // what one step is called
  bool disable = false;     // prints nothing (ranks other than 0)
  ProgressStyle style = ProgressStyle::automatic;
  int columns = 0;                                  // 0: COLUMNS, else the terminal's
  std::function<void(std::string_view)> sink = {};  // instead of stderr
  std::function<double()> clock = {};               // seconds; instead of the monotonic clock
  i64 initial = 0;    // steps that were done before: counted, but not in the rate
  bool leave = true;  // false: the line is wiped when it is closed
  // What the samples of a step are called, "img": their rate stands beside that of the steps. They
  // are counted of batches that progress() gives (size(), or the first size of a tensor).
  std::string items = {};
  i64 epochs = -1;  // "epoch 3/10" before `desc`, of what progress() gives with state().epoch
  WT_MISNAMED(ncols, columns);
};

// For one thread. A call that does not redraw costs one look at the clock.
class WT_API Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();  // close()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(i64 n = 1);
  void update(i64 n, std::string postfix) {
    set_postfix(std::move(postfix));
    update(n);
  }
  // Samples that the next update() has done; without .items they are not shown.
  void count_items(i64 n) { items_ += n; }
  bool counts_items() const noexcept { return !options_.items.empty(); }
  // Text behind the rate, "loss=0.84, acc=0.7"; shown at the next redraw.
  void set_postfix(std::string text);
  // Prints a line of its own above the progress line.
  void write(std::string_view line);
  // Draws the final state with the average rate and ends the line.
  void close();

  i64 count() const noexcept { return n_; }  // with what was done before
  double elapsed() const;
  double average_rate() const;  // steps a second since the start; 0 at its very beginning

 private:
  void draw(double now);
  void draw_line(double now, bool final);
  void put(std::string_view text);
  int columns() const;
  std::string text(double now, double rate, double item_rate) const;

  ProgressOptions options_;
  std::string postfix_;
  i64 n_ = 0, drawn_n_ = 0, items_ = 0, drawn_items_ = 0;
  double start_ = 0, drawn_at_ = 0;
  double ema_steps_ = 0, ema_seconds_ = 0, ema_items_ = 0;
  std::size_t drawn_width_ = 0;
  bool to_stderr_ = true, closed_ = false;
};

// Ends a progress line that is being drawn on stderr. Async-signal-safe: for a handler that is
// about to _exit.
WT_API void end_progress_line() noexcept;

namespace detail {
struct ProgressFigures {
  std::string desc, unit, postfix;
  i64 n = 0, total = -1;
  double elapsed = 0, rate = 0;  // rate 0: unknown
  int columns = 80;
  ProgressStyle style = ProgressStyle::bar;
  std::string items = {};  // empty: no rate of them
  double item_rate = 0;    // 0: unknown
};
// The line without its ending, at most `columns` characters wide.
WT_API std::string format_progress(const ProgressFigures& figures);

// "epoch 3/10", with the `desc` there is behind it.
WT_API std::string epoch_text(i64 epoch, const ProgressOptions& options);

// Samples of what a loop was given: of a batch or tensor, of the first tensor of several, of what
// enumerate() counts; of anything else 1.
template <class T>
i64 items_in(const T& v) {
  if constexpr (requires { v.size(0); }) {
    return static_cast<i64>(v.size(0));
  } else if constexpr (requires { std::begin(v) != std::end(v); }) {
    if constexpr (requires { std::begin(v)->size(0); }) {
      return std::begin(v) == std::end(v) ? 0 : items_in(*std::begin(v));
    } else {
      return 1;
    }
  } else if constexpr (requires { static_cast<i64>(v.size()); }) {
    return static_cast<i64>(v.size());
  } else if constexpr (requires { v.batch; }) {
    return items_in(v.batch);
  } else {
    return 1;
  }
}
}  // namespace detail

// A range that shows how far its iteration is. Range is T& for an lvalue, T for what it owns.
template <class Range>
class ProgressRange {
 public:
  using Inner = decltype(std::begin(std::declval<std::remove_reference_t<Range>&>()));
  using End = decltype(std::end(std::declval<std::remove_reference_t<Range>&>()));

  class Iterator {
   public:
    Iterator(Inner at, Progress* bar) : at_(std::move(at)), bar_(bar) {}
    // Counts the samples here: the loop's body may give them away.
    decltype(auto) operator*() {
      decltype(auto) step = *at_;
      if (bar_->counts_items()) items_ = detail::items_in(step);
      return step;
    }
    Iterator& operator++() {
      bar_->count_items(items_);
      bar_->update();
      ++at_;
      return *this;
    }
    bool operator==(const End& end) {
      if (!(at_ == end)) return false;
      bar_->close();
      return true;
    }

   private:
    Inner at_;
    Progress* bar_;
    i64 items_ = 0;
  };

  ProgressRange(Range&& range, ProgressOptions options)
      : range_(std::forward<Range>(range)), options_(std::move(options)) {
    if constexpr (requires { static_cast<i64>(std::size(range_)); }) {
      if (options_.total < 0) options_.total = static_cast<i64>(std::size(range_));
    }
  }

  // Starts the clock; every pass over the range draws a line of its own.
  Iterator begin() {
    ProgressOptions options = options_;
    // A loader in the middle of an epoch gives what is left of it.
    if constexpr (requires { static_cast<i64>(range_.state().batch); }) {
      if (options.initial == 0) options.initial = static_cast<i64>(range_.state().batch);
    }
    if constexpr (requires { static_cast<i64>(range_.state().epoch); }) {
      if (options.epochs > 0)
        options.desc = detail::epoch_text(static_cast<i64>(range_.state().epoch), options);
    }
    bar_.reset(new Progress(std::move(options)));
    return {std::begin(range_), bar_.get()};
  }
  End end() { return std::end(range_); }
  // The range's, for enumerate().
  decltype(auto) state() const requires requires(const std::remove_reference_t<Range>& r) {
    r.state().batch;
  }
  { return range_.state(); }

  void set_postfix(std::string text) { bar_->set_postfix(std::move(text)); }
  void write(std::string_view line) { bar_->write(line); }
  Progress& bar() { return *bar_; }  // of the current pass

 private:
  Range range_;
  ProgressOptions options_;
  Owned<Progress> bar_;
};

template <class Range>
requires(!std::integral<std::remove_cvref_t<Range>>)
    ProgressRange<Range> progress(Range&& range, ProgressOptions options = {}) {
  return {std::forward<Range>(range), std::move(options)};
}

// progress(10): the numbers 0 to n - 1, none for a negative n. tqdm's trange.
struct CountRange {
  struct Iterator {
    i64 value;
    i64 operator*() const { return value; }
    Iterator& operator++() {
      ++value;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  i64 n;
  Iterator begin() const { return {0}; }
  Iterator end() const { return {size()}; }
  i64 size() const { return n < 0 ? 0 : n; }
};
template <std::integral N>
requires(!std::same_as<N, bool>) ProgressRange<CountRange> progress(N n,
                                                                    ProgressOptions options = {}) {
  return {CountRange{static_cast<i64>(n)}, std::move(options)};
}

}  // namespace wt

// Mean and variance by channels on the cpu, eight floats at a time, with threads.
#include <algorithm>
#include <cmath>

#include "warptape/kernels/norm/channel_norm_vector_cpu.h"
#include "warptape/kernels/norm/moments_cpu.h"

namespace wt {
#if WT_X86
using namespace channel_vector;
namespace {

// Parts, joined as in Chan, Golub, LeVeque 1983.
struct Total {
  double count = 0, mean = 0, squares = 0;
  void join(double n, double part_mean, double part_squares) {
    const double distance = part_mean - mean, share = n / (count + n);
    mean += distance * share;
    squares += part_squares + distance * distance * share * count;
    count += n;
  }
};
void put_statistic(const ChannelStatsArgs& a, const ChannelShape& s, i64 k, const Total& t) {
  float* stats = a.stats.as<float>();
  const double variance = t.squares / t.count;
  stats[k] = float(t.mean);
  stats[s.statistics() + k] = float(t.mean - double(stats[k]));
  stats[2 * s.statistics() + k] = float(1 / std::sqrt(variance + a.eps));
  if (a.variance) a.variance.as<float>()[k] = float(variance);
}

// A channel of some samples: mean = shift + mean, and squares around it.
struct Cell {
  float shift, mean, squares;
};
// A long plane in parts: after the first, around the mean of those before (norm/moments_cpu.h).
Cell cell_of_plane(const float* x, i64 n) {
  const Moments first = moments_of_part(x, std::min(n, kMomentsPart), x[0]);
  Total total;
  total.join(double(std::min(n, kMomentsPart)), double(x[0]) + double(first.mean),
             double(first.squares));
  for (i64 i = kMomentsPart; i < n; i += kMomentsPart) {
    const i64 count = std::min(n - i, kMomentsPart);
    const float shift = float(total.mean);
    const Moments m = moments_around(x + i, count, shift);
    total.join(double(count), double(shift) + double(m.mean), double(m.squares));
  }
  const float shift = float(total.mean);
  return {shift, float(total.mean - double(shift)), float(total.squares)};
}

// Batch statistics take samples in memory's order: long planes one by one, short ones some samples
// at a time, each lane of a channel on its own, so that there is one sum over lanes for all of
// them.
constexpr i64 kShortSamples = 16, kChunk = 32;  // channels whose sums are kept at once
WT_TARGET_AVX2 void short_planes(Cell* cells, const Cells<const float>& x, i64 size, i64 n0, i64 n1,
                                 i64 c0, i64 c1) {
  f32x8 sums[kChunk], squares[kChunk];
  float shift[kChunk];
  for (i64 c = c0; c < c1; ++c) {
    const float* p = x.at(n0, c);
    shift[c - c0] = p[0] + moments_of_part(p, size, p[0]).mean;
    sums[c - c0] = squares[c - c0] = splat8(0);
  }
  const i64 whole = size & ~7ll, rest = size & 7;
  for (i64 n = n0; n < n1; ++n)
    for (i64 c = c0; c < c1; ++c) {
      const float *p = x.at(n, c), around = shift[c - c0];
      f32x8 s = sums[c - c0], q = squares[c - c0];
      for (i64 i = 0; i < whole; i += 8) {
        expect8(p + kAhead + i);
        const f32x8 d = load8(p + i) - around;
        s += d, q += d * d;
      }
      const f32x8 d = load_part8(p + whole, rest, around) - around;
      sums[c - c0] = s + d, squares[c - c0] = q + d * d;
    }
  const float count = float((n1 - n0) * size);
  for (i64 c = c0; c < c1; ++c) {
    const float mean = sum_of8(sums[c - c0]) / count;
    cells[c] = {shift[c - c0], mean, sum_of8(squares[c - c0]) - mean * mean * count};
  }
}
i64 samples_a_cell(const ChannelShape& s) { return s.size < kMomentsPart ? kShortSamples : 1; }
i64 cell_rows(const ChannelShape& s) {
  return (s.samples + samples_a_cell(s) - 1) / samples_a_cell(s);
}

void batch_stats_of_planes(const ChannelStatsArgs& a, const ChannelShape& s, Cell* cells) {
  const Cells<const float> x(a.x);
  const i64 together = samples_a_cell(s), chunks = (s.channels + kChunk - 1) / kChunk;
  in_parts(s, cell_rows(s) * chunks, [&](i64 begin, i64 end) {
    for (i64 k = begin; k < end; ++k) {
      const i64 row = k / chunks, c0 = k % chunks * kChunk, n0 = row * together;
      const i64 c1 = std::min(c0 + kChunk, s.channels), n1 = std::min(n0 + together, s.samples);
      Cell* to = cells + row * s.channels;
      if (together > 1)
        short_planes(to, x, s.size, n0, n1, c0, c1);
      else
        for (i64 c = c0; c < c1; ++c) to[c] = cell_of_plane(x.at(n0, c), s.size);
    }
  });
  for (i64 c = 0; c < s.channels; ++c) {
    Total total;
    for (i64 row = 0; row < cell_rows(s); ++row) {
      const Cell& cell = cells[row * s.channels + c];
      const i64 samples = std::min(together, s.samples - row * together);
      total.join(double(samples) * double(s.size), double(cell.shift) + double(cell.mean),
                 double(cell.squares));
    }
    put_statistic(a, s, c, total);
  }
}

void stats_of_planes(const ChannelStatsArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x);
  const bool one_piece = x.channel == s.size;  // the channels of a sample
  const i64 run = one_piece ? s.width() * s.size : s.size;
  in_parts(s, s.statistics(), [&](i64 begin, i64 end) {
    for (i64 k = begin; k < end; ++k) {
      const i64 n = k / s.groups, c0 = k % s.groups * s.width();
      Total total;
      for (i64 c = c0; c < c0 + s.width(); c += one_piece ? s.width() : 1) {
        const Cell cell = cell_of_plane(x.at(n, c), run);
        total.join(double(run), double(cell.shift) + double(cell.mean), double(cell.squares));
      }
      put_statistic(a, s, k, total);
    }
  });
}

// Adds to `sum` the distances of rows [begin, end) from `shift`, and their squares to `squares`,
// four rows at a time.
template <class Row>
WT_AVX2_HOT void add_rows(float* sum, float* squares, const float* shift, i64 n, i64 begin, i64 end,
                          const Row& row) {
  i64 r = begin;
  for (; r + 4 <= end; r += 4) {
    const float *p0 = row(r), *p1 = row(r + 1), *p2 = row(r + 2), *p3 = row(r + 3);
    for (i64 i = 0; i < n; i += 8) {
      expect8(p0 + kAhead + i), expect8(p1 + kAhead + i);
      expect8(p2 + kAhead + i), expect8(p3 + kAhead + i);
      const f32x8 c = load8(shift + i);
      const f32x8 d0 = eight(p0, i, n) - c, d1 = eight(p1, i, n) - c;
      const f32x8 d2 = eight(p2, i, n) - c, d3 = eight(p3, i, n) - c;
      store8(sum + i, load8(sum + i) + ((d0 + d1) + (d2 + d3)));
      store8(squares + i, load8(squares + i) + ((d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)));
    }
  }
  for (; r < end; ++r) {
    const float* p = row(r);
    for (i64 i = 0; i < n; i += 8) {
      const f32x8 d = eight(p, i, n) - load8(shift + i);
      store8(sum + i, load8(sum + i) + d);
      store8(squares + i, load8(squares + i) + d * d);
    }
  }
}

// Of channels [column, column + n) in a piece: distances of the mean from `first`, and squares.
// Blocks of rows are joined as parts of a long row are (norm/moments_cpu.h): the first one around
// its own mean, the others around the mean of those before.
WT_TARGET_AVX2 void moments_of_rows(const Pieces& pieces, const Cells<const float>& x, i64 piece,
                                    i64 column, i64 n, const float* first, float* mean_out,
                                    float* squares_out) {
  alignas(32) float start[kColumns] = {}, mean[kColumns] = {}, squares[kColumns] = {};
  alignas(32) float shift[kColumns], sum[kColumns], part[kColumns];
  for (i64 i = 0; i < n; ++i) start[i] = first[i];
  const i64 begin = pieces.begin(piece), end = pieces.end(piece);
  const i64 block = std::clamp<i64>(4096 / n, 8, 128);  // rows that stay in the first level cache
  const auto row = [&](i64 r) WT_TARGET_AVX2 { return pieces.row(x, r, column); };
  const auto clear = [&]() WT_TARGET_AVX2 {
    for (i64 i = 0; i < n; i += 8) store8(sum + i, splat8(0)), store8(part + i, splat8(0));
  };
  for (i64 r = begin; r < end; r += block) {
    const i64 stop = std::min(r + block, end);
    const float count = float(stop - r), share = count / float(stop - begin);
    for (i64 i = 0; i < n; i += 8) store8(shift + i, load8(start + i) + load8(mean + i));
    if (r == begin) {
      clear();
      add_rows(sum, part, shift, n, r, stop, row);
      for (i64 i = 0; i < n; i += 8) store8(shift + i, load8(shift + i) + load8(sum + i) / count);
    }
    clear();
    add_rows(sum, part, shift, n, r, stop, row);
    for (i64 i = 0; i < n; i += 8) {
      const f32x8 left = load8(sum + i) / count, m = load8(mean + i);
      const f32x8 distance = (load8(shift + i) - load8(start + i)) - m + left;
      const f32x8 s = load8(part + i) - left * left * count;
      store8(mean + i, m + distance * share);
      store8(squares + i,
             load8(squares + i) + s + distance * distance * (share * float(r - begin)));
    }
  }
  for (i64 i = 0; i < n; ++i) mean_out[i] = mean[i], squares_out[i] = squares[i];
}

void stats_of_rows(const ChannelStatsArgs& a, const ChannelShape& s, float* found) {
  const Cells<const float> x(a.x);
  const Pieces pieces(s);
  const auto mean_of = [&](i64 piece) { return found + 2 * piece * s.channels; };
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns)
        moments_of_rows(pieces, x, piece, c, std::min(kColumns, s.channels - c),
                        x.at(pieces.sample(piece), c), mean_of(piece) + c,
                        mean_of(piece) + s.channels + c);
  });
  for (i64 k = 0; k < s.statistics(); ++k) {
    const i64 p0 = s.batch() ? 0 : k / s.groups, p1 = s.batch() ? pieces.count : p0 + 1;
    const i64 c0 = s.batch() ? k : k % s.groups * s.width();
    Total total;
    for (i64 piece = p0; piece < p1; ++piece)
      for (i64 c = c0; c < c0 + s.width(); ++c)
        total.join(double(pieces.end(piece) - pieces.begin(piece)),
                   double(*x.at(pieces.sample(piece), c)) + double(mean_of(piece)[c]),
                   double(mean_of(piece)[s.channels + c]));
    put_statistic(a, s, k, total);
  }
}

}  // namespace

const char* channel_stats_why_not(const ChannelStatsArgs& a) {
  return why_not(a.x, layout_of({a.x}));
}
i64 channel_stats_workspace(const ChannelStatsArgs& a) {
  const ChannelShape s(a.x, a.groups);
  if (layout_of({a.x}) == Layout::rows) return pieces_workspace(s);
  return s.batch() ? cell_rows(s) * s.channels * i64(sizeof(Cell)) : 0;
}
void channel_stats_vector(const ChannelStatsArgs& a, const Launch& l) {
  const ChannelShape s(a.x, a.groups);
  if (layout_of({a.x}) == Layout::rows)
    stats_of_rows(a, s, static_cast<float*>(l.workspace));
  else if (s.batch())
    batch_stats_of_planes(a, s, static_cast<Cell*>(l.workspace));
  else
    stats_of_planes(a, s);
}
#endif

}  // namespace wt

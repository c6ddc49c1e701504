#include <algorithm>
#include <charconv>
#include <cstring>

#include "warptape/autograd/grads.h"
#include "warptape/bench/gpu/launched.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/profiler.h"
#include "warptape/core/random.h"

namespace wt::bench {
namespace {

// Takes the first launch of a contract. Every word of the arguments that points into a live block
// holds that block: operands, saved statistics, device scalars.
class Recorder : public profiler::Observer {
 public:
  Recorder(Problem& p, void* args, size_t size, ListOperands list)
      : problem_(p), args_(args), size_(size), list_(list) {}
  std::shared_ptr<Operands> operands;  // null until it is launched

  void begin(const profiler::Range& r) noexcept override {
    if (operands || r.kind != profiler::Kind::kernel || problem_.contract != r.name) return;
    std::memcpy(args_, r.args, size_);
    operands = std::make_shared<Operands>();
    list_(args_, *operands);
    for (Storage* s : blocks_)
      if (s->device == problem_.device && points_into(*s)) held_.push_back(s), retain(s);
  }
  void allocated(const profiler::Memory& m) noexcept override {
    blocks_.push_back(static_cast<Storage*>(const_cast<void*>(m.storage)));
  }
  void released(const profiler::Memory& m) noexcept override { std::erase(blocks_, m.storage); }

  // When nobody watches any more: what is held lives as long as the problem.
  void keep_blocks() {
    for (Storage* s : held_)
      problem_.keep.push_back(from_blob(s->data, {s->bytes},
                                        [](void* block) { release(static_cast<Storage*>(block)); },
                                        s, {.dtype = DType::u8, .device = s->device}));
  }

 private:
  bool points_into(const Storage& s) const {
    for (size_t at = 0; at + sizeof(u64) <= size_; at += sizeof(u64)) {
      u64 word;
      std::memcpy(&word, static_cast<const char*>(args_) + at, sizeof word);
      if (word - reinterpret_cast<u64>(s.data) < u64(s.bytes)) return true;
    }
    return false;
  }
  Problem& problem_;
  void* args_;
  size_t size_;
  ListOperands list_;
  std::vector<Storage*> blocks_, held_;
};

Draw draw_of(Fill f) {
  switch (f) {
    case Fill::positive:
      return Draw::positive;
    case Fill::above_one:
      return Draw::above_one;
    case Fill::within_one:
      return Draw::within_one;
    default:
      return Draw::normal;
  }
}
Tensor made(Maker& m, const Given& g, DType t, Device d) {
  switch (g.fill) {
    case Fill::index:
      return m.indices(g.shape, g.limit);
    case Fill::truth:
      return m.indices(g.shape, 2).to(DType::boolean);
    case Fill::lengths:
      return full(g.shape, g.limit, {.dtype = DType::i64, .device = d});
    case Fill::zeros:
      return full(g.shape, -0.0, {.dtype = t, .device = d});
    default:
      return m.normal(g.shape, t, draw_of(g.fill)).set_requires_grad(is_floating(t));
  }
}

void call_operator(const Call& call, const std::vector<Tensor>& in, Maker& m, const Recorder& r) {
  manual_seed(7);
  const Tensor y = call.run(in);
  if (r.operands || !y.requires_grad()) return;
  std::vector<Tensor> leaves;
  for (const Tensor& x : in)
    if (x.requires_grad()) leaves.push_back(x);
  (void)grads(y, leaves, {.grad_outputs = {m.normal(y.shape(), y.dtype())}, .allow_unused = true});
}

// "64x1000" and " causal" of "64x1000 causal".
struct ShapeText {
  std::vector<i64> sizes;
  std::string words;
};
ShapeText read_shape(const std::string& text) {
  ShapeText s;
  const char *at = text.data(), *const end = at + text.size();
  for (;;) {
    i64 n = 0;
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc() || n < 1) return {{}, text};
    s.sizes.push_back(n);
    at = next;
    if (at == end || *at != 'x') break;
    ++at;
  }
  s.words = std::string(at, end);
  return s;
}

// The call at sizes that lead the text of one of the row's own shapes, which has the other numbers.
Call call_at(const CallRow& row, const std::string& contract, const std::string& text) {
  if (row.call_of_text)
    if (std::optional<Call> call = row.call_of_text(text)) return *std::move(call);
  const ShapeText wanted = read_shape(text);
  std::string forms;
  for (const Shape& own : row.small) {
    const std::string own_text = row.call(own).text;
    const ShapeText form = read_shape(own_text);
    forms += (forms.empty() ? "" : ", ") + own_text;
    if (row.call_of_text || wanted.sizes.empty() || form.sizes.size() != wanted.sizes.size() ||
        i64(form.sizes.size()) > own.ndim() ||
        (wanted.words != form.words && !wanted.words.empty()))
      continue;
    Shape s = own;
    bool leads = true;
    for (size_t i = 0; i < form.sizes.size(); ++i) {
      leads &= own[int(i)] == form.sizes[i];
      s[int(i)] = wanted.sizes[i];
    }
    if (leads) return row.call(s);
  }
  throw UsageError(
      str("'", text, "' is no shape of ", contract, ", which has the form of ", forms));
}

}  // namespace

void Operands::own(View& v) {
  if (v) v.geometry = &geometries_.emplace_back(*v.geometry);
}

i64 Operands::extent(const View& v) {
  i64 elements = 1;
  for (int i = 0; v && i < v.ndim(); ++i) elements += (v.size(i) - 1) * v.stride(i);
  return elements;
}

std::vector<Tensor> Operands::make_outputs(Device d) const {
  std::vector<Tensor> all;
  for (const Written& w : written_) {
    const TensorOptions options{.dtype = w.dtype, .device = d};
    if (w.there) {
      all.push_back(from_blob(w.there, {w.elements}, borrow, options));
    } else {
      all.push_back(empty({w.elements}, options));
      *w.to_be_set = all.back().impl()->data;
    }
  }
  return all;
}

void take_launch(Problem& p, const Call& call, int set, void* args, size_t size,
                 ListOperands list) {
  Maker m(p.device, u64(set) * 1000 + 1, p.keep);
  std::vector<Tensor> in;
  for (const Given& g : call.given)
    p.keep.push_back(in.emplace_back(made(m, g, p.dtype, p.device)));
  Recorder r(p, args, size, list);
  {
    const profiler::ObserverScope watch(r);
    call_operator(call, in, m, r);
  }
  if (!r.operands)
    throw InternalError(str("[bench] the row of ", p.contract, " does not launch it"));
  r.keep_blocks();
  const std::vector<Tensor> outputs = r.operands->make_outputs(p.device);
  p.keep.insert(p.keep.end(), outputs.begin(), outputs.end());
  if (set == 0) p.outputs = outputs, p.in_place = r.operands->in_place();
  p.operands.push_back(r.operands);
}

void Launchers::add(const Row& row) { by_contract[row.contract->name] = row; }

Problem launched(const std::string& contract, const Call& call, Device d, DType t, int sets) {
  static const Launchers all = [] {
    Launchers l;
    add_launchers(l);
    return l;
  }();
  Problem p;
  p.contract = contract, p.shape = call.text, p.dtype = t, p.device = d;
  const Launchers::Row& row = all.by_contract.at(contract);
  if (!row.contract->count(d.kind)) return p;
  std::vector<ArgsBytes> args;
  for (int k = 0; k < sets; ++k) {
    ArgsBytes& a = args.emplace_back(row.contract->args_size);
    take_launch(p, call, k, a.data(), a.size(), row.list);
  }
  add_variants(p, *row.contract, std::move(args));
  return p;
}

void add_launched_rows(std::vector<ProblemRow>& rows) {
  std::vector<CallRow> calls;
  add_call_rows(calls);
  for (const CallRow& c : calls)
    for (const std::string& contract : c.contracts) {
      const auto make = [c, contract](Device d, DType t, Scale scale, int shape, int sets) {
        const auto& sizes = scale == Scale::small  ? c.small
                            : scale == Scale::host ? c.host
                                                   : c.real;
        const Call call = c.call(sizes[std::min(size_t(shape), sizes.size() - 1)]);
        return launched(contract, call, d, t, sets);
      };
      const auto sized = [c, contract](Device d, DType t, const std::string& shape, int sets) {
        return launched(contract, call_at(c, contract, shape), d, t, sets);
      };
      rows.push_back({contract, c.dtypes, int(c.real.size()), make, sized});
    }
}

}  // namespace wt::bench

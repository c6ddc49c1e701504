#include "warptape/autograd/leak_watch.h"

#include <algorithm>
#include <unordered_set>

#include "warptape/autograd/live_graph.h"
#include "warptape/core/error.h"
#include "warptape/core/memory_limit.h"

namespace wt::memory {

std::string Leak::text() const {
  std::string text = str(what, ": ", results,
                         graph ? " results are kept with their graphs (" : " tensors are kept (");
  if (graph) text += str(nodes, " nodes, ");
  text += bytes_text(bytes);
  if (graph) text += " saved";
  text += ")";
  if (bytes_a_step) text += str(", ", bytes_text(bytes_a_step), " more in the last step");
  return text;
}

LeakWatch::LeakWatch(LeakWatchOptions o)
    : options_(std::move(o)), trace_(options_.device, {.history = false}) {
  if (options_.steps < 1)
    throw UsageError(str("[LeakWatch] steps must be at least 1, got ", options_.steps));
}

void LeakWatch::measure(std::map<Place, Grown>& all, const std::map<Place, Leak>& found) const {
  for (auto& [place, g] : all) g.seen = false;
  for (const auto& [place, leak] : found) {
    Grown& g = all[place];
    const i64 measure = leak.graph ? leak.nodes : leak.results;
    const i64 bytes_before = g.now.bytes;
    g.rising = measure > g.measure ? g.rising + 1 : 0;
    g.measure = measure;
    g.now = leak;
    g.now.bytes_a_step = std::max<i64>(0, leak.bytes - bytes_before);
    g.seen = true;
  }
  std::erase_if(all, [](const auto& entry) { return !entry.second.seen; });
}

void LeakWatch::step() {
  std::map<Place, Leak> graphs, tensors;
  const detail::LiveGraph live;
  std::unordered_map<const Node*, bool> seen;
  std::unordered_set<const Storage*> counted;
  for (Node* end : live.ends()) {
    Leak& l = graphs[{end->info, end->frame, end->mode_id, nullptr, Category::activation}];
    if (l.what.empty()) l.what = wt::describe(end);
    l.graph = true;
    ++l.results;
    live.for_each_below(end, seen, [&](Node* n) {
      ++l.nodes;
      for (u32 i = 0; i < n->n_slots; ++i)
        for (const detail::HeldTensor& h : detail::held_by(n->slots[i]))
          if (const Storage* s = h.tensor->storage;
              s->category == Category::activation && counted.insert(s).second)
            l.bytes += s->bytes;
    });
  }
  for (const Holder& h : trace_.live()) {
    Leak& l = tensors[{h.op, h.frame, h.mode_id, h.backward, h.category}];
    l.what = h.title();
    l.results += h.blocks;
    l.bytes += h.bytes;
  }
  measure(graphs_, graphs);
  measure(tensors_, tensors);
}

std::vector<Leak> LeakWatch::leaks() const {
  std::vector<Leak> found;
  const auto add = [&](const std::map<Place, Grown>& all) {
    for (const auto& [place, g] : all)
      if (g.rising >= options_.steps) found.push_back(g.now);
  };
  add(graphs_);
  if (found.empty()) add(tensors_);
  std::stable_sort(found.begin(), found.end(),
                   [](const Leak& a, const Leak& b) { return a.bytes > b.bytes; });
  return found;
}

std::string LeakWatch::report() const {
  std::string text;
  for (const Leak& l : leaks())
    text += str("leak: ", l.text(), "\n  ",
                l.graph ? "Try keeping item() or detach() of it, or NoGrad where nothing is trained"
                        : "Try keeping item(), or letting go of the one before",
                "\n");
  return text;
}

}  // namespace wt::memory

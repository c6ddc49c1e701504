// The tape as a table and as JSON.
#include <algorithm>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/tape/tape_view.h"

namespace wt::tools {
namespace {

template <class List, class Json>
std::string tape_json_list(const List& list, const Json& json) {
  std::string text;
  for (const auto& v : list) text += (text.empty() ? "" : ",") + json(v);
  return "[" + text + "]";
}

std::string kernels_json(const std::vector<TapeKernel>& kernels) {
  return tape_json_list(kernels, [](const TapeKernel& k) {
    return JsonObject().add("kernel", k.name).add("launches", k.launches).str();
  });
}

std::string node_json(const TapeView& v, const TapeNode& n) {
  return JsonObject()
      .add("node", n.sequence)
      .add("op", n.op)
      .add("module", n.module)
      .add("line", n.line)
      .add_raw("outputs", tape_json_list(n.outputs, json_quote))
      .add_raw("inputs",
               tape_json_list(n.inputs,
                              [&](int i) { return std::to_string(v.nodes[size_t(i)].sequence); }))
      .add_raw("parameters", tape_json_list(n.parameters, json_quote))
      .add("saved_bytes", n.saved_bytes)
      .add_raw("saved", tape_json_list(n.saved,
                                       [](const TapeSaved& s) {
                                         return JsonObject()
                                             .add("tensor", s.tensor)
                                             .add("what", s.what)
                                             .add("bytes", s.bytes)
                                             .add("counts", s.counts)
                                             .str();
                                       }))
      .add_raw("forward", kernels_json(n.forward))
      .add_raw("backward", kernels_json(n.backward))
      .str();
}

std::string tape_padded(const std::string& text, size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

}  // namespace

std::string tape_json(const TapeView& v) {
  return JsonObject()
             .add("recipe", v.recipe)
             .add("device", v.device)
             .add("precision", v.precision)
             .add("batch", v.batch)
             .add("saved_bytes", v.saved_bytes())
             .add_raw("nodes",
                      tape_json_list(v.nodes, [&](const TapeNode& n) { return node_json(v, n); }))
             .str() +
         "\n";
}

// The newest node last, as it was recorded; backward goes from the bottom up.
std::string tape_table(const TapeView& v) {
  std::vector<std::vector<std::string>> rows{{"op", "output", "keeps", "line", "backward"}};
  for (const TapeNode& n : v.nodes)
    rows.push_back({n.module.empty() ? n.op : str(n.module, ".", n.op),
                    n.outputs.empty() ? "" : n.outputs.front(),
                    n.saved_bytes ? bytes_text(n.saved_bytes) : "", printable(n.line),
                    kernels_text(n.backward)});
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text = str(v.recipe, " on ", v.device, ", ", v.precision, ", batch ", v.batch, ": ",
                         v.nodes.size(), " nodes keep ", bytes_text(v.saved_bytes()), "\n\n");
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += tape_padded(row[i], widths[i] + 2);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace wt::tools

#include "warptape/tools/wt/training/run_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"

namespace wt::tools {
namespace {

void add_optional(JsonObject& out, const char* key, const std::optional<double>& value) {
  value ? out.add(key, *value) : out.add_null(key);
}

std::string header_line(const RunHeader& header) {
  JsonObject options;
  for (const auto& [key, value] : header.options) {
    std::visit(
        [&, &name = key](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
            options.add_null(name);
          } else {
            options.add(name, v);
          }
        },
        value);
  }
  return JsonObject()
      .add("schema", 1)
      .add("version", header.version)
      .add("recipe", header.recipe)
      .add("device", header.device)
      .add("seed", header.seed)
      .add_raw("options", options.str())
      .str();
}

using Fields = std::map<std::string, JsonScalar, std::less<>>;

const JsonScalar* field(const Fields& fields, std::string_view key) {
  const auto at = fields.find(key);
  return at == fields.end() ? nullptr : &at->second;
}

double number(const Fields& fields, std::string_view key) {
  const JsonScalar* const value = field(fields, key);
  return value ? value->number() : std::numeric_limits<double>::quiet_NaN();
}

std::optional<double> optional_number(const Fields& fields, std::string_view key) {
  const JsonScalar* const value = field(fields, key);
  if (!value || value->kind == JsonScalar::Kind::null) return {};
  return value->number();
}

// Not by way of a double, which has no room for all of them and may be no integer at all.
std::optional<u64> optional_integer(const Fields& fields, const char* key,
                                    const std::string& path) {
  const JsonScalar* const value = field(fields, key);
  if (!value || value->kind == JsonScalar::Kind::null) return {};
  u64 v = 0;
  const char* const end = value->text.data() + value->text.size();
  const auto [at, error] = std::from_chars(value->text.data(), end, v);
  if (value->kind != JsonScalar::Kind::number || error != std::errc() || at != end)
    throw DataError(str(printable(path, 400), ": '", key, "' of step ",
                        printable(field(fields, "step")->text, 20), " is ",
                        printable(value->text, 40), ", expected an integer"));
  return v;
}

// One line after the first, whose fields are all scalars.
Fields read_fields(JsonReader& json) {
  Fields fields;
  json.expect('{');
  do {
    std::string key = json.string();
    json.expect(':');
    if (!fields.emplace(std::move(key), json.scalar()).second) json.fail("a key appears twice");
  } while (json.accept(','));
  json.expect('}');
  json.finish();
  return fields;
}

i64 step_of(const Fields& fields, const JsonReader& json) {
  const double step = number(fields, "step");
  if (!(step >= 0 && step < 9e15) || step != std::floor(step)) {
    json.fail("the line has no 'step' that is a whole number");
  }
  return static_cast<i64>(step);
}

void read_header(JsonReader& json, RunHistory& out) {
  bool schema_seen = false;
  json.expect('{');
  do {
    const std::string key = json.string();
    json.expect(':');
    if (key == "options") {
      json.expect('{');
      if (json.accept('}')) continue;
      do {
        std::string name = json.string();
        json.expect(':');
        const JsonScalar value = json.scalar();
        out.options.emplace_back(std::move(name), value.text);
      } while (json.accept(','));
      json.expect('}');
      continue;
    }
    const JsonScalar value = json.scalar();
    if (key == "schema") {
      if (value.text != "1") json.fail("schema " + printable(value.text, 20) + " is not 1");
      schema_seen = true;
    }
    if (key == "version") out.version = value.text;
    if (key == "recipe") out.recipe = value.text;
    if (key == "device") out.device = value.text;
    if (key == "seed") out.seed = value.text;
  } while (json.accept(','));
  json.expect('}');
  json.finish();
  if (!schema_seen) json.fail("the first line has no 'schema': this is no metrics.jsonl");
}

// Calls on_record(step, fields) for each whole record line until it returns false; returns the size
// of the part before that line, or of all whole lines.
u64 scan(const std::string& path, const std::string& text, RunHistory& out,
         const std::function<bool(i64, const Fields&)>& on_record) {
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    JsonReader json(std::string_view(text).substr(begin, end - begin), path, begin);
    if (begin == 0) {
      read_header(json, out);
      continue;
    }
    const Fields fields = read_fields(json);
    if (!on_record(step_of(fields, json), fields)) break;
  }
  return begin;
}

std::string read_all(const std::string& path) {
  const InputFile file(path);
  if (file.size() > (u64{1} << 31)) data_error(path, 0, "metrics of more than 2 GiB");
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size(), "the metrics");
  return text;
}

}  // namespace

MetricsWriter MetricsWriter::create(const std::string& path, const RunHeader& header) {
  MetricsWriter out(path);
  if (out.file_.size() > 0) {
    throw CheckpointError(printable(path, 400) +
                          " cannot be written: it holds the history of another run; resume that "
                          "one or give this run another folder");
  }
  out.append(header_line(header));
  return out;
}

MetricsWriter MetricsWriter::resume(const std::string& path, const RunHeader& header, i64 step,
                                    bool evaluated) {
  MetricsWriter out(path);
  const std::string text = read_all(path);
  RunHistory history;
  // What is dropped need not be readable.
  const u64 size = scan(path, text, history, [&](i64 at, const Fields& fields) {
    return at < step || (at == step && (evaluated || !field(fields, "eval_loss")));
  });
  out.dropped_ = std::count(text.begin() + static_cast<std::ptrdiff_t>(size), text.end(), '\n');
  if (size < text.size()) out.file_.cut(size);
  if (size == 0) out.append(header_line(header));
  return out;
}

void MetricsWriter::log(const StepRecord& r) {
  JsonObject out;
  out.add("step", r.step).add("epoch", r.epoch).add("loss", r.loss).add("lr", r.lr);
  add_optional(out, "grad_norm", r.grad_norm);
  add_optional(out, "scale", r.scale);
  add_optional(out, "items_per_second", r.items_per_second);
  r.bytes ? out.add("bytes", *r.bytes) : out.add_null("bytes");
  add_optional(out, "slowest_ms", r.slowest_ms);
  append(out.str());
}

void MetricsWriter::log(const EvalRecord& r) {
  JsonObject out;
  out.add("step", r.step).add("epoch", r.epoch).add("eval_loss", r.eval_loss);
  add_optional(out, "accuracy", r.accuracy);
  if (r.top5) out.add("top5", *r.top5);
  if (r.bleu) out.add("bleu", *r.bleu);
  if (r.sample) out.add("eval_samples", r.sample->taken).add("held_out_samples", r.sample->of);
  append(out.str());
}

RunHistory read_metrics(const std::string& path) {
  RunHistory out;
  const std::string text = read_all(path);
  scan(path, text, out, [&](i64 step, const Fields& fields) {
    const double epoch = number(fields, "epoch");
    if (field(fields, "eval_loss")) {
      out.evals.push_back(
          {step, epoch, number(fields, "eval_loss"), optional_number(fields, "accuracy")});
      if (field(fields, "top5")) out.evals.back().top5 = optional_number(fields, "top5");
      if (field(fields, "bleu")) out.evals.back().bleu = optional_number(fields, "bleu");
      const std::optional<u64> taken = optional_integer(fields, "eval_samples", path),
                               of = optional_integer(fields, "held_out_samples", path);
      if (taken && of) out.evals.back().sample = EvalSample{i64(*taken), i64(*of)};
      return true;
    }
    StepRecord r{step, epoch, number(fields, "loss"), number(fields, "lr")};
    r.grad_norm = optional_number(fields, "grad_norm");
    r.scale = optional_number(fields, "scale");
    r.items_per_second = optional_number(fields, "items_per_second");
    r.bytes = optional_integer(fields, "bytes", path);
    r.slowest_ms = optional_number(fields, "slowest_ms");
    out.steps.push_back(r);
    return true;
  });
  return out;
}

}  // namespace wt::tools

// wt bench generate
#include <cstdio>

#include "warptape/bench/steps/generation.h"
#include "warptape/core/device.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct GenerateCommand {
  std::vector<std::string> precisions{"f32"};
  std::string device = "cpu";
  bench::GenerationOptions text;
  int threads = 0;  // 0: as many as there are
  bool json = false;
};

void print_text_row(const bench::Row& r) {
  const auto more = [&](size_t i) { return three_digits(r.more[i].second); };
  std::printf("%-12s %-12s %-5s %10s %10s %10s %10s %10s %10s %10s %10s\n", r.bench.c_str(),
              r.shape.c_str(), r.dtype.c_str(), more(2).c_str(), more(3).c_str(),
              three_digits(r.time.median_us * 1e-3).c_str(),
              three_digits(r.more[0].second * 1e-3).c_str(),
              three_digits(r.bytes / r.time.median_us * 1e-3).c_str(),
              bytes_text(i64(r.more[4].second)).c_str(), bytes_text(i64(r.more[5].second)).c_str(),
              bytes_text(r.peak_bytes).c_str());
}

void show(const GenerateCommand& c) {
  bench::GenerationOptions o = c.text;
  o.device = device_for(c.device);
  if (c.threads > 0) set_num_threads(c.threads);
  const bench::Machine machine = bench::describe_machine(o.device);
  if (!c.json)
    std::printf("%-12s %-12s %-5s %10s %10s %10s %10s %10s %10s %10s %10s\n", "model", "text", "",
                "tokens/s", "at most", "ms a step", "ms prompt", "GB/s", "weights", "cache",
                "peak");
  for (const std::string& precision : c.precisions) {
    o.precision = precision;
    bench::Row r = bench::generation(o);
    r.more.push_back({"threads", double(num_threads())});
    if (c.json)
      std::printf("%s\n", to_json(r, machine).c_str());
    else
      print_text_row(r);
    flush_stdout();
  }
}

}  // namespace

void add_bench_generate(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "generate",
      "text of a model by name, token by token with its cache: tokens a second, the prompt's time "
      "apart, bytes; bench/peers/generate.py sets Hugging Face's transformers beside it");
  auto o = std::make_shared<GenerateCommand>();
  c.add_option("--model", o->text.model).check(one_of(bench::generation_models())).show_default();
  c.add_option("--precision", o->precisions,
               "of weights, cache and logits; and further --precision; default: f32")
      .check(one_of({"f32", "f16", "bf16"}))
      .one_value_each_time();
  c.add_option("--batch", o->text.batch, "rows at a time").check(at_least(1)).show_default();
  c.add_option("--prompt", o->text.prompt, "tokens that are there")
      .check(at_least(1))
      .show_default();
  c.add_option("--tokens", o->text.tokens, "that come after them")
      .check(at_least(2))
      .show_default();
  c.add_option("--weights", o->text.weights, "a safetensors file; default: made-up numbers");
  c.add_option("--save", o->text.save, "the weights, in f32, to this safetensors file");
  c.add_option("--device", o->device, "cpu, simt, cuda:N").show_default();
  c.add_option("--threads", o->threads, "default: OMP_NUM_THREADS, else one a processor")
      .check(at_least(1));
  c.add_option("--windows", o->text.windows, "how many times the text is written")
      .check(at_least(1))
      .show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] {
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools

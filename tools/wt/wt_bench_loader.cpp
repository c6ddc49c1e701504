// wt bench loader
#include <cstdio>

#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/image_loader.h"
#include "warptape/bench/loader.h"
#include "warptape/bench/loader_tiers.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct LoaderCommand {
  bench::LoaderBenchOptions epochs;
  bench::TierOptions tiers;
  bench::ImageLoaderOptions images;  // instead of both, where it has a root
  std::string device = "cpu";
  bool no_tiers = false, json = false;
};

void print_epochs(const LoaderCommand& c) {
  if (!c.json)
    std::printf("%-26s %-22s %12s %10s %10s %10s\n", "loader", "shape", "us an epoch", "p10", "p90",
                "min");
  const bench::Machine machine = bench::describe_machine(Device::cpu());
  const bool folder = !c.images.root.empty();
  for (const bench::LoaderRow& r :
       folder ? bench::image_loader(c.images) : bench::loader(c.epochs)) {
    const std::string impl = str("warptape ", r.data, " workers ", r.workers);
    if (!c.json) {
      std::printf("%-26s %-22s %12.0f %10.0f %10.0f %10.0f\n", impl.c_str(), r.shape.c_str(),
                  r.median_us, r.p10_us, r.p90_us, r.min_us);
      continue;
    }
    bench::Row row{
        .bench = "loader", .impl = impl, .shape = r.shape, .dtype = folder ? "u8" : "f32"};
    row.time = {r.median_us, r.p10_us, r.p90_us, r.min_us, c.epochs.epochs};
    row.bytes = r.bytes;
    row.more = {{"workers", double(r.workers)}, {"check_loss", r.check}};
    std::printf("%s\n", to_json(row, machine).c_str());
  }
}

void print_tiers(const LoaderCommand& c) {
  const bench::Machine machine = bench::describe_machine(c.tiers.device);
  const std::vector<bench::TierRow> rows = bench::loader_tiers(c.tiers);
  if (!c.json)
    std::printf(
        "\nbatches on %s from where the data can be kept; stall: the part of a step of "
        "training (784-128-10, in all of `us a step`) that waits for its batch\n"
        "%-10s %-28s %12s %11s %8s %14s %9s\n",
        to_string(c.tiers.device).c_str(), "tier", "shape", "images/s", "us a step", "stall",
        "sent, B/batch", "launches");
  for (const bench::TierRow& r : rows) {
    if (!c.json) {
      std::printf("%-10s %-28s %12.0f %11.1f %7.1f%% %14.0f %9.3g\n", r.tier.c_str(),
                  r.shape.c_str(), r.images_s, r.step_us, 100 * r.stall_share, r.bytes_a_step,
                  r.launches);
      continue;
    }
    bench::Row row{.bench = "loader_tiers", .impl = r.tier, .shape = r.shape, .dtype = "f32"};
    const double us = double(c.tiers.batch) / r.images_s * 1e6;  // of a batch
    row.time = {us, us, us, us, c.tiers.rounds};
    row.more = {{"images_s", r.images_s},       {"step_us", r.step_us},
                {"stall_share", r.stall_share}, {"host_to_device_bytes", r.bytes_a_step},
                {"launches", r.launches},       {"workers", double(r.workers)},
                {"check_loss", r.check}};
    std::printf("%s\n", to_json(row, machine).c_str());
  }
}

}  // namespace

void add_bench_loader(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "loader",
      "an epoch of Fashion-MNIST in shuffled batches, nothing done with them, by workers; then the "
      "same batches from each tier that data can be kept in: files, mapped files, host memory, the "
      "device");
  auto o = std::make_shared<LoaderCommand>();
  const Option data = c.add_option("--data", o->epochs.root, "folder of Fashion-MNIST's IDX files");
  c.add_option("--images", o->images.root,
               "a folder of classes of images instead, by workers: decoded, resized, u8 batches")
      .excludes(data);
  c.add_option("--side", o->images.size, "height and width that images are cut and resized to")
      .check(at_least(1))
      .show_default();
  c.add_flag("--fast-downscale", o->images.fast_downscale, "JPEG decoded at 1/2, 1/4 or 1/8 first");
  c.add_option("--batch", o->epochs.batch).check(at_least(1)).show_default();
  c.add_option("--workers", o->epochs.workers, "a row for each of these numbers")
      .check(at_least(0))
      .show_default();
  c.add_option("--epochs", o->epochs.epochs).check(at_least(1)).show_default();
  c.add_option("--device", o->device, "of the tiers' batches: cpu, cuda:N or simt").show_default();
  c.add_option("--batches", o->tiers.batches, "of a tier, at most; 0: an epoch")
      .check(at_least(0))
      .show_default();
  c.add_option("--rounds", o->tiers.rounds, "of each tier, of which the best one counts")
      .check(at_least(1))
      .show_default();
  c.add_flag("--no-tiers", o->no_tiers, "only the epochs by workers");
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] {
    if (o->epochs.root.empty() && o->images.root.empty())
      throw UsageError("wt bench loader: --data or --images");
    o->tiers.device = Device::parse(o->device.c_str());
    require_available(o->tiers.device);
    o->tiers.root = o->epochs.root;
    o->tiers.batch = o->epochs.batch;
    o->images.batch = o->epochs.batch, o->images.workers = o->epochs.workers;
    o->images.epochs = o->epochs.epochs;
    print_epochs(*o);
    flush_stdout();
    if (!o->no_tiers && o->images.root.empty()) print_tiers(*o);
    code = 0;
  });
}

}  // namespace wt::tools

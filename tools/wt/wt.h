// The subcommands of `wt`. Each adds itself to the parser; what it returns goes into `code`.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "warptape/core/dtype.h"

namespace wt::tools {

// Checks that an option's value is one of these; else the near name is part of the error.
CLI::Validator one_of(std::vector<std::string> allowed);
// Finite numbers.
CLI::Validator positive();
CLI::Validator not_negative();
CLI::Validator from_0_to(double most);
// Integers of 64 bits.
CLI::Validator at_least(long long least);
// 0 to 2^64 - 1, digits alone: CLI11 takes -1 for the largest.
CLI::Validator a_seed();

// f32, f16, bf16 or f64, as an option's one_of() has let through.
DType float_named(const std::string& name);

// "a,b"; "-" for none.
std::string joined(const std::vector<std::string>& list);

// The contracts of --op: those called so, all whose names begin so, or those that an operator of
// this name runs. UsageError.
std::vector<std::string> contracts_of(const std::vector<std::string>& names);
std::vector<std::string> contracts_of_operator(const std::string& name);  // none: no such operator

void add_info(CLI::App& app, int& code);
void add_ops(CLI::App& app, int& code);
void add_train(CLI::App& app, int& code);
void add_eval(CLI::App& app, int& code);
void add_predict(CLI::App& app, int& code);
void add_generate(CLI::App& app, int& code);
void add_tune(CLI::App& app, int& code);
void add_memory(CLI::App& app, int& code);
void add_data(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
// Of `wt data`:
void add_data_info(CLI::App& data, int& code);
void add_data_pack(CLI::App& data, int& code);
void add_data_show(CLI::App& data, int& code);
void add_data_verify(CLI::App& data, int& code);
// Of `wt bench`:
void add_bench_allreduce(CLI::App& bench, int& code);
void add_bench_overlap(CLI::App& bench, int& code);
void add_bench_scaling(CLI::App& bench, int& code);
void add_bench_model(CLI::App& bench, int& code);
void add_bench_counters(CLI::App& bench, int& code);
void add_bench_compare(CLI::App& bench, int& code);
void add_bench_ladder(CLI::App& bench, int& code);
void add_bench_gemm(CLI::App& bench, int& code);
void add_bench_loader(CLI::App& bench, int& code);
void add_bench_roofline(CLI::App& bench, int& code);
void add_bench_throughput(CLI::App& bench, int& code);
// The table of `wt bench counters` of these contracts, f32 if no other is named.
int print_counters(const std::vector<std::string>& contracts, const std::string& dtype);

}  // namespace wt::tools

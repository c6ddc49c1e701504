// The subcommands of `wt`. Each adds itself to the parser; what it returns goes into `code`.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/tools/wt/command_line.h"

namespace wt::tools {

// Checks that an option's value is one of these; else the near name is part of the error.
Check one_of(std::vector<std::string> allowed);
// The same of a list that is made when a value is there, not at every start of wt.
Check one_of(std::vector<std::string> (*allowed)());
// Finite numbers.
Check positive();
Check not_negative();
Check from_0_to(double most);
Check from_to(double least, double most);
// Integers of 64 bits.
Check at_least(long long least);
Check from_to(int least, int most);
// 0 to 2^64 - 1, digits alone: CLI11 takes -1 for the largest.
Check a_seed();

// f32, f16, bf16 or f64, as an option's one_of() has let through.
DType float_named(const std::string& name);

// "a,b"; "-" for none.
std::string joined(const std::vector<std::string>& list);

// The contracts of --op: those called so, all whose names begin so, or those that an operator of
// this name runs. UsageError.
std::vector<std::string> contracts_of(const std::vector<std::string>& names);

struct TrainOptions;
// The options of `wt train`, and its recipes in words.
// Gives the recipe's own, which a command may require.
Option add_train_options(const Command& c, const std::shared_ptr<TrainOptions>& o);
std::string recipes_text();
// UsageError for options that would have no effect as they are given.
void check_given(Command c, const TrainOptions& o);

void add_info(Command app, int& code);
void add_ops(Command app, int& code);
void add_models(Command app, int& code);
// Of `wt models`, whose own callback comes after it and finds `ran` set.
void add_models_race(Command models, const std::shared_ptr<bool>& ran, int& code);
void add_train(Command app, int& code);
void add_eval(Command app, int& code);
void add_predict(Command app, int& code);
void add_generate(Command app, int& code);
void add_translate(Command app, int& code);
void add_tune(Command app, int& code);
void add_memory(Command app, int& code);
void add_profile(Command app, int& code);
void add_doctor(Command app, int& code);
void add_look(Command app, int& code);
void add_step(Command app, int& code);
void add_tape(Command app, int& code);
void add_data(Command app, int& code);
void add_bench(Command app, int& code);
void add_diff(Command app, int& code);
void add_grade(Command app, int& code);
void add_lab(Command app, int& code);
// Of `wt data`:
void add_data_info(Command data, int& code);
void add_data_pack(Command data, int& code);
void add_data_show(Command data, int& code);
void add_data_verify(Command data, int& code);
// Of `wt bench`:
void add_bench_allreduce(Command bench, int& code);
void add_bench_overlap(Command bench, int& code);
void add_bench_scaling(Command bench, int& code);
void add_bench_model(Command bench, int& code);
void add_bench_counters(Command bench, int& code);
void add_bench_compare(Command bench, int& code);
void add_bench_ladder(Command bench, int& code);
void add_bench_gemm(Command bench, int& code);
void add_bench_generate(Command bench, int& code);
void add_bench_loader(Command bench, int& code);
void add_bench_machine(Command bench, int& code);
void add_bench_roofline(Command bench, int& code);
void add_bench_step(Command bench, int& code);
void add_bench_throughput(Command bench, int& code);
// The contracts that have problems to measure.
std::vector<std::string> benched_contracts();
// The table of `wt bench counters` of these contracts, f32 if no other is named.
int print_counters(const std::vector<std::string>& contracts, const std::string& dtype);

}  // namespace wt::tools

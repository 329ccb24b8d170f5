#include "tolk/engine/run/run_linear.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "tolk/base/clock.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/test_switches.h"
#include "tolk/device/registry.h"
#include "tolk/engine/graph/graph_runner.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/prepared.h"
#include "tolk/engine/run/run_profile.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/engine/run/storage_range.h"
#include "tolk/engine/run/validate_with_cpu.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"

namespace tolk::engine {

namespace {

std::atomic<uint64_t> launched{0}; // graphs

// Counts what ran, including when a later call fails.
struct Tally {
  bool enabled;
  int64_t launches = 0;
  double ops = 0, mem = 0, seconds = 0;
  void add(const Step& step, std::optional<double> time) {
    launches += step.launches, ops += step.estimates.ops, mem += step.estimates.mem;
    if (time) seconds += *time;
  }
  void flush() {
    if (enabled && launches) count_execution(launches, ops, mem, seconds);
    launches = 0, ops = mem = seconds = 0;
  }
  ~Tally() { flush(); }
};

// The settings of one run.
struct Run {
  BufferBinding& binding;
  const ToProgram& make_program;
  const ExecContext& context;
  bool wait, lines, opts, validate;
  RunProfile* profile; // null: no profile is taken
};

std::optional<double> run_kernel(const Run& run, Step& step) {
  if (run.validate) {
    for (const Position& p : step.positions) {
      const uint64_t begin = now_ns();
      run_validated(step, p);
      if (run.profile) run.profile->add(step, p, run.context.var_vals, begin, now_ns()).estimated = true;
    }
    return {};
  }
  if (!run.wait) {
    for (Position& p : step.positions) p.program->launch(p.ordered, p.values, p.grid, p.local);
    return {};
  }
  // Positions on devices with queues run side by side: everything is submitted before anything is waited for.
  bool together = step.positions.size() > 1 && step.positions[0].device->stream() != nullptr;
  double longest = 0;
  const uint64_t begin = now_ns();
  for (Position& p : step.positions) {
    uint64_t ns = 0;
    p.program->launch(p.ordered, p.values, p.grid, p.local, together ? nullptr : &ns);
    longest = std::max(longest, double(ns) * 1e-9);
    if (!run.profile || together) continue;
    const uint64_t end = now_ns();
    run.profile->add(step, p, run.context.var_vals, std::max(begin, end - std::min(end, ns)), end);
  }
  if (!together) return longest;
  uint64_t end = begin;
  for (Position& p : step.positions) {
    p.device->synchronize();
    end = now_ns();
    if (run.profile) run.profile->add(step, p, run.context.var_vals, begin, end);
  }
  return double(end - begin) * 1e-9;
}

std::optional<double> run_copy(const Run& run, Step& step) {
  const uint64_t begin = run.wait ? now_ns() : 0;
  // Copies to several devices run side by side: all are submitted before any is waited for.
  const bool together = step.positions.size() > 1;
  for (Position& p : step.positions) {
    // A write to either side since then made the memory separate (copy-on-write).
    p.in_place = p.in_place && same_memory(*p.arguments[0], *p.arguments[1]);
    if (!p.in_place) p.copy->call(p.arguments, run.context.var_vals, run.wait && !together, {});
  }
  if (!run.wait) return {};
  for (Position& p : step.positions) {
    if (together) p.device->synchronize();
    if (run.profile && !p.in_place) run.profile->add(step, p, run.context.var_vals, begin, now_ns());
  }
  return double(now_ns() - begin) * 1e-9;
}

// Binds the node of a SLICE call to the view that the call describes. False when it is bound to that view
// already.
bool bind_view(const Run& run, const Step& step) {
  const UOp &body = step.call.src(0), &out = step.arguments[0];
  int64_t offset = body.arg().i(0) + (body.nsrc() > 1 ? body.src(1).const_int() : 0);
  auto count = uint64_t(elements_of(body));
  AnyBuffer source = resolve_buffer(run.binding, run.context, step.arguments[1]);
  AnyBuffer view = view_of(source, body.dtype(), count, uint64_t(offset));
  const AnyBuffer* known = run.binding.find_buffer(out);
  auto same = [](const BufferRef& a, const BufferRef& b) {
    return range_of(*a) == range_of(*b) && a->dtype() == b->dtype();
  };
  if (known && is_multi(*known) == is_multi(view) && std::ranges::equal(shards(*known), shards(view), same))
    return false;
  run.binding.seed(out, std::move(view));
  return true;
}

void run_steps(PreparedLinear& prepared, const Run& run);

// `view_bound`: an earlier step of this run bound a view, which the inner calls may read.
std::optional<double> run_graph(const Run& run, Step& step, bool view_bound, bool& counted) {
  if (!step.graph) step.graph = std::make_unique<GraphRunner>(step.call);
  PreparedLinear& inner = *step.inner;
  if (view_bound) inner.update(run.binding, run.make_program, run.context);
  std::optional<double> seconds;
  const uint64_t begin = run.profile ? now_ns() : 0;
  // Validation looks at every kernel, so it takes the calls one by one.
  if (!run.validate && step.graph->run(run.binding, inner, run.context, run.wait, seconds)) {
    launched.fetch_add(1, std::memory_order_relaxed);
    if (run.profile)
      run.profile->add_graph(*step.graph, inner, run.binding.ambient().name(), run.context.var_vals, begin,
                             now_ns());
    return seconds;
  }
  counted = true; // call by call, counted there
  run_steps(inner, run);
  return {};
}

// One line of DEBUG=2 for each position of a call.
void print_line_for(const Step& step, bool first_run, std::optional<double> seconds, const Run& run) {
  GlobalCounters now = GlobalCounters::get();
  static const bool plain = !environment("NO_COLOR").empty();
  for (size_t j = 0; j < std::max<size_t>(step.positions.size(), 1); ++j) {
    const Position* p = j < step.positions.size() ? &step.positions[j] : nullptr;
    std::string name, where = p ? p->device->name() : run.binding.ambient().name();
    size_t arguments = p ? p->arguments.size() : step.arguments.size();
    if (step.kind == Step::Kind::Kernel)
      name = step.entry->info.name;
    else if (step.kind == Step::Kind::Copy)
      name = p->copy->display_name;
    else
      name = "batched " + std::to_string(graph_linear(step.call).nsrc());
    char head[64], rest[160];
    std::snprintf(head, sizeof head, "*** %-7.7s %4lld", where.c_str(),
                  static_cast<long long>(now.kernel_count) - static_cast<long long>(step.launches) +
                      static_cast<long long>(j) + 1);
    double s = std::max(seconds.value_or(0), 1e-9), n = double(std::max<size_t>(step.positions.size(), 1));
    std::snprintf(rest, sizeof rest,
                  " %-46s arg %2zu mem %6.2f GB tm %9.2fus/%9.2fms (%8.2f GFLOPS %7.2f|%-7.2f GB/s)",
                  name.c_str(), arguments, double(now.mem_used) / 1e9, s * 1e6, now.time_sum_s * 1e3,
                  step.estimates.ops / n / s * 1e-9, step.estimates.mem / n / s * 1e-9,
                  step.estimates.lds / n / s * 1e-9);
    const char* colour = run.context.jit ? "\033[35m" : first_run ? "\033[32m" : "";
    if (plain || !*colour)
      log::debug(2, std::string(head) + rest);
    else
      log::debug(2, colour + std::string(head) + "\033[0m" + rest);
  }
}

// DEBUG=3: how a kernel was optimised, before it runs for the first time.
void print_opts(const Step& step) {
  std::string text = "opts of " + step.entry->info.name + ":";
  for (const std::string& opt : step.entry->info.opts) text += " " + opt;
  log::debug(3, step.entry->info.opts.empty() ? text + " none" : text);
}

void run_steps(PreparedLinear& prepared, const Run& run) {
  Tally tally{run.context.update_stats};
  std::vector<Step>& steps = prepared.steps();
  const bool first_run = prepared.runs == 0;
  bool view_bound = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    std::optional<double> seconds;
    bool counted = false;
    switch (step.kind) {
    case Step::Kind::Kernel:
      if (step.state == Step::State::Unresolved) [[unlikely]]
        prepared.resolve(step, run.binding, run.make_program, run.context);
      if (run.opts && first_run) [[unlikely]]
        print_opts(step);
      seconds = run_kernel(run, step);
      break;
    case Step::Kind::Copy:
      if (step.state == Step::State::Unresolved) [[unlikely]]
        prepared.resolve(step, run.binding, run.make_program, run.context);
      seconds = run_copy(run, step);
      break;
    case Step::Kind::View:
      if (bind_view(run, step)) prepared.view_changed(i), view_bound = true;
      continue;
    case Step::Kind::Graph:
      seconds = run_graph(run, step, view_bound, counted);
      break;
    }
    if (counted) continue;
    tally.add(step, seconds);
    if (run.lines) {
      tally.flush();
      print_line_for(step, first_run, seconds, run);
    }
  }
  ++prepared.runs;
}

} // namespace

void run_linear(Device& ambient, const ToProgram& make_program, BufferBinding& binding, const UOp& linear,
                const RunOptions& options) {
  const Config& config = Config::current();
  bool lines = config.debug >= 2;
  std::optional<RunProfile> profile;
  if (options.update_stats && profiling()) profile.emplace();
  Run run{.binding = binding,
          .make_program = make_program,
          .context = options,
          .wait = options.wait || lines || profile,
          .lines = lines,
          .opts = config.debug >= 3,
          .validate = config.validate_with_cpu != 0,
          .profile = profile ? &*profile : nullptr};
  PreparedLinear& prepared = PreparedLinears::of(binding).get(ambient, make_program, linear, options.jit);
  prepared.update(binding, make_program, options);
  run_steps(prepared, run);
  if (test_switches().poison.load(std::memory_order_relaxed)) [[unlikely]]
    binding.poison(prepared.arenas());
}

void run_linear(BufferBinding& binding, const UOp& linear, const RunOptions& options) {
  static const ToProgram own;
  run_linear(binding.ambient(), own, binding, linear, options);
}

void prepare_linear(BufferBinding& binding, const UOp& linear, const VarVals& var_vals,
                    const Progress& progress) {
  static const ToProgram own;
  PreparedLinears::of(binding)
      .get(binding.ambient(), own, linear, false, progress)
      .update(binding, own, {.var_vals = var_vals});
}

uint64_t graph_launches() { return launched.load(std::memory_order_relaxed); }

size_t count_kernels(const UOp& linear) {
  size_t count = 0;
  for (const UOp& call : calls_of(linear)) {
    if (is_graph_call(call)) {
      count += count_kernels(graph_linear(call));
    } else if (call.src(0).is(OpSet(Op::SINK, Op::PROGRAM))) {
      count += positions_of(call);
    }
  }
  return count;
}

} // namespace tolk::engine

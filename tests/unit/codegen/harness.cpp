#include "harness.h"

#include <cmath>
#include <cstring>

#include <boost/test/unit_test.hpp>
#include <tolk/plugin/target.h>

#include "interp.h"
#include "tolk/base/config.h"
#include "tolk/codegen/loops.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/symbolic/symbolic.h"
#include "tolk/uop/traverse.h"

namespace tolk_test {

using namespace tolk;
using namespace tolk::codegen;

Target avx2_target() {
  Target t;
  t.dialect = "kernel-ir";
  t.arch = "avx2";
  t.vector_bytes = 32;
  t.cores = 2;
  t.has_threads = true;
  t.features = TOLK_FEATURE_ALL;
  return t;
}
Target bare_target() {
  Target t = avx2_target();
  t.features = 0;
  return t;
}
Target scalar_target() {
  Target t = avx2_target();
  t.vector_bytes = 0;
  t.has_threads = false;
  t.cores = 1;
  return t;
}

std::vector<Target> group_targets() {
  struct Device {
    const char* name;
    uint32_t subgroup;
    int64_t groups, items;
    uint64_t shared_bytes;
  };
  std::vector<Target> all;
  for (const Device& d :
       {Device{"discrete", 32, INT32_MAX, 1024, 48 << 10}, Device{"integrated", 16, 65535, 512, 32 << 10},
        Device{"software", 8, 65535, 1024, 32 << 10}, Device{"small", 4, 3, 6, 0}}) {
    Target t = scalar_target();
    t.arch = d.name;
    t.has_local = true;
    t.subgroup = d.subgroup;
    t.coalesces = t.arch == "discrete" || t.arch == "integrated";
    t.group_max = {d.groups, 1, 1};
    t.local_max = {d.items, 1, 1};
    t.local_product_max = d.items;
    t.shared_bytes = d.shared_bytes;
    all.push_back(t);
  }
  return all;
}

namespace {

std::vector<UOp> params_of(const UOp& ast) {
  std::vector<UOp> params;
  for (const UOp& u : toposort(ast))
    if (u.is(Op::PARAM)) {
      size_t slot = size_t(slot_of(u));
      if (params.size() <= slot) params.resize(slot + 1);
      params[slot] = u;
    }
  return params;
}

void read_back(Data& d, const std::vector<std::byte>& bytes) {
  int width = bits(d.dtype) / 8;
  for (size_t i = 0; i < d.size(); ++i) {
    uint64_t raw = 0;
    std::memcpy(&raw, bytes.data() + i * size_t(width), size_t(width));
    if (is_float(d.dtype))
      d.floats[i] = float_from_bits(d.dtype, raw);
    else
      d.integers[i] = int64_t(wrap_to(d.dtype, __int128(raw)));
  }
}

void compare(const UOp& ast, const Kernel& kernel, std::vector<Data> start, double tolerance,
             const std::vector<int64_t>& variables) {
  std::vector<Data> want = start, got = std::move(start);
  evaluate(ast, want, variables);
  std::string opts;
  for (const std::string& o : kernel.info.opts) opts += o + " ";
  try {
    run(kernel, got, variables);
  } catch (const tolk_interp::Error& e) {
    BOOST_FAIL(e.text + "\nopts " + opts + "\n" + print_kernel(ast) + print(kernel.ir));
  }
  for (size_t b = 0; b < got.size(); ++b)
    for (size_t i = 0; i < got[b].size(); ++i) {
      bool same = true;
      double g = 0, w = 0;
      if (is_float(got[b].dtype)) {
        g = got[b].floats[i], w = want[b].floats[i];
        same = g == w || (std::isnan(g) && std::isnan(w)) ||
               (tolerance > 0 && std::abs(g - w) <= tolerance * std::max(1.0, std::abs(w)));
      } else {
        g = double(got[b].integers[i]), w = double(want[b].integers[i]);
        same = got[b].integers[i] == want[b].integers[i];
      }
      if (!same) {
        BOOST_FAIL("buffer " << b << " element " << i << ": got " << g << ", want " << w << "\nopts " << opts
                             << "\n"
                             << print_kernel(ast) << print(kernel.ir));
      }
    }
  BOOST_CHECK(true);
}

} // namespace

std::vector<std::byte> bytes_of(const Data& d) {
  int width = bits(d.dtype) / 8;
  BOOST_REQUIRE(width >= 1);
  std::vector<std::byte> out(d.size() * size_t(width));
  for (size_t i = 0; i < d.size(); ++i) {
    uint64_t raw = is_float(d.dtype) ? float_to_bits(d.dtype, d.floats[i]) : uint64_t(d.integers[i]);
    std::memcpy(out.data() + i * size_t(width), &raw, size_t(width));
  }
  return out;
}

int rounds(int usual) {
  std::string text = environment("TOLK_TEST_ROUNDS");
  return text.empty() ? usual : std::stoi(text);
}

std::vector<Data> make_buffers(const UOp& ast, uint64_t seed, Fill fill) {
  std::mt19937_64 random(seed);
  std::vector<Data> out;
  for (const UOp& p : params_of(ast)) {
    Data d;
    if (p) {
      d.dtype = p.dtype();
      for (int64_t i = 0; i < elements_of(p); ++i) {
        int64_t small = int64_t(random() % 9) - 4;
        if (is_float(d.dtype))
          d.floats.push_back(fill == Fill::Small
                                 ? double(small)
                                 : round_to(d.dtype, double(int64_t(random() >> 11)) * 0x1p-52 - 1));
        else if (is_bool(d.dtype))
          d.integers.push_back(small & 1);
        else
          d.integers.push_back(is_unsigned(d.dtype) ? small + 4 : small);
      }
    }
    out.push_back(std::move(d));
  }
  return out;
}

void run(const Kernel& kernel, std::vector<Data>& buffers, const std::vector<int64_t>& variables) {
  tolk_interp::Kernel k = tolk_interp::copy_kernel(kernel.ir.view());
  tolk_interp::check(k);
  auto program = tolk_interp::decode(std::move(k));
  std::vector<std::vector<std::byte>> bytes;
  std::vector<tolk_interp::BufferArg> args;
  for (int slot : kernel.info.globals) bytes.push_back(bytes_of(buffers.at(size_t(slot))));
  for (size_t i = 0; i < bytes.size(); ++i) args.push_back({bytes[i].data(), bytes[i].size(), true});
  std::vector<uint64_t> values(variables.begin(), variables.end());
  tolk_interp::LaunchArgs launch;
  for (int axis = 0; axis < 3; ++axis) {
    launch.grid[axis] = uint32_t(kernel.info.grid[axis]);
    launch.local[axis] = uint32_t(kernel.info.local[axis]);
  }
  launch.buffers = args;
  launch.values = values;
  tolk_interp::run(*program, launch);
  for (size_t i = 0; i < bytes.size(); ++i) read_back(buffers.at(size_t(kernel.info.globals[i])), bytes[i]);
}

void check(const UOp& ast, const Target& target, const std::vector<Opt>& opts, double tolerance, Fill fill,
           const std::vector<int64_t>& variables) {
  compare(ast, compile_with(ast, target, opts), make_buffers(ast, 1, fill), tolerance, variables);
}
void check_plain(const UOp& ast, const Target& target, double tolerance, Fill fill,
                 const std::vector<int64_t>& variables) {
  compare(ast, compile(ast, target, {.no_opt = true}), make_buffers(ast, 2, fill), tolerance, variables);
}
void check_heuristic(const UOp& ast, const Target& target, double tolerance, Fill fill,
                     const std::vector<int64_t>& variables) {
  compare(ast, compile(ast, target, {.threads = 2}), make_buffers(ast, 3, fill), tolerance, variables);
}

std::vector<Opt> random_opts(const UOp& root, std::mt19937_64& random) {
  Arena arena;
  ArenaScope scope(&arena);
  Schedule schedule(merge_loops(drop_unused_loops(simplify(import_graph(root)))));
  std::vector<Opt> list;
  static constexpr int64_t kAmounts[] = {0, 2, 3, 4, 5, 7, 8, 16};
  for (int trial = 0; trial < 14; ++trial) {
    OptKind kind = OptKind(random() % (uint64_t(OptKind::Sink) + 1));
    int64_t axis = int64_t(random() % uint64_t(schedule.next_axis + 1));
    int64_t amount = kAmounts[random() % 8];
    if (kind == OptKind::Merge || kind == OptKind::Sink)
      amount = int64_t(random() % uint64_t(schedule.next_axis + 1));
    // Keep the kernels small: the product of all lanes stays below 300.
    int64_t lanes = 1;
    for (const UOp& u : toposort(schedule.ast))
      if (u.is(Op::RANGE) && (axis_type(u) == AxisType::Upcast || axis_type(u) == AxisType::Unroll ||
                              axis_type(u) == AxisType::Vector))
        lanes *= u.src(0).const_int();
    if (lanes * std::max<int64_t>(amount, 1) > 300) continue;
    Opt opt{kind, axis, amount};
    if (!apply(schedule, opt)) list.push_back(opt);
    if (list.size() == 5) break;
  }
  return list;
}

} // namespace tolk_test

// Saved captures whose code is not that of their graphs, as an attacker would write them: right checksums,
// right target keys. Without trust no byte of that code runs; what is computed is what the graph says.
#include <algorithm>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/bounded_kernel.h"
#include "tolk/engine/capture/saved_program.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/tensor/saved_jit.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

using namespace tolk;
using namespace jit_test;

namespace {

// A file taken apart: everything an attacker can edit.
struct Parts {
  std::vector<Section> sections;
  std::vector<UOp> nodes; // of section graph, which programs name by position
  engine::SavedTargets targets;
  std::vector<engine::ProgramEntry> programs;

  explicit Parts(const std::string& file)
      : sections(unpack(engine::kCaptureMagic, engine::kCaptureVersion, file, "saved capture")) {
    UOp root = parse_graph(bytes("graph"));
    nodes.assign(root.src().begin(), root.src().end());
    targets = engine::read_targets({"targets", bytes("targets")});
    PackReader in("programs", bytes("programs"));
    auto node = [&](PackReader& r) {
      int64_t at = r.number();
      return at < 0 ? UOp() : nodes[size_t(at)];
    };
    programs = in.list<engine::ProgramEntry>(
        [&](PackReader& r) { return engine::read_program(r, targets, node, true); });
  }
  std::string& bytes(const std::string& name) {
    return std::ranges::find(sections, name, &Section::name)->bytes;
  }
  std::string file() {
    PackWriter code, keys;
    engine::SavedTargets written;
    auto place = [&](const UOp& u) {
      return u ? int64_t(std::ranges::find(nodes, u) - nodes.begin()) : int64_t{-1};
    };
    code.list(programs, [&](PackWriter& w, const engine::ProgramEntry& e) {
      engine::write_program(w, e, written, place);
    });
    engine::write_targets(keys, written);
    bytes("programs") = code.bytes(), bytes("targets") = keys.bytes();
    return pack(engine::kCaptureMagic, engine::kCaptureVersion, sections);
  }
};

// Code with everything the checks compare, of another kernel.
void take_code(engine::ProgramEntry& to, const engine::ProgramEntry& from) {
  engine::ProgramEntry graph = to;
  to = from;
  to.sink = graph.sink;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  BOOST_REQUIRE_MESSAGE(at != text.npos, from + " is not in\n" + text);
  text.replace(at, from.size(), to);
}

// Two kernels, so that there are two to swap: x*2 stored, then its flip plus `add`.
std::string saved(float factor, float add) {
  Jit f([&](Tensor x) { return ((x * factor).contiguous().flip({0}) + add).contiguous(); });
  f(tensor({1, 2, 3})), f(tensor({1, 2, 3}));
  return save_jit(f);
}
const Floats kInput = {1, 2, 3}, kOfGraph = {16, 14, 12}, kOfAttacker = {307, 207, 107};

struct Attack {
  const char* name;
  void (*edit)(Parts& file, const Parts& attacker);
  // With trust, the foreign code runs and the result is another one: the attack is a real one.
  bool effective = false;
  Floats graph = kOfGraph; // what the edited graph computes
};

const Attack kAttacks[] = {
    {"all code is another file's, in the order of the kernels",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i) take_code(f.programs[i], a.programs[i]);
     },
     true},
    {"the first kernel's code is another file's",
     [](Parts& f, const Parts& a) { take_code(f.programs[0], a.programs[0]); }, true},
    {"the second kernel's code is another file's",
     [](Parts& f, const Parts& a) { take_code(f.programs[1], a.programs[1]); }, true},
    {"only the compiled bytes are another's",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i) f.programs[i].binary = a.programs[i].binary;
     }},
    {"another's kernel IR stands beside the compiled bytes",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i)
         f.programs[i].kernel =
             std::make_shared<codegen::Kernel>(codegen::compile(a.programs[i].sink, {}, {}));
     }},
    {"the kernels have each other's code",
     [](Parts& f, const Parts&) {
       engine::ProgramEntry first = f.programs[0];
       take_code(f.programs[0], f.programs[1]);
       take_code(f.programs[1], first);
     }},
    {"both kernels have the first one's code",
     [](Parts& f, const Parts&) { take_code(f.programs[1], f.programs[0]); }},
    {"foreign code under the file's own kernel names",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i) {
         std::string name = f.programs[i].info.name;
         take_code(f.programs[i], a.programs[i]);
         f.programs[i].info.name = name;
       }
     }},
    {"bytes that are no object", [](Parts& f, const Parts&) { f.programs[0].binary.assign(4000, '\x90'); }},
    {"bytes that begin as an object",
     [](Parts& f, const Parts&) {
       f.programs[0].binary = "\x7f"
                              "ELF" +
                              std::string(4000, '\xcc');
     }},
    {"no bytes at all", [](Parts& f, const Parts&) { f.programs[0].binary.clear(); }},
    {"a forged target: another machine's key",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i) {
         take_code(f.programs[i], a.programs[i]);
         f.programs[i].target_key = std::string(f.programs[i].target_key.size(), '?');
       }
     }},
    {"a forged target: an index that the device does not have",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i) {
         take_code(f.programs[i], a.programs[i]);
         f.programs[i].target_index = 7;
       }
     }},
    {"flags that promise no overlap",
     [](Parts& f, const Parts& a) {
       take_code(f.programs[0], a.programs[0]);
       f.programs[0].flags = 0, f.programs[0].may_alias = false;
     },
     true},
    {"a launch of other size", [](Parts& f, const Parts&) { f.programs[1].info.grid[0] = 0; }},
    {"a launch of very many groups", [](Parts& f, const Parts&) { f.programs[1].info.grid[0] = 1 << 20; }},
    {"work-group storage that no device has",
     [](Parts& f, const Parts&) { f.programs[0].info.shared_bytes = uint64_t{1} << 62; }},
    {"a graph that adds another number, with the old code",
     [](Parts& f, const Parts&) {
       replace(f.bytes("graph"), "#4621819117588971520\n", "#4622382067542392832\n");
     },
     false,
     {17, 15, 13}},
    {"an edited graph with foreign code",
     [](Parts& f, const Parts& a) {
       for (size_t i = 0; i < f.programs.size(); ++i) take_code(f.programs[i], a.programs[i]);
       replace(f.bytes("graph"), "#4621819117588971520\n", "#4622945017495814144\n");
     },
     false,
     {18, 16, 14}},
    {"settings that ask for slow code",
     [](Parts& f, const Parts&) { replace(f.bytes("meta"), "NOOPT=0", "NOOPT=1"); }},
    {"settings that are none",
     [](Parts& f, const Parts&) { replace(f.bytes("meta"), "NOOPT=0", "NOOPT=x"); }},
};

// The result of the loaded file, or the refusal.
struct Outcome {
  Floats values;
  std::string refused;
};
Outcome outcome(const std::string& file, bool trust) {
  try {
    return {load_jit(file, {.trust_code = trust})(tensor(kInput))[0].values<float>(), {}};
  } catch (const Error& e) {
    return {{}, e.what()};
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(code_that_is_not_the_graphs_never_runs) {
  on_each_device([](const std::string& device) {
    std::string file = saved(2, 10), attacker = saved(100, 7);
    BOOST_TEST((outcome(file, false).values == kOfGraph), device);
    BOOST_TEST((outcome(attacker, false).values == kOfAttacker), device);
    size_t computed = 0;
    for (const Attack& attack : kAttacks)
      for (bool cached : {true, false}) {
        Settings settings([&](Config& c) { c.compile_cache = cached; });
        engine::clear_caches();
        Parts parts(file);
        attack.edit(parts, Parts(attacker));
        std::string hostile = parts.file();
        Outcome o = outcome(hostile, false);
        BOOST_TEST((!o.refused.empty() || o.values == attack.graph), device << ": " << attack.name);
        computed += o.refused.empty();
        if (!attack.effective) continue;
        Outcome trusted = outcome(hostile, true);
        BOOST_TEST(trusted.refused.empty(), device << ": " << attack.name << ": " << trusted.refused);
        BOOST_TEST((trusted.values != attack.graph), device << ": " << attack.name);
      }
    BOOST_TEST(computed >= 20U, device); // most of the files are good enough to run
  });
}

// p0[i] = p1[i + offset] for 4 elements of each.
UOp reading_at(int64_t offset, const UOp& gate_below = {}) {
  UOp i = range_node(4, 0, AxisType::Loop), at = i + offset;
  UOp gate = gate_below ? less(at, gate_below) : UOp();
  UOp from = param_node(1, DType::F32, 4), value = load(from, at, gate, constant(DType::F32, 7.0));
  std::vector<UOp> ranges{i}, effects{end(store(param_node(0, DType::F32, 4), i, value), ranges)};
  return make(Op::SINK, DType::Void, effects, Arg({int64_t{0}}, {std::string("k")}));
}

size_t gates(const UOp& kernel) {
  size_t n = 0;
  for (const UOp& u : toposort(kernel)) n += u.is(Op::LOAD) && u.nsrc() > 2;
  return n;
}

BOOST_AUTO_TEST_CASE(a_kernel_that_could_leave_its_argument_gets_a_test) {
  BOOST_TEST((engine::bounded_kernel(reading_at(0)) == reading_at(0))); // proven by bounds
  BOOST_TEST((engine::bounded_kernel(reading_at(2, index_const(4))) == reading_at(2, index_const(4))));
  BOOST_TEST(gates(engine::bounded_kernel(reading_at(2))) == 1U); // without any gate
  UOp lying = reading_at(2, index_const(5));                      // with a wrong one
  BOOST_TEST((engine::bounded_kernel(lying) != lying));
  BOOST_TEST((engine::bounded_kernel(reading_at(-1, index_const(4))) != reading_at(-1, index_const(4))));
  // What has its test is proven.
  UOp once = engine::bounded_kernel(reading_at(2));
  BOOST_TEST((engine::bounded_kernel(once) == once));
}

BOOST_AUTO_TEST_CASE(a_graph_edited_to_read_beyond_its_argument_reads_nothing_there) {
  on_each_device([](const std::string& device) {
    Jit f([](Tensor x) { return (x.narrow(0, 1, 3) * 2).contiguous(); }); // reads x[i + 1], i < 3
    f(tensor({1, 2, 3, 4})), f(tensor({1, 2, 3, 4}));
    Parts parts(save_jit(f));
    std::string& graph = parts.bytes("graph");
    size_t at = graph.find("CONST index #1\n");
    BOOST_REQUIRE_MESSAGE(at != graph.npos, graph);
    graph.replace(at, 15, "CONST index #3\n"); // x[i + 3]
    std::string refused;
    Floats got;
    try {
      got = load_jit(parts.file())(tensor({1, 2, 3, 4}))[0].values<float>();
    } catch (const FormatError& e) {
      refused = e.what();
    }
    BOOST_TEST((!refused.empty() || got == Floats{8, 0, 0}), device);
  });
}

BOOST_AUTO_TEST_CASE(trusted_code_does_not_get_into_the_cache) {
  on_each_device([](const std::string& device) {
    std::string file = saved(2, 10), attacker = saved(100, 7);
    Parts parts(file);
    for (size_t i = 0; i < parts.programs.size(); ++i)
      take_code(parts.programs[i], Parts(attacker).programs[i]);
    std::string hostile = parts.file();
    LoadedJit trusted = load_jit(hostile, {.trust_code = true});
    BOOST_TEST((trusted(tensor(kInput))[0].values<float>() == kOfAttacker), device);
    (void)engine::save_capture(*trusted.replay());
    for (int round = 0; round < 2; ++round, engine::clear_caches()) {
      BOOST_TEST((outcome(hostile, false).values == kOfGraph), device);
      BOOST_TEST((outcome(file, false).values == kOfGraph), device);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_cut_or_newer_file_is_refused_with_and_without_trust) {
  DeviceScope scope("INTERP");
  std::string file = saved(2, 10);
  Parts parts(file);
  for (bool trust : {false, true}) {
    for (size_t part = 1; part < 8; ++part)
      BOOST_TEST(!outcome(file.substr(0, file.size() * part / 8), trust).refused.empty(), part);
    std::string newer = pack(engine::kCaptureMagic, engine::kCaptureVersion + 1, parts.sections);
    BOOST_TEST(has(outcome(newer, trust).refused, "this library reads up to"));
  }
}

BOOST_AUTO_TEST_CASE(a_warm_cache_loads_without_compiling) {
  on_each_device([](const std::string& device) {
    std::string file = saved(3, 5);
    engine::clear_caches(); // what another process begins with
    engine::LoadedCapture warm = engine::load_capture(file);
    BOOST_TEST(warm.compiled == 0U, device);
    BOOST_TEST(warm.reused == 2U, device);
    Settings settings([](Config& c) { c.compile_cache = 0; });
    engine::clear_caches();
    engine::LoadedCapture cold = engine::load_capture(file);
    BOOST_TEST(cold.compiled == 2U, device);
    BOOST_TEST(cold.reused == 0U, device);
    engine::clear_caches();
    BOOST_TEST(engine::load_capture(file, {.trust_code = true}).compiled == 0U, device);
  });
}

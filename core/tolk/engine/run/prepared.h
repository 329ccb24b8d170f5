// A LINEAR prepared to run in one binding: its calls as steps with loaded programs, resolved storage and
// evaluated sizes. Internal to the engine: run_linear keeps these between runs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/buffer_copy.h"
#include "tolk/engine/run/resolve.h"

namespace tolk::engine {

// One launch or copy of a step: one for each device position.
struct Position {
  Device* device = nullptr;
  std::vector<BufferRef> arguments; // all of the call; a copy has (destination, source)
  // Kernels: the buffers and values of the program, in its order.
  ProgramRef program;
  std::vector<Buffer*> ordered;
  std::vector<int64_t> values;
  std::array<uint32_t, 3> grid{}, local{};
  // Copies. In place: the destination is the source's memory, as long as neither side was given other memory.
  std::unique_ptr<Runner> copy;
  bool in_place = false;
};

// Whether both are allocated and the host sees them at one address.
bool same_memory(Buffer& a, Buffer& b);

class PreparedLinear;

// What the launches of a step depend on besides the binding. A set of flags.
enum class DependsOn : uint8_t {
  Nothing = 0,
  Inputs = 1,    // its storage depends on inputs of the run
  Views = 2,     // its storage depends on a view that an earlier step binds
  Variables = 4, // its values or sizes depend on variables
};
constexpr DependsOn operator|(DependsOn a, DependsOn b) { return DependsOn(uint8_t(a) | uint8_t(b)); }
constexpr DependsOn& operator|=(DependsOn& a, DependsOn b) { return a = a | b; }

struct Step {
  enum class Kind : uint8_t { Kernel, Copy, View, Graph };
  enum class State : uint8_t {
    Unresolved,  // the storage is unknown, or may have changed
    Ready,       // the positions can be launched
    Overlapping, // the same, with the program for written arguments that overlap others
  };
  Kind kind = Kind::Kernel;
  State state = State::Unresolved;
  DependsOn depends = DependsOn::Nothing;
  bool on(DependsOn what) const { return (uint8_t(depends) & uint8_t(what)) != 0; }
  UOp call;
  std::vector<UOp> arguments; // that are storage
  // Arguments that are PARAMs. Empty when one reaches a PARAM through something else.
  std::vector<uint32_t> inputs;
  std::shared_ptr<const ProgramEntry> entry;
  UOp program;
  PreparedLinear* inner = nullptr;  // of a graph: its calls; owned by the binding
  std::unique_ptr<GraphCall> graph; // of a graph: what replays it; created at the first run
  std::vector<AnyBuffer> bound;     // the resolved arguments
  std::vector<Position> positions;
  int64_t launches = 1; // for statistics
  Estimates estimates;  // of all positions together
};

// One thread at a time, as its binding.
class PreparedLinear {
public:
  // Compiles and checks everything that does not depend on storage. Throws what run_linear throws.
  PreparedLinear(Device& ambient, const ToProgram& make_program, const UOp& linear, bool jit,
                 const Progress& progress);
  // Brings storage, values and sizes up to date with the binding and the run. Afterwards only steps that
  // depend on views can fail to resolve.
  void update(BufferBinding& binding, const ToProgram& make_program, const ExecContext& context);
  void resolve(Step& step, BufferBinding& binding, const ToProgram& make_program, const ExecContext& context);
  // After step `at` bound a view during a run: later steps resolve again, and all do at the next run.
  void view_changed(size_t at);

  const UOp& compiled() const { return compiled_; }
  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }
  std::span<const UOp> arenas() const { return arenas_; }
  // How many runs are complete.
  uint64_t runs = 0;

private:
  void check_variables(const VarVals& vars) const;
  bool rebind_inputs(Step& step, const ExecContext& context);
  void resolve_kernel(Step& step, BufferBinding& binding, const ToProgram& make_program,
                      const ExecContext& context);
  void resolve_copy(Step& step, std::vector<Position> before);
  void set_values(Step& step, const VarVals& vars);

  Device& ambient_;
  UOp compiled_;
  std::vector<Step> steps_;
  std::vector<UOp> arenas_; // internal BUFFERs that arguments reach through SLICEs
  std::optional<uint64_t> epoch_;
  std::optional<VarVals> vars_;
  std::vector<UOp> inputs_; // of the last run
  std::vector<AnyBuffer> overlay_;
  DependsOn depends_ = DependsOn::Nothing; // of any step
};

// The prepared LINEARs of a binding, by LINEAR, way of running and settings.
class PreparedLinears : public RunState {
public:
  static PreparedLinears& of(BufferBinding& binding);
  PreparedLinear& get(Device& ambient, const ToProgram& make_program, const UOp& linear, bool jit,
                      const Progress& progress = {});

private:
  struct Entry {
    UOp linear;
    bool jit;
    uint64_t settings;
    std::unique_ptr<PreparedLinear> prepared;
  };
  std::unordered_map<const UOpNode*, std::vector<Entry>> all_; // entries hold the nodes
};

} // namespace tolk::engine

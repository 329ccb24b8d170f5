// A LINEAR made ready to run in one binding: calls as steps with loaded programs, resolved storage and
// evaluated sizes. What run_linear keeps between runs; internal to the engine.
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
#include "tolk/engine/run/buffer_copy.h"
#include "tolk/engine/run/resolve.h"

namespace tolk::engine {

// One launch or copy of a call: one for each device position.
struct Position {
  Device* device = nullptr;
  std::vector<BufferRef> arguments; // all of the call; a copy has (destination, source)
  // Kernels: the buffers and values of the program, in its order.
  ProgramRef program;
  std::vector<Buffer*> ordered;
  std::vector<int64_t> values;
  std::array<uint32_t, 3> grid{}, local{};
  // Copies: the destination is the source's memory.
  bool in_place = false;
};

// Whether both are there and the host sees them at one address.
bool same_memory(Buffer& a, Buffer& b);

class PreparedLinear;

struct Step {
  enum class Kind : uint8_t { Kernel, Copy, View, Graph };
  Kind kind = Kind::Kernel;
  bool dynamic = false;  // its storage depends on the inputs of the run
  bool late = false;     // it depends on what an earlier view of the list binds
  bool variable = false; // values or sizes depend on variables
  bool resolved = false;
  bool ran = false;
  bool other_program = false; // arguments overlap, and the code that allows it runs
  UOp call;
  std::vector<UOp> arguments; // that are storage
  std::shared_ptr<const ProgramEntry> entry;
  UOp program;
  PreparedLinear* inner = nullptr; // of a graph: its calls; owned by the binding
  std::vector<AnyBuffer> bound;    // what the arguments were resolved to
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
  // Brings storage, values and sizes up to date with the binding and the run. After it, only steps that are
  // `late` can still fail to resolve.
  void update(BufferBinding& binding, const ToProgram& make_program, const ExecContext& context);
  void resolve(Step& step, BufferBinding& binding, const ToProgram& make_program, const ExecContext& context);
  // After a view was bound while running: what comes later resolves anew, and everything at the next run.
  void view_changed(size_t at);

  const UOp& compiled() const { return compiled_; }
  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }
  std::span<const UOp> arenas() const { return arenas_; }

private:
  void check_variables(const VarVals& vars) const;
  bool rebind_inputs(Step& step, const ExecContext& context);
  void resolve_kernel(Step& step, BufferBinding& binding, const ToProgram& make_program,
                      const ExecContext& context);
  void resolve_copy(Step& step);
  void set_values(Step& step, const VarVals& vars);

  Device& ambient_;
  UOp compiled_;
  std::vector<Step> steps_;
  std::vector<UOp> arenas_; // internal BUFFERs that calls see through SLICEs
  std::optional<uint64_t> epoch_;
  std::optional<VarVals> vars_;
  std::vector<UOp> inputs_; // of the last run
  std::vector<AnyBuffer> overlay_;
  bool any_dynamic_ = false, any_variable_ = false;
};

// The prepared LINEARs of a binding, by LINEAR, way of running and settings.
class PreparedLinears {
public:
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

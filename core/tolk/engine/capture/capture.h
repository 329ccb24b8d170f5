// A captured function: its kernels over inputs, and the metadata of a replay. Immutable, so any number of replays
// (engine/capture/replay.h) and threads may share one.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/any_buffer.h"
#include "tolk/engine/run/var_vals.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// One tensor input.
struct JitInput {
  UOp storage; // its BUFFER node
  // The value as a view of its storage: PARAM 0 without a device replaces the storage, variables replace the
  // BINDs. Null: all of the storage.
  UOp view = {};
  std::vector<std::string> vars = {}; // variables that the view is bound to, sorted
};
// Positional inputs by number, named ones by name.
using JitName = std::variant<int, std::string>;
struct JitInputs {
  std::vector<JitInput> inputs;
  VarVals var_vals;
  std::vector<JitName> names;
};
// The storage of a node; nothing when the node is not known.
using Resolver = std::function<std::optional<AnyBuffer>(const UOp& node)>;
// Nodes whose contents must survive the call.
using HeldNodes = std::function<std::vector<UOp>()>;

// What a replay requires of an input.
struct InputInfo {
  UOp view;
  std::vector<std::string> vars;
  int64_t size = 0; // elements of the storage
  DType dtype = DType::F32;
  std::string device;
  static InputInfo of(const JitInput& input);
};
// A variable that the kernels use, with its range.
struct JitVariable {
  std::string name;
  int64_t min = 0, max = 0;
};
// Storage that a capture uses besides its inputs.
enum class StorageRole {
  Arena,   // made for each replay object; its contents matter only during a replay
  Written, // every replay overwrites all of it before anything reads it: outputs
  State,   // kept from replay to replay: updated in place, loop-carried, results of what pruning ran once
  Weight,  // only read
};
struct JitStorage {
  UOp node; // a BUFFER
  StorageRole role;
};
// The same in a file (engine/capture/saved_capture.h).
struct SavedStorage {
  int64_t slot; // where it was saved
  DType dtype;
  int64_t elements;   // of each shard
  std::string device; // a list for several; as remapped
  StorageRole role;
};

// What a Capture consists of, recorded from a function or read from a file.
struct CaptureParts {
  std::string device; // where nodes without a device live
  std::function<UOp(Device& device, const UOp& sink, bool may_alias)> to_program; // engine::ToProgram
  UOp planned; // compiled, inputs as PARAMs, memory planned, not batched
  UOp linear;  // the same with batches of calls as graphs
  std::vector<InputInfo> expected;
  std::vector<JitName> names;
  std::vector<JitVariable> variables;
  std::vector<std::pair<UOp, AnyBuffer>> bound; // storage of nodes
  std::string settings;                         // Config::codegen_text of what it was compiled with
  std::vector<UOp> once;                        // of these, what pruning computed once: never freed
  // Inputs that the function returns as they are: none may lie in storage that a replay overwrites.
  std::vector<size_t> returned = {};
  std::any value = {}; // the function's result, in a form of its caller's
};

class TOLK_API Capture {
public:
  explicit Capture(CaptureParts parts); // runs nothing

  const UOp& linear() const { return parts_.linear; }          // what replays run
  const UOp& planned_linear() const { return parts_.planned; } // the same before batching
  size_t num_calls() const { return parts_.linear.nsrc(); }
  size_t num_kernels() const; // looking through graphs
  const std::string& device() const { return parts_.device; }
  const std::string& settings() const { return parts_.settings; }
  const std::vector<InputInfo>& expected() const { return parts_.expected; }
  const std::vector<JitName>& names() const { return parts_.names; }
  const std::vector<JitVariable>& variables() const { return parts_.variables; }
  // Every BUFFER of the planned LINEAR with its role, in order.
  const std::vector<JitStorage>& storage() const { return storage_; }
  const std::any& value() const { return parts_.value; }

  // --- for replays
  const CaptureParts& parts() const { return parts_; }
  bool writes_input(size_t i) const { return written_inputs_[i]; }
  // BUFFERs besides the inputs that replays write and nodes name.
  const std::vector<UOp>& written() const { return written_; }
  // Whether several calls write the arena. Such an arena is allocated early: otherwise a copy from the host could
  // import the host's memory as its storage, and updates would change that.
  bool is_updated_arena(const UOp& node) const { return updated_arenas_.contains(node); }
  // Throws JitError unless the inputs are what the kernels were captured with.
  void check(const JitInputs& inputs) const;

private:
  void assign_roles();

  CaptureParts parts_;
  std::vector<JitStorage> storage_;
  std::unordered_set<UOp, UOpHash> updated_arenas_;
  std::vector<bool> written_inputs_;
  std::vector<UOp> written_;
};

} // namespace tolk::engine

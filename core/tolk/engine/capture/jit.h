// A function that runs twice, once plainly and once being written down; from then on only its kernels run.
//
//   auto jit = TinyJit<UOp>::create({.function = [](const JitInputs& in) { ... realize ... return result;
//   }}); UOp y = jit.call(whole_inputs({x}), known_storage);
//
// Tensor programs use tensor/jit.h; this is the part below it, which knows storage nodes only. The function's
// effects must go through tensors: host code, branches and constants are frozen as the capture met them.
//
// Call 1 (Warmup) runs the function. Call 2 (Capture) runs it once more and takes what it schedules: inputs
// become PARAMs, kernels are compiled, temporaries share an arena, runs of kernels become graphs; then that
// is replayed. Later calls (Exec) check their inputs and replay. A call that is refused has no effect, a call
// that fails leaves the phase as it was.
//
// One thread at a time may use one object; different objects, also on one device, any threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/base/error.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/engine/run/var_vals.h"

namespace tolk::engine {

// One tensor that a call gets.
struct JitInput {
  UOp storage; // its BUFFER node
  // How the value lies in the storage: the value's node with the storage replaced by PARAM 0 without a
  // device, and bound variables without their values. Null: the storage as it is.
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
// Inputs that are whole buffers, numbered.
TOLK_API JitInputs whole_inputs(std::span<const UOp> storage, VarVals var_vals = {});

// What a replay expects of an input.
struct InputInfo {
  UOp view;
  std::vector<std::string> vars;
  int64_t size = 0; // elements of the storage
  DType dtype = DType::F32;
  std::string device;
};
// A variable that the captured kernels use, with its range.
struct JitVariable {
  std::string name;
  int64_t min = 0, max = 0;
};
// Storage that a capture uses besides its inputs.
enum class StorageRole {
  Arena,   // made for the capture; its contents matter only during a replay
  Written, // every replay overwrites it wholly before anything reads it: outputs
  State,   // kept from replay to replay: updated in place, loop-carried, results of what pruning ran once
  Weight,  // only read
};
struct JitStorage {
  UOp node; // a BUFFER
  StorageRole role;
};

// The storage of a node, or nothing when the node is not known.
using Resolver = std::function<std::optional<AnyBuffer>(const UOp& node)>;
// The storage that nodes have had so far; what resolvers of tensors are.
TOLK_API std::optional<AnyBuffer> known_storage(const UOp& node);
// Nodes whose contents must survive the call.
using HeldNodes = std::function<std::vector<UOp>()>;

// From what a CapturedJit is made: by a capture, or from a file.
struct CaptureParts {
  std::string device; // where nodes without a device live
  ToProgram to_program;
  UOp planned; // compiled, inputs as PARAMs, memory planned, not batched
  std::vector<InputInfo> expected;
  std::vector<JitName> names;
  std::vector<JitVariable> variables;
  std::vector<std::pair<UOp, AnyBuffer>> bound; // storage of nodes
  std::string settings;                         // Config::codegen_text of what it was compiled with
  std::vector<UOp> once;                        // of these, what pruning computed once: never freed
  // Inputs that the function returns as they are: none may lie in storage that a replay overwrites.
  std::vector<size_t> returned = {};
};

// The LINEAR with PARAM k in place of the storage of input k; puts names and what replays expect into
// `parts`.
TOLK_API UOp with_params(const UOp& list, const JitInputs& inputs, CaptureParts& parts);

// What a capture found, ready to be replayed.
class TOLK_API CapturedBase {
public:
  // Batches and binds; runs nothing.
  explicit CapturedBase(CaptureParts parts);
  ~CapturedBase();
  CapturedBase(const CapturedBase&) = delete;
  CapturedBase& operator=(const CapturedBase&) = delete;

  const UOp& linear() const { return linear_; }                // what replays run
  const UOp& planned_linear() const { return parts_.planned; } // the same before batching
  size_t num_calls() const { return linear_.nsrc(); }
  size_t num_kernels() const; // looking through graphs
  BufferBinding& binding() { return binding_; }
  const std::string& device() const { return parts_.device; }
  const std::string& settings() const { return parts_.settings; }
  const std::vector<InputInfo>& expected() const { return parts_.expected; }
  const std::vector<JitName>& names() const { return parts_.names; }
  const std::vector<JitVariable>& variables() const { return parts_.variables; }
  // Every BUFFER of the planned LINEAR with its role, in order.
  const std::vector<JitStorage>& storage() const { return storage_; }
  // How often an input was copied because replays would have overwritten it while reading it.
  uint64_t input_copies() const { return input_copies_; }

  // Checks the inputs, then runs. Throws JitError for inputs that are not as expected: "args mismatch in
  // JIT", "input count mismatch", "input I mismatch", "input I has no backing buffer", "duplicate inputs to
  // JIT", `variable "n"`; nothing has run then. All storage that is written has a new version afterwards.
  void replay(const JitInputs& inputs, const Resolver& buffers, bool wait = false);

  // Gives back the memory of arenas, of copies of inputs and of everything that replays overwrite before they
  // read it, outputs included: their contents are lost. The next replay takes memory anew.
  void free_intermediates();

private:
  struct Range {
    uint64_t begin, end;
    bool written;
  };
  using Ranges = std::unordered_map<uint64_t, std::vector<Range>>; // by base buffer

  void find_facts();
  void check(const JitInputs& inputs) const;
  std::vector<AnyBuffer> resolved(const JitInputs& inputs, const Resolver& buffers) const;
  void part_aliases(std::vector<AnyBuffer>& buffers);
  void synchronize() noexcept;

  CaptureParts parts_;
  Device& ambient_;
  UOp linear_;
  std::vector<std::string> devices_;
  std::vector<JitStorage> storage_;
  // Arenas that several calls write. They get storage of their own before a copy from the host can take the
  // host's memory over in its place, which would then keep the updates.
  std::unordered_set<UOp, UOpHash> updated_arenas_;
  std::vector<bool> written_inputs_;
  std::vector<UOp> written_; // BUFFERs besides the inputs that replays write and nodes name
  Ranges static_ranges_;     // what calls touch besides inputs
  std::vector<AnyBuffer> staging_;
  uint64_t input_copies_ = 0;
  BufferBinding binding_; // last: it goes first, with its graphs
};

template <class R> class CapturedJit : public CapturedBase {
public:
  CapturedJit(CaptureParts parts, R value) : CapturedBase(std::move(parts)), ret(std::move(value)) {}
  const R ret; // what the function returned when it was captured
};

enum class Phase { Warmup, Capture, Exec };

// Keeps calls of one object apart.
class InUse {
public:
  InUse() = default;
  InUse(const InUse&) {} // another object
  InUse& operator=(const InUse&) { return *this; }
  // Throws JitError: "having TinyJit inside another TinyJit is not supported" for a call inside a call,
  // "another thread is in a call" otherwise.
  class TOLK_API Claim {
  public:
    explicit Claim(InUse& object);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

  private:
    InUse& object_;
  };

private:
  std::atomic<std::thread::id> by_;
};

// The phases and the capture, without the function's result; TinyJit adds that.
class TOLK_API JitCore {
public:
  struct Options {
    std::string device; // for nodes without a device; empty: the default one at the capture
    ToProgram to_program;
    bool prune = false;
    bool hold_reachable = false;
  };
  enum class Outcome { Ran, Captured, Replayed };

  JitCore(Options options, bool has_function, bool has_capture);
  int cnt() const { return cnt_; }
  Phase phase() const { return cnt_ == 0 ? Phase::Warmup : cnt_ == 1 ? Phase::Capture : Phase::Exec; }
  void reset();

  // `body` runs the function; `publish` takes the parts of a capture, makes the capture and replays it.
  Outcome call(const JitInputs& inputs, const Resolver& buffers, const HeldNodes& held,
               const std::function<void()>& body, const std::function<void(CaptureParts)>& publish,
               const std::function<void()>& replay);

private:
  CaptureParts capture(const JitInputs& inputs, const Resolver& buffers, const HeldNodes& held,
                       const std::function<void()>& body);

  Options options_;
  bool has_function_;
  int cnt_ = 0;
  InUse in_use_;
};

template <class R> class TinyJit {
public:
  using Function = std::function<R(const JitInputs& inputs)>;
  struct Options {
    std::string device = {};
    ToProgram to_program = {}; // empty: the engine's own
    Function function = {};
    std::shared_ptr<CapturedJit<R>> captured = {}; // replays from the first call on
    // Kernels that no input reaches run once, at the capture. Assumes that nothing else changes buffers
    // between calls.
    bool prune = false;
    // Besides what `held` names, every buffer that something outside of the captured schedules still refers
    // to when the function has returned keeps its contents after the call.
    bool hold_reachable = false;
    // What replays return, made from what the captured call returned; adds inputs that are part of it to
    // `returned`. Empty: that value.
    std::function<R(R value, const JitInputs& inputs, std::vector<size_t>& returned)> kept = {};
  };
  // Throws InvalidArgument "need either a function or a CapturedJit".
  static TinyJit create(Options options) {
    if (!options.function && !options.captured)
      throw InvalidArgument(
          "a TinyJit has nothing to run: create it with what it needs, it does need either a "
          "function or a CapturedJit");
    return TinyJit(std::move(options));
  }

  // Null before the capture and after a reset.
  std::shared_ptr<CapturedJit<R>> captured() const { return captured_; }
  int cnt() const { return core_.cnt(); } // successful calls that were not eager, up to 2
  Phase phase() const { return core_.phase(); }
  // Forgets the capture; the next two calls run the function again. Throws InvalidArgument "can't reset
  // without function".
  void reset() {
    core_.reset();
    captured_ = nullptr;
  }

  // `buffers` is asked for every input at every replay, and once, at the capture, for every other node; what
  // it knows keeps its identity and its contents, as do the nodes of `held`. With `wait` the work is done
  // when the call returns. JIT=0 runs the function at every call, unless there is none.
  //
  // The value of the function, or of the captured call: the same at every replay. Throws JitError "having
  // TinyJit inside another TinyJit is not supported", "another thread is in a call of this captured
  // function", "didn't JIT anything!", `variable "n" is bound inside the jitted function but is not an
  // input`, "that another thread computed while the function was captured", and what CapturedBase::replay
  // throws.
  R call(const JitInputs& inputs, const Resolver& buffers, const HeldNodes& held = {}, bool wait = false) {
    std::optional<R> value;
    auto outcome = core_.call(
        inputs, buffers, held, [&] { value.emplace(function_(inputs)); },
        [&](CaptureParts parts) {
          R kept = kept_ ? kept_(*value, inputs, parts.returned) : *value;
          auto fresh = std::make_shared<CapturedJit<R>>(std::move(parts), std::move(kept));
          fresh->replay(inputs, buffers, wait);
          captured_ = std::move(fresh);
        },
        [&] { captured_->replay(inputs, buffers, wait); });
    return outcome == JitCore::Outcome::Ran ? std::move(*value) : captured_->ret;
  }

private:
  explicit TinyJit(Options options)
      : core_({options.device, options.to_program, options.prune, options.hold_reachable},
              options.function != nullptr, options.captured != nullptr),
        function_(std::move(options.function)), kept_(std::move(options.kept)),
        captured_(std::move(options.captured)) {}

  JitCore core_;
  Function function_;
  std::function<R(R, const JitInputs&, std::vector<size_t>&)> kept_;
  std::shared_ptr<CapturedJit<R>> captured_;
};

} // namespace tolk::engine

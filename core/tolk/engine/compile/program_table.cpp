#include "tolk/engine/compile/program_table.h"

#include <mutex>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/uop/build.h"
#include "tolk/uop/eval.h"
#include "tolk/uop/key.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

const std::string kCoreId = "core_id";

struct Held : UOpAttachment {
  explicit Held(std::shared_ptr<const ProgramEntry> e) : entry(std::move(e)) {}
  std::shared_ptr<const ProgramEntry> entry;
};

struct Table {
  std::mutex mutex;
  int64_t next = 1;
  std::unordered_map<ContentKey, int64_t> numbers;
  std::unordered_map<int64_t, std::pair<ContentKey, std::shared_ptr<const ProgramEntry>>> entries;
};
Table& table() {
  static auto* all = new Table; // leaked: nodes may die after static destructors ran
  return *all;
}

void add(Hasher& h, const UOp& size) {
  h.number(bool(size));
  if (size) h.key(graph_key(size));
}

ContentKey code_key_of(const ProgramEntry& e) {
  Hasher h;
  h.text(e.info.name).text(e.binary).number(e.flags).number(e.target_index);
  h.text(e.kernel ? serialize(e.kernel->ir) : std::string());
  for (const tolk_param& p : e.params)
    h.number(p.kind).number(p.access).number(p.dtype).number(p.count).number(p.min).number(p.max);
  return h.finish();
}

ContentKey content_of(const ProgramEntry& e) {
  Hasher h;
  h.key(graph_key(e.sink)).key(e.code_key).text(e.device).text(e.target_key);
  h.number(e.may_alias).number(e.local_free);
  const ProgramInfo& info = e.info;
  for (const auto* list : {&info.globals, &info.outs, &info.ins}) {
    h.number(list->size());
    for (int slot : *list) h.number(slot);
  }
  h.number(info.vars.size());
  for (const VarInfo& v : info.vars) h.text(v.name).number(v.dtype).number(v.min).number(v.max);
  for (int i = 0; i < 3; ++i) {
    h.number(info.grid[i]).number(info.local[i]);
    add(h, e.global[size_t(i)]);
    add(h, e.local[size_t(i)]);
  }
  h.number(info.shared_bytes).real(info.flops).real(info.bytes_loaded).real(info.bytes_touched);
  h.number(info.opts.size());
  for (const std::string& opt : info.opts) h.text(opt);
  return h.finish();
}

std::vector<tolk_param> params_of(const ProgramEntry& e) {
  if (e.kernel) return e.kernel->ir.params;
  std::vector<tolk_param> params;
  for (int slot : e.info.globals) {
    uint32_t access = 0;
    for (int in : e.info.ins) access |= in == slot ? uint32_t{TOLK_ACCESS_READ} : 0;
    for (int out : e.info.outs) access |= out == slot ? uint32_t{TOLK_ACCESS_WRITE} : 0;
    tolk_param p{};
    p.kind = TOLK_PARAM_BUFFER, p.access = decltype(p.access)(access), p.dtype = decltype(p.dtype)(DType::U8);
    params.push_back(p);
  }
  for (const VarInfo& v : e.info.vars) {
    if (is_runtime_variable(v.name)) continue;
    tolk_param p{};
    p.kind = TOLK_PARAM_VALUE, p.dtype = decltype(p.dtype)(v.dtype), p.min = v.min, p.max = v.max;
    params.push_back(p);
  }
  return params;
}

int64_t size_value(const UOp& size, int64_t known, const ProgramEntry& entry, const VarVals& var_vals) {
  if (!size) return known;
  std::vector<Binding> bindings;
  for (const UOp& u : toposort(size)) {
    if (!u.is(Op::VAR)) continue;
    auto it = var_vals.find(var_name(u));
    if (it == var_vals.end())
      throw InvalidArgument("unbound variable \"" + var_name(u) + "\" used by the launch sizes of " +
                            entry.info.name);
    bindings.push_back({u, Scalar{it->second, 0}});
  }
  auto value = int64_t(evaluate(size, bindings).i);
  if (value < 0)
    throw InvalidArgument("kernel " + entry.info.name + " would be launched with the size " +
                          std::to_string(value) + ", from " + print_expr(size));
  return value;
}

} // namespace

UOp program_node(ProgramEntry entry) {
  TOLK_CHECK(entry.sink && entry.sink.is(Op::SINK), "a program belongs to the SINK of a kernel");
  if (entry.params.empty()) entry.params = params_of(entry);
  entry.code_key = code_key_of(entry);
  ContentKey key = content_of(entry);
  std::shared_ptr<const ProgramEntry> held;
  int64_t number = 0;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    auto [it, fresh] = t.numbers.emplace(key, t.next);
    number = it->second;
    if (fresh) {
      ++t.next;
      held = std::make_shared<const ProgramEntry>(std::move(entry));
      t.entries.emplace(number, std::pair(key, held));
    } else {
      held = t.entries.at(number).second;
    }
  }
  UOp node = make(Op::PROGRAM, DType::Void, {held->sink}, Arg(uint64_t(number)));
  node.set_attachment(std::make_unique<Held>(std::move(held))); // refused when the node has it already
  return node;
}

std::shared_ptr<const ProgramEntry> program_entry_ref(const UOp& program) {
  if (!program.is(Op::PROGRAM))
    throw InvalidArgument("a compiled kernel is a PROGRAM, not " + print_line(program));
  if (auto* held = static_cast<Held*>(program.attachment())) return held->entry;
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto it = t.entries.find(int64_t(program.arg().word));
  if (it == t.entries.end())
    throw InternalError("no compiled kernel has the number " + std::to_string(program.arg().word));
  program.set_attachment(std::make_unique<Held>(it->second.second));
  return it->second.second;
}

const ProgramEntry& program_entry(const UOp& program) { return *program_entry_ref(program); }

UOp with_local_size(const UOp& program, const std::array<int64_t, 3>& local) {
  ProgramEntry entry = program_entry(program);
  TOLK_CHECK(entry.local_free, "the kernel's work-group size is fixed");
  for (size_t i = 0; i < 3; ++i) {
    TOLK_CHECK(local[i] > 0, "work-groups are not empty");
    if (entry.global[i])
      TOLK_CHECK(local[i] == 1, "only known sizes are divided into work-groups");
    else
      entry.info.grid[i] = (entry.info.grid[i] + local[i] - 1) / local[i];
    entry.info.local[i] = local[i];
  }
  entry.local_free = false;
  return program_node(std::move(entry));
}

size_t program_table_size() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return t.entries.size();
}

void sweep_program_table() {
  Table& t = table();
  std::vector<std::shared_ptr<const ProgramEntry>> gone; // destroyed without the lock, with their nodes
  std::lock_guard lock(t.mutex);
  for (auto it = t.entries.begin(); it != t.entries.end();) {
    if (it->second.second.use_count() > 1) {
      ++it;
      continue;
    }
    gone.push_back(std::move(it->second.second));
    t.numbers.erase(it->second.first);
    it = t.entries.erase(it);
  }
}

LaunchDims launch_dims(const ProgramEntry& entry, const VarVals& var_vals) {
  LaunchDims dims;
  std::array<int64_t, 3> local{};
  for (size_t i = 0; i < 3; ++i) {
    dims.global[i] = size_value(entry.global[i], entry.info.grid[i], entry, var_vals);
    local[i] = size_value(entry.local[i], entry.info.local[i], entry, var_vals);
  }
  if (!entry.local_free) dims.local = local;
  for (const auto& [name, index] : runtimevars(entry.info)) // one group for each value of the thread number
    dims.global[0] = entry.info.vars[size_t(index)].max + 1;
  return dims;
}

bool is_runtime_variable(const std::string& name) { return name == kCoreId; }

std::vector<int64_t> vals(const ProgramInfo& info, const VarVals& var_vals) {
  std::vector<int64_t> values;
  for (const VarInfo& v : info.vars) {
    if (is_runtime_variable(v.name)) {
      values.push_back(0);
      continue;
    }
    auto it = var_vals.find(v.name);
    if (it == var_vals.end())
      throw InvalidArgument("unbound variable \"" + v.name + "\" used by " + info.name);
    if (it->second < v.min || it->second > v.max)
      throw InvalidArgument("variable \"" + v.name + "\" is " + std::to_string(it->second) + ", kernel " +
                            info.name + " was compiled for " + std::to_string(v.min) + ".." +
                            std::to_string(v.max));
    values.push_back(it->second);
  }
  return values;
}

std::vector<std::pair<std::string, int>> runtimevars(const ProgramInfo& info) {
  std::vector<std::pair<std::string, int>> out;
  for (size_t i = 0; i < info.vars.size(); ++i)
    if (is_runtime_variable(info.vars[i].name)) out.emplace_back(info.vars[i].name, int(i));
  return out;
}

} // namespace tolk::engine

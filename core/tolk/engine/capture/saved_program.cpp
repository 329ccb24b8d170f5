#include "tolk/engine/capture/saved_program.h"

#include <algorithm>
#include <charconv>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/compile/program_bytes.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

int64_t number_in(std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw FormatError("no setting is " + std::string(text));
  return value;
}

} // namespace

void write_program(PackWriter& out, const ProgramEntry& entry, SavedTargets& targets,
                   const std::function<int64_t(const UOp&)>& place) {
  SavedTarget target{entry.device, entry.target_index, entry.target_key};
  auto at = std::find(targets.begin(), targets.end(), target);
  out.number(at - targets.begin());
  if (at == targets.end()) targets.push_back(target);
  out.number(place(entry.sink));
  write_info(out, entry.info);
  for (const auto* sizes : {&entry.global, &entry.local})
    for (const UOp& size : *sizes) out.number(place(size));
  write_code(out, entry);
}

ProgramEntry read_program(PackReader& in, const SavedTargets& targets,
                          const std::function<UOp(PackReader&)>& node, bool with_code) {
  ProgramEntry e;
  if (targets.empty()) in.damaged("a kernel for no target");
  const SavedTarget& target = targets[size_t(in.number(0, int64_t(targets.size()) - 1))];
  e.device = target.device, e.target_index = target.index, e.target_key = target.key;
  e.sink = node(in);
  if (!e.sink || !e.sink.is(Op::SINK)) in.damaged("a kernel without its graph");
  e.info = read_info(in);
  for (auto* sizes : {&e.global, &e.local})
    for (UOp& size : *sizes) {
      size = node(in);
      if (size && size.dtype() != DType::Index) in.damaged("a launch size that is no size");
    }
  with_code ? read_code(in, e) : skip_code(in);
  return e;
}

void write_targets(PackWriter& out, const SavedTargets& targets) {
  out.list(targets,
           [](PackWriter& w, const SavedTarget& t) { w.text(t.device).number(t.index).text(t.key); });
}

SavedTargets read_targets(PackReader in) {
  SavedTargets targets = in.list<SavedTarget>([](PackReader& r) {
    SavedTarget t;
    t.device = r.text();
    t.index = uint32_t(r.number(0, UINT32_MAX));
    t.key = r.text();
    return t;
  });
  in.end();
  return targets;
}

Config with_codegen(const Config& base, std::string_view text) {
  Config out = base;
  const Config fallback;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t equals = line.find('=');
    if (equals == line.npos) throw FormatError("\"" + std::string(line) + "\" is not NAME=value");
    std::string_view name = line.substr(0, equals), value = line.substr(equals + 1);
#define TOLK_INT(field, NAME, fallback_value, low, high, codegen, help)                                      \
  if (codegen && name == #NAME) {                                                                            \
    int64_t number = number_in(value, low, high);                                                            \
    if (base.field == fallback.field) out.field = number;                                                    \
  }
#define TOLK_TEXT(field, NAME, fallback_value, codegen, help)                                                \
  if (codegen && name == #NAME && base.field == fallback.field) out.field = value;
#include "tolk/base/config_vars.def"
  }
  return out;
}

Config settings_for_saved(const std::string& saved) {
  const Config& now = Config::current();
  Config config = with_codegen(now, saved);
  // How work is divided into kernels is decided in the file.
  config.split_reduce = with_codegen({}, saved).split_reduce;
  if (now.split_reduce != Config().split_reduce && now.split_reduce != config.split_reduce)
    log::warning("SPLIT_REDUCE=" + std::to_string(now.split_reduce) +
                 " does not reach what was saved with SPLIT_REDUCE=" + std::to_string(config.split_reduce) +
                 ": its work is divided into kernels already; save it again with this setting");
  return config;
}

UOp trusted_program(const ProgramEntry& entry) {
  Device& on = device(entry.device);
  if (!Config::current().target.empty() && on.target_index() != entry.target_index) return {};
  if (!entry.has_binary() || entry.target_index >= on.targets().size() ||
      on.compiler_key(entry.target_index) != entry.target_key)
    return {};
  UOp node = program_node(entry);
  try {
    get_runtime(on, node);
  } catch (const FormatError& e) {
    log::debug(1, "the code of a saved kernel is not used: " + std::string(e.what()));
    return {};
  }
  return node;
}

} // namespace tolk::engine

#include "tolk/engine/compile/compile.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/program_cache.h"
#include "tolk/engine/compile/runtimes.h"
#include "tolk/engine/compile/targets.h"
#include "tolk/render/renderer.h"
#include "tolk/uop/print.h"

namespace tolk::engine {
namespace {

codegen::Options codegen_options(const Device& device) {
  const Config& config = Config::current();
  codegen::Options options;
  options.no_opt = config.no_opt != 0;
  options.threads = int(std::max<uint32_t>(device.caps().cores, 1));
  return options;
}

struct Rendered {
  std::shared_ptr<codegen::Kernel> kernel;
  std::string text;
};

Rendered render_for(const UOp& ast, Device& device, uint32_t target_index, bool may_alias) {
  const tolk_target& target = device.targets()[target_index];
  const Renderer* renderer = find_renderer(target);
  if (!renderer)
    throw DeviceError(device.name() + " takes " + Device::target_name(target) +
                      ", which this build of tolk cannot render; choose another with TARGET=");
  Rendered out;
  if (log::enabled(6)) log::debug(6, "kernel graph\n" + print_kernel(ast));
  out.kernel = std::make_shared<codegen::Kernel>(
      codegen::compile(ast, codegen_target(device, target_index), codegen_options(device)));
  if (log::enabled(5)) log::debug(5, print(out.kernel->ir));
  out.text = renderer->render(out.kernel->ir, {.may_alias = may_alias, .features = target.arch_features});
  if (log::enabled(4) && !out.text.empty())
    log::debug(4, renderer->is_text ? out.text
                                    : fmt::format("kernel {}: {} bytes of {}", out.kernel->ir.name,
                                                  out.text.size(), renderer->name));
  return out;
}

} // namespace

std::string render_kernel(const UOp& ast, const std::string& name) {
  Device& on = device(name);
  return render_for(ast, on, target_index(on), false).text;
}

UOp to_program(Device& on, const UOp& sink, bool may_alias) {
  ProgramEntry entry = entry_for(on, sink, may_alias);
  Rendered rendered = render_for(sink, on, entry.target_index, may_alias);
  entry.info = rendered.kernel->info;
  entry.params = rendered.kernel->ir.params;
  bool from_text = !rendered.text.empty();
  if (from_text)
    if (std::optional<std::string> binary = cached_code(entry, rendered.text)) {
      try {
        ProgramEntry found = entry;
        found.binary = std::move(*binary);
        UOp program = program_node(std::move(found));
        load_runtime(on, program);
        return program;
      } catch (const FormatError& e) { // made for another machine, or damage that the checksum missed
        log::debug(1, std::string("a cached kernel is compiled again: ") + e.what());
      }
    }
  KernelSource source = kernel_source(entry);
  source.text = rendered.text;
  tolk_kernel_ir view = rendered.kernel->ir.view();
  if (!from_text) source.ir = &view; // the target takes the kernel itself
  CompiledKernel compiled = on.compile(source);
  if (!compiled.log.empty()) log::debug(4, compiled.log);
  if (from_text) cache_code(entry, rendered.text, compiled.bytes);
  entry.binary = std::move(compiled.bytes);
  if (entry.binary.empty()) entry.kernel = std::move(rendered.kernel);
  UOp program = program_node(std::move(entry));
  load_runtime(on, program);
  return program;
}

} // namespace tolk::engine

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

codegen::Target codegen_target(const Device& device, uint32_t target_index) {
  const tolk_caps& caps = device.caps();
  const tolk_target& from = device.targets()[target_index];
  codegen::Target target;
  target.dialect = Device::target_name(from);
  target.arch = std::string(from.arch ? from.arch : "") + (from.arch_features ? from.arch_features : "");
  target.features = from.features;
  target.dtype_storage = caps.dtype_storage;
  target.dtype_alu = caps.dtype_alu;
  target.vector_bytes = caps.vector_bytes;
  if (caps.vector_registers) target.vector_registers = caps.vector_registers;
  if (caps.fma_ports) target.fma_ports = caps.fma_ports;
  if (caps.l1d_bytes) target.l1_bytes = caps.l1d_bytes;
  if (caps.l2_bytes) target.l2_bytes = caps.l2_bytes;
  if (caps.llc_bytes) target.llc_bytes = caps.llc_bytes;
  if (caps.cores) target.cores = caps.cores;
  target.has_threads = caps.local_product_max == 1 && caps.grid_max[0] > 1;
  target.has_local = caps.local_product_max > 1;
  for (int i = 0; i < 3; ++i) target.group_max[i] = caps.grid_max[i], target.local_max[i] = caps.local_max[i];
  target.local_product_max = caps.local_product_max;
  target.subgroup = caps.subgroup_preferred ? caps.subgroup_preferred : caps.subgroup_max;
  target.shared_bytes = caps.shared_bytes;
  return target;
}

uint32_t target_index(const Device& device) {
  return Config::current().target.empty() ? first_renderable(device.targets()) : device.target_index();
}

std::string render_kernel(const UOp& ast, const std::string& name) {
  Device& on = device(name);
  return render_for(ast, on, target_index(on), false).text;
}

UOp to_program(Device& on, const UOp& sink, bool may_alias) {
  ProgramEntry entry = entry_for(on, sink, may_alias);
  Rendered rendered = render_for(sink, on, entry.target_index, may_alias);
  entry.info = rendered.kernel->info;
  entry.params = rendered.kernel->ir.params;
  entry.text = std::move(rendered.text);
  entry.kernel = std::move(rendered.kernel);
  bool from_text = !entry.text.empty();
  if (from_text)
    if (std::optional<std::string> binary = cached_code(entry)) {
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
  tolk_kernel_ir view = entry.kernel->ir.view();
  if (!from_text) source.ir = &view; // the target takes the kernel itself
  CompiledKernel compiled = on.compile(source);
  if (!compiled.log.empty()) log::debug(4, compiled.log);
  if (from_text) cache_code(entry, compiled.bytes);
  entry.binary = std::move(compiled.bytes);
  UOp program = program_node(std::move(entry));
  load_runtime(on, program);
  return program;
}

} // namespace tolk::engine

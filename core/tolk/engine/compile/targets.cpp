#include "tolk/engine/compile/targets.h"

#include "tolk/base/config.h"
#include "tolk/render/renderer.h"

namespace tolk::engine {

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
  target.coalesces = target.has_local && device.info().kind != TOLK_KIND_CPU;
  target.shared_bytes = caps.shared_bytes;
  return target;
}

uint32_t target_index(const Device& device) {
  return Config::current().target.empty() ? first_renderable(device.targets()) : device.target_index();
}

} // namespace tolk::engine

#include "tolk/engine/compile.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "tolk/base/config.h"
#include "tolk/base/disk_cache.h"
#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/base/log.h"
#include "tolk/base/thread_pool.h"
#include "tolk/device/registry.h"
#include "tolk/render/renderer.h"
#include "tolk/uop/print.h"

namespace tolk::engine {
namespace {

// Equal kernels are equal nodes, so the node is the key; the entry keeps it alive.
using ProgramKey = std::tuple<uint64_t /*node id*/, uint32_t /*device*/, uint64_t /*settings*/, bool>;
struct CachedProgram {
  UOp ast;
  CompiledCall call;
};
struct ProgramCache {
  std::mutex mutex;
  std::map<ProgramKey, CachedProgram> programs;
};
ProgramCache& cache() {
  static auto* all = new ProgramCache; // leaked: programs outlive static destructors harmlessly
  return *all;
}

codegen::Options codegen_options(const Device& device) {
  const Config& config = Config::current();
  codegen::Options options;
  options.no_opt = config.no_opt != 0;
  options.fast_math = config.fast_math != 0;
  options.threads = int(std::max<uint32_t>(device.caps().cores, 1));
  return options;
}

struct Rendered {
  std::shared_ptr<codegen::Kernel> kernel;
  std::string text;
};

Rendered render_for(const UOp& ast, Device& device, uint32_t target_index, bool may_alias) {
  const tolk_target& target = device.targets()[target_index];
  const Renderer* renderer = find_renderer(target.kind, target.dialect);
  if (!renderer)
    throw DeviceError(device.name() + " takes " + Device::target_name(target) +
                      ", which this build of tolk cannot render; choose another with TARGET=");
  Rendered out;
  if (log::enabled(6)) log::debug(6, "kernel graph\n" + print_kernel(ast));
  out.kernel = std::make_shared<codegen::Kernel>(
      codegen::compile(ast, codegen_target(device, target_index), codegen_options(device)));
  if (log::enabled(5)) log::debug(5, print(out.kernel->ir));
  out.text = renderer->render(out.kernel->ir, RenderOptions{may_alias});
  if (log::enabled(4) && !out.text.empty()) log::debug(4, out.text);
  return out;
}

CompiledCall build(const CompileRequest& request) {
  Device& on = device(request.device);
  uint32_t target_index = on.target_index();
  Rendered rendered = render_for(request.ast, on, target_index, request.may_alias);
  const codegen::Kernel& kernel = *rendered.kernel;
  tolk_kernel_ir view = kernel.ir.view();
  KernelSource source;
  source.target_index = target_index;
  source.text = rendered.text;
  if (rendered.text.empty()) source.ir = &view; // the target takes the kernel itself
  source.entry = kernel.info.name;
  source.params = kernel.ir.params;
  source.shared_bytes = kernel.info.shared_bytes;
  if (request.may_alias) source.flags |= TOLK_SOURCE_ARGS_MAY_ALIAS;
  for (int i = 0; i < 3; ++i) source.local[size_t(i)] = uint32_t(kernel.info.local[i]);

  bool cached = Config::current().compile_cache != 0 && !rendered.text.empty();
  ContentKey key =
      cached ? Hasher().text(on.compiler_key(target_index)).text(rendered.text).number(source.flags).finish()
             : ContentKey{};
  if (cached)
    if (auto binary = DiskCache::shared().get(key)) {
      try {
        return {rendered.kernel, on.load(source, *binary)};
      } catch (const FormatError&) {
        // Made for another machine or damaged in a way that the checksum missed: compile again.
      }
    }
  CompiledKernel compiled = on.compile(source);
  if (!compiled.log.empty()) log::debug(4, compiled.log);
  if (cached) DiskCache::shared().put(key, compiled.bytes);
  return {rendered.kernel, on.load(source, compiled.bytes)};
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
  target.shared_bytes = caps.shared_bytes;
  return target;
}

std::string render_kernel(const UOp& ast, const std::string& name) {
  Device& on = device(name);
  return render_for(ast, on, on.target_index(), false).text;
}

std::vector<CompiledCall> compile_all(std::span<const CompileRequest> requests, const Progress& progress) {
  std::vector<CompiledCall> results(requests.size());
  uint64_t settings = Config::current().codegen_digest();
  std::map<ProgramKey, std::vector<size_t>> missing; // requests that share a program that does not exist yet
  {
    std::lock_guard lock(cache().mutex);
    for (size_t i = 0; i < requests.size(); ++i) {
      ProgramKey key{requests[i].ast.id(), device(requests[i].device).id(), settings, requests[i].may_alias};
      if (auto it = cache().programs.find(key); it != cache().programs.end())
        results[i] = it->second.call;
      else
        missing[key].push_back(i);
    }
  }
  std::vector<std::pair<ProgramKey, std::vector<size_t>>> work(missing.begin(), missing.end());
  std::atomic<size_t> done{0};
  std::mutex progress_mutex;
  if (progress && !work.empty()) progress(0, work.size());
  parallel_for(work.size(), compile_threads(), [&](size_t w) {
    const CompileRequest& request = requests[work[w].second[0]];
    CompiledCall call = build(request);
    for (size_t i : work[w].second) results[i] = call;
    {
      std::lock_guard lock(cache().mutex);
      cache().programs.emplace(work[w].first, CachedProgram{request.ast, call});
    }
    size_t n = ++done;
    if (progress) {
      std::lock_guard lock(progress_mutex);
      progress(n, work.size());
    }
  });
  return results;
}

void clear_program_cache() {
  std::lock_guard lock(cache().mutex);
  cache().programs.clear();
}

} // namespace tolk::engine

// From IR text to a launch. A binary is a header of 32 bytes and the ELF object of the compiler library.
#include <cstring>
#include <span>

#include <tolk/plugin/helpers.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler_loader.h"
#include "cpu_info.h"
#include "stream.h"

namespace tolk_cpu {
namespace {

struct BinaryHeader {
  char magic[8];
  uint64_t identity; // of compiler and processor
  uint64_t object_size;
  uint64_t checksum; // XXH3-64 of the object, seeded with the identity
};
static_assert(sizeof(BinaryHeader) == 32);
constexpr char kMagic[8] = {'t', 'o', 'l', 'k', 'c', 'p', 'u', '2'};

uint64_t identity() {
  static const uint64_t value = XXH3_64bits(compiler_id(), std::strlen(compiler_id()));
  return value;
}

struct Output {
  std::string object, log;
};

tolk_blob* make_blob(std::string_view a, std::string_view b) {
  void* data = nullptr;
  tolk_blob* blob = host->blob_create(host->ctx, a.size() + b.size(), &data);
  if (!blob) throw std::bad_alloc();
  if (!a.empty()) std::memcpy(data, a.data(), a.size());
  if (!b.empty()) std::memcpy(static_cast<char*>(data) + a.size(), b.data(), b.size());
  return blob;
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

tolk_status compile(void*, const tolk_target* target, const tolk_source* source, tolk_blob** binary,
                    tolk_blob** log) {
  return guarded([&]() -> tolk_status {
    if (target && target->kind != TOLK_TARGET_LLVM_IR)
      return fail(TOLK_E_UNSUPPORTED, "the CPU plugin compiles LLVM IR text only");
    std::string error;
    const tolk_cpu_compiler* compiler = open_compiler(error);
    if (!compiler) return fail(TOLK_E_SYSTEM, "the CPU plugin's compiler library cannot be used: " + error);
    std::string text(static_cast<const char*>(source->text.data), source->text.size);
    Output out;
    int32_t failed = compiler->compile(
        text.c_str(), text.size(), (source->flags & TOLK_SOURCE_OPT_NONE) == 0, &out,
        [](void* context, const void* data, uint64_t size) {
          static_cast<Output*>(context)->object.assign(static_cast<const char*>(data), size);
        },
        [](void* context, const char* data, uint64_t size) {
          static_cast<Output*>(context)->log.append(data, size);
        });
    if (!failed) {
      // What cannot be loaded is the source's fault, and is better said now than from the cache.
      std::unique_ptr<ElfImage> image = ElfImage::load(as_bytes(out.object), error);
      if (!image)
        out.log += error + "\n";
      else if (!image->symbol(source->entry))
        out.log += std::string("no function is called ") + source->entry + "\n";
      failed = !image || !image->symbol(source->entry);
    }
    if (log && !out.log.empty()) *log = make_blob(out.log, {});
    if (failed) return fail(TOLK_E_COMPILE, std::string("LLVM rejected the kernel ") + source->entry);
    BinaryHeader header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.identity = identity();
    header.object_size = out.object.size();
    header.checksum = XXH3_64bits_withSeed(out.object.data(), out.object.size(), header.identity);
    *binary = make_blob({reinterpret_cast<const char*>(&header), sizeof header}, out.object);
    return TOLK_OK;
  });
}

// The object in a binary that `compile` of this build made on a processor like this one.
bool unpack(tolk_bytes binary, std::span<const uint8_t>& object, std::string& error) {
  BinaryHeader header;
  auto* bytes = static_cast<const uint8_t*>(binary.data);
  if (!bytes || binary.size < sizeof header) {
    error = "the binary is shorter than its header";
    return false;
  }
  std::memcpy(&header, bytes, sizeof header);
  object = {bytes + sizeof header, binary.size - sizeof header};
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    error = "not a binary of the CPU plugin";
  else if (header.identity != identity())
    error = "the binary was made by another compiler or for another processor";
  else if (header.object_size != object.size())
    error = "the binary is cut short";
  else if (header.checksum != XXH3_64bits_withSeed(object.data(), object.size(), header.identity))
    error = "the binary is damaged";
  return error.empty();
}

uint8_t dtype_align(uint32_t dtype) {
  static constexpr uint8_t bits[] = {
#define TOLK_DTYPE(NAME, text, code, width, kind) width,
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  };
  return dtype < sizeof bits && bits[dtype] > 8 ? bits[dtype] / 8 : 1;
}

tolk_status load(tolk_device*, tolk_bytes binary, const tolk_source* source, tolk_program** out) {
  return guarded([&]() -> tolk_status {
    std::string error;
    std::span<const uint8_t> object;
    if (!unpack(binary, object, error)) return fail(TOLK_E_BAD_BINARY, error);
    auto program = std::make_unique<tolk_program>();
    program->image = ElfImage::load(object, error);
    if (!program->image) return fail(TOLK_E_BAD_BINARY, error);
    program->buffer_count = program->value_count = 0;
    for (uint32_t i = 0; i < source->param_count; ++i) {
      const tolk_param& param = source->params[i];
      if (param.kind == TOLK_PARAM_BUFFER) {
        ++program->buffer_count;
        program->align.push_back(dtype_align(param.dtype));
      } else {
        ++program->value_count;
      }
    }
    program->scratch_bytes = source->shared_bytes;
    *out = program.release();
    return TOLK_OK;
  });
}

void unload(tolk_program* program) { delete program; }

tolk_status get_kernel(tolk_program* program, const char* name, tolk_kernel** out) {
  return guarded([&]() -> tolk_status {
    std::lock_guard guard(program->lock);
    for (const auto& kernel : program->kernels) {
      if (kernel->name == name) {
        *out = kernel.get();
        return TOLK_OK;
      }
    }
    const void* code = program->image->symbol(name);
    if (!code) return fail(TOLK_E_NOT_FOUND, std::string("the program has no kernel ") + name);
    program->kernels.push_back(std::make_unique<tolk_kernel>(
        tolk_kernel{name, reinterpret_cast<tolk_cpu_kernel>(const_cast<void*>(code)), program}));
    *out = program->kernels.back().get();
    return TOLK_OK;
  });
}

tolk_status kernel_info(tolk_kernel* kernel, tolk_kernel_info* out) {
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  info.shared_bytes = kernel->program->scratch_bytes;
  info.code_bytes = kernel->program->image->code_bytes();
  info.max_local = 1;
  tolk_write_out(out, &info, sizeof info);
  return TOLK_OK;
}

tolk_status check(const tolk_program& program, const tolk_launch& launch) {
  if (launch.buffer_count != program.buffer_count || launch.value_count != program.value_count)
    return fail(TOLK_E_INVALID, "a launch with " + std::to_string(launch.buffer_count) + " buffers and " +
                                    std::to_string(launch.value_count) + " values of a kernel with " +
                                    std::to_string(program.buffer_count) + " and " +
                                    std::to_string(program.value_count));
  for (uint32_t i = 0; i < launch.buffer_count; ++i) {
    const tolk_ref& ref = launch.buffers[i];
    if (!tolk_inside(ref.offset, ref.size, ref.buffer->size))
      return fail(TOLK_E_INVALID, "argument " + std::to_string(i) + " lies outside its buffer");
    if (reinterpret_cast<uintptr_t>(ref.buffer->data + ref.offset) % program.align[i])
      return fail(TOLK_E_INVALID, "argument " + std::to_string(i) + " is not aligned to its dtype");
  }
  return TOLK_OK;
}

bool run_work(const Work& work) { return work.tiles <= 1 ? run_inline(work) : worker_pool().run(work); }

void take_pointers(const tolk_launch& launch, void** out) {
  for (uint32_t i = 0; i < launch.buffer_count; ++i)
    out[i] = launch.buffers[i].buffer->data + launch.buffers[i].offset;
}

tolk_status launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* launch) {
  const tolk_program& program = *kernel->program;
  if (launch->grid[1] != 1 || launch->grid[2] != 1 ||
      launch->local[0] * launch->local[1] * launch->local[2] != 1)
    return fail(TOLK_E_LIMIT, "the CPU device has one grid axis and work-groups of one item");
  if (!(launch->flags & TOLK_LAUNCH_CHECKED))
    if (tolk_status status = check(program, *launch); status != TOLK_OK) return status;
  Work work{kernel->function, nullptr, launch->values, launch->grid[0],
            program.scratch_bytes + launch->shared_bytes};
  return guarded([&]() -> tolk_status {
    if (stream && !launch->device_ns) { // with arguments of its own
      std::vector<void*> pointers(launch->buffer_count);
      take_pointers(*launch, pointers.data());
      std::vector<uint64_t> values(launch->values, launch->values + launch->value_count);
      stream->submit([work, pointers = std::move(pointers), values = std::move(values)]() mutable {
        work.buffers = pointers.data();
        work.values = values.data();
        return run_work(work);
      });
      return TOLK_OK;
    }
    constexpr uint32_t kFew = 64;
    void* few[kFew];
    std::vector<void*> many(launch->buffer_count > kFew ? launch->buffer_count : 0);
    void** buffers = many.empty() ? few : many.data();
    take_pointers(*launch, buffers);
    work.buffers = buffers;
    return run_on(stream, true, [&] {
      uint64_t begin = launch->device_ns ? host->clock_ns(host->ctx) : 0;
      bool ran = run_work(work);
      if (ran && launch->device_ns) *launch->device_ns = host->clock_ns(host->ctx) - begin;
      return ran;
    });
  });
}

tolk_status disassemble(void*, tolk_bytes binary, tolk_blob** text) {
  return guarded([&]() -> tolk_status {
    std::string error;
    std::span<const uint8_t> object;
    if (!unpack(binary, object, error)) return fail(TOLK_E_BAD_BINARY, error);
    const tolk_cpu_compiler* compiler = open_compiler(error);
    if (!compiler) return fail(TOLK_E_SYSTEM, "the CPU plugin's compiler library cannot be used: " + error);
    std::string out;
    std::span<const uint8_t> code = elf_code(object);
    compiler->disassemble(code.data(), code.size(), 0, &out,
                          [](void* context, const char* data, uint64_t size) {
                            static_cast<std::string*>(context)->append(data, size);
                          });
    *text = make_blob(out, {});
    return TOLK_OK;
  });
}

} // namespace

const tolk_program_vt program_table = {
    .struct_size = sizeof(tolk_program_vt),
    .reserved = 0,
    .compile = compile,
    .load = load,
    .unload = unload,
    .get_kernel = get_kernel,
    .kernel_info = kernel_info,
    .launch = launch,
    .disassemble = disassemble,
};

} // namespace tolk_cpu

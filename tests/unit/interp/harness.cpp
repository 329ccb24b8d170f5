#include "harness.h"

#include "parse_kernel.h"

namespace tolk::test {

Bytes to_bytes(DType dtype, const std::vector<uint64_t>& values) {
  auto width = static_cast<size_t>(bits(dtype));
  Bytes bytes((values.size() * width + 7) / 8, std::byte{0});
  for (size_t i = 0; i < values.size(); i++)
    for (size_t bit = 0; bit < width; bit++)
      if (values[i] >> bit & 1) bytes[(i * width + bit) / 8] |= std::byte(1 << ((i * width + bit) % 8));
  return bytes;
}

std::vector<uint64_t> from_bytes(DType dtype, const Bytes& bytes, size_t count) {
  auto width = static_cast<size_t>(bits(dtype));
  std::vector<uint64_t> values(count, 0);
  for (size_t i = 0; i < count; i++)
    for (size_t bit = 0; bit < width; bit++)
      values[i] |= (static_cast<uint64_t>(bytes[(i * width + bit) / 8]) >> ((i * width + bit) % 8) & 1)
                   << bit;
  return values;
}

void run(const KernelIR& kernel, std::vector<Bytes>& buffers, const std::vector<uint64_t>& values, Sizes grid,
         Sizes local) {
  std::string blob = tolk_interp::pack(tolk_interp::copy_kernel(kernel.view()));
  tolk_interp::Kernel back = tolk_interp::unpack(std::as_bytes(std::span(blob)));
  tolk_interp::check(back);
  auto program = tolk_interp::decode(std::move(back));
  std::vector<tolk_interp::BufferArg> args;
  for (Bytes& buffer : buffers) args.push_back({buffer.data(), buffer.size()});
  tolk_interp::LaunchArgs launch;
  launch.grid[0] = grid.x, launch.grid[1] = grid.y, launch.grid[2] = grid.z;
  launch.local[0] = local.x, launch.local[1] = local.y, launch.local[2] = local.z;
  launch.buffers = args;
  launch.values = values;
  tolk_interp::run(*program, launch);
}

KernelIR kernel(const std::string& body) {
  KernelIR k = parse_kernel_ir("kernel t\n" + body);
  verify(k);
  return k;
}

tolk_interp::Error run_error(const KernelIR& kernel, std::vector<Bytes>& buffers,
                             const std::vector<uint64_t>& values, Sizes grid, Sizes local) {
  try {
    run(kernel, buffers, values, grid, local);
  } catch (const tolk_interp::Error& error) {
    return error;
  }
  return {0, ""};
}

std::vector<uint64_t> apply(uint16_t opcode, DType result, const std::vector<Argument>& arguments,
                            uint16_t lanes) {
  size_t count = arguments.at(0).values.size();
  KernelIR k;
  k.name = "apply";
  auto parameter = [&](DType dtype, uint32_t access) {
    tolk_param p{};
    p.kind = TOLK_PARAM_BUFFER;
    p.access = access;
    p.dtype = static_cast<uint32_t>(dtype);
    k.params.push_back(p);
    return k.add(TOLK_IR_PARAM, dtype, 1, {}, {k.params.size() - 1});
  };
  std::vector<Bytes> buffers;
  buffers.push_back(to_bytes(result, std::vector<uint64_t>(count, 0)));
  uint32_t out = parameter(result, TOLK_ACCESS_WRITE);
  uint32_t group = k.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {0, 0});
  uint32_t width = k.add(TOLK_IR_CONST, DType::I32, 1, {}, {lanes});
  uint32_t index = k.add(TOLK_IR_MUL, DType::I32, 1, {group, width});
  std::vector<uint32_t> sources;
  for (const Argument& argument : arguments) {
    uint32_t storage = parameter(argument.dtype, TOLK_ACCESS_READ);
    sources.push_back(k.add(TOLK_IR_LOAD, argument.dtype, lanes, {storage, index}));
    buffers.push_back(to_bytes(argument.dtype, argument.values));
  }
  uint32_t value = k.add(opcode, result, lanes, sources);
  k.add(TOLK_IR_STORE, result, lanes, {out, index, value});
  verify(k);
  run(k, buffers, {}, {static_cast<uint32_t>(count / lanes)});
  return from_bytes(result, buffers[0], count);
}

} // namespace tolk::test

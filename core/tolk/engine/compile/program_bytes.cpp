#include "tolk/engine/compile/program_bytes.h"

#include "tolk/base/error.h"

namespace tolk::engine {
namespace {

void write_slots(PackWriter& out, const std::vector<int>& slots) {
  out.list(slots, [](PackWriter& w, int slot) { w.number(slot); });
}
std::vector<int> read_slots(PackReader& in) {
  return in.list<int>([](PackReader& r) { return int(r.number(0, INT32_MAX)); });
}

} // namespace

void write_info(PackWriter& out, const ProgramInfo& info) {
  out.text(info.name);
  write_slots(out, info.globals);
  write_slots(out, info.outs);
  write_slots(out, info.ins);
  out.list(info.vars, [](PackWriter& w, const VarInfo& v) {
    w.text(v.name).number(int64_t(v.dtype)).number(v.min).number(v.max);
  });
  for (int64_t n : info.grid) out.number(n);
  for (int64_t n : info.local) out.number(n);
  out.number(int64_t(info.shared_bytes)).real(info.flops).real(info.bytes_loaded).real(info.bytes_touched);
  out.list(info.opts, [](PackWriter& w, const std::string& opt) { w.text(opt); });
}

ProgramInfo read_info(PackReader& in) {
  ProgramInfo info;
  info.name = in.text();
  info.globals = read_slots(in);
  info.outs = read_slots(in);
  info.ins = read_slots(in);
  info.vars = in.list<VarInfo>([](PackReader& r) {
    VarInfo v;
    v.name = r.text();
    v.dtype = DType(r.number(0, kDTypeCount - 1));
    v.min = r.number();
    v.max = r.number();
    return v;
  });
  for (int64_t& n : info.grid) n = in.number(0);
  for (int64_t& n : info.local) n = in.number(0);
  info.shared_bytes = uint64_t(in.number(0));
  info.flops = in.real();
  info.bytes_loaded = in.real();
  info.bytes_touched = in.real();
  info.opts = in.list<std::string>([](PackReader& r) { return r.text(); });
  return info;
}

void write_code(PackWriter& out, const ProgramEntry& entry) {
  out.number(entry.local_free).number(entry.flags).number(entry.may_alias);
  out.text(entry.binary).text(entry.kernel ? serialize(entry.kernel->ir) : std::string());
  out.list(entry.params, [](PackWriter& w, const tolk_param& p) {
    w.number(p.kind).number(p.access).number(p.dtype).number(int64_t(p.count)).number(p.min).number(p.max);
  });
}

void read_code(PackReader& in, ProgramEntry& entry) {
  entry.local_free = in.flag();
  entry.flags = uint32_t(in.number(0, UINT32_MAX));
  entry.may_alias = in.flag();
  entry.binary = in.text();
  if (std::string kernel = in.text(); !kernel.empty()) {
    KernelIR ir = deserialize_kernel_ir(kernel);
    try {
      verify(ir);
    } catch (const InternalError& error) {
      in.damaged(error.what());
    }
    entry.kernel = std::make_shared<codegen::Kernel>(codegen::Kernel{std::move(ir), entry.info});
  }
  entry.params = in.list<tolk_param>([](PackReader& r) {
    tolk_param p{};
    p.kind = uint32_t(r.number(0, UINT32_MAX)), p.access = uint32_t(r.number(0, UINT32_MAX));
    p.dtype = uint32_t(r.number(0, UINT32_MAX)), p.count = uint64_t(r.number());
    p.min = r.number(), p.max = r.number();
    return p;
  });
}

void skip_code(PackReader& in) {
  for (int i = 0; i < 3; ++i) in.number();        // how it is launched
  for (int i = 0; i < 2; ++i) in.raw(in.count()); // binary, kernel IR
  for (size_t n = in.count(); n > 0; --n)
    for (int i = 0; i < 6; ++i) in.number();
}

} // namespace tolk::engine

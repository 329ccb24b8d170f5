#include "tolk/engine/compile/program_cache.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "tolk/base/config.h"
#include "tolk/base/disk_cache.h"
#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/base/log.h"
#include "tolk/base/version.h"
#include "tolk/engine/compile/program_bytes.h"
#include "tolk/engine/compile/runtimes.h"
#include "tolk/engine/compile/targets.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"

namespace tolk::engine {
namespace {

// The linker's build id of the file that code generation is in; its version where it has none.
std::string read_build_id() {
  struct Found {
    ElfW(Addr) address;
    std::string id;
  } found{ElfW(Addr)(&cached_program), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& f = *static_cast<Found*>(data);
        std::span<const ElfW(Phdr)> segments(info->dlpi_phdr, info->dlpi_phnum);
        bool mine = std::ranges::any_of(segments, [&](const ElfW(Phdr) & s) {
          return s.p_type == PT_LOAD && f.address - info->dlpi_addr - s.p_vaddr < s.p_memsz;
        });
        if (!mine) return 0;
        for (const ElfW(Phdr) & s : segments) {
          if (s.p_type != PT_NOTE) continue;
          // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers
          const char *at = reinterpret_cast<const char*>(info->dlpi_addr + s.p_vaddr), *end = at + s.p_memsz;
          auto padded = [](size_t n) { return (n + 3) & ~size_t{3}; };
          while (size_t(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const char *owner = at + sizeof note, *text = owner + padded(note.n_namesz);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(owner, "GNU", 4) == 0)
              f.id.assign(text, note.n_descsz);
            at = text + padded(note.n_descsz);
          }
        }
        return 1;
      },
      &found);
  return found.id.empty() ? std::string(TOLK_VERSION_STRING) : found.id;
}
const std::string& build_id() {
  static const std::string id = read_build_id();
  return id;
}

bool enabled() { return Config::current().compile_cache != 0; }

// All that the code of a kernel depends on. Its name and what else only tells about it play no part.
std::string request_text(const Device& on, const UOp& sink, bool may_alias, uint64_t codegen_digest) {
  uint32_t target = target_index(on);
  std::vector<int64_t> ints(sink.arg().ints().begin(), sink.arg().ints().end());
  UOp nameless = make(Op::SINK, DType::Void, sink.src(), Arg(std::move(ints), {}));
  PackWriter out;
  out.text("program 2").text(build_id()).text(on.compiler_key(target)).number(target);
  out.number(int64_t(codegen_digest)).number(on.caps().cores).number(may_alias);
  out.text(Config::current().codegen_text()).text(print(nameless));
  return out.bytes();
}

// The entry that begins with the text its key was made of.
std::optional<std::string> find(const std::string& text) {
  std::optional<std::string> blob = DiskCache::shared().get(content_key(text));
  if (!blob || !blob->starts_with(text)) return std::nullopt;
  blob->erase(0, text.size());
  return blob;
}
void keep(const std::string& text, std::string_view value) {
  DiskCache::shared().put(content_key(text), text + std::string(value));
}

std::string code_text(const ProgramEntry& entry, const std::string& text) {
  PackWriter out;
  out.text("code 1").text(entry.target_key).number(entry.flags).text(text);
  return out.bytes();
}

} // namespace

bool has_text(const Device& on) { return on.targets()[target_index(on)].kind != TOLK_TARGET_KERNEL_IR; }

ProgramEntry entry_for(Device& on, const UOp& sink, bool may_alias) {
  ProgramEntry entry;
  entry.sink = sink;
  entry.device = on.name();
  entry.target_index = target_index(on);
  entry.target_key = on.compiler_key(entry.target_index);
  entry.may_alias = may_alias;
  if (may_alias) entry.flags |= TOLK_SOURCE_ARGS_MAY_ALIAS;
  return entry;
}

std::optional<std::string> cached_code(const ProgramEntry& entry, const std::string& text) {
  if (!enabled()) return std::nullopt;
  return find(code_text(entry, text));
}

void cache_code(const ProgramEntry& entry, const std::string& text, const std::string& code) {
  if (enabled()) keep(code_text(entry, text), code);
}

UOp cached_program(Device& on, const UOp& sink, bool may_alias, uint64_t codegen_digest) {
  if (!enabled()) return {};
  std::optional<std::string> facts = find(request_text(on, sink, may_alias, codegen_digest));
  if (!facts) return {};
  ProgramEntry entry = entry_for(on, sink, may_alias);
  try {
    PackReader in("the cached kernel", *facts);
    entry.info = read_info(in);
    read_code(in, entry);
    in.end();
    UOp program = program_node(std::move(entry));
    load_runtime(on, program);
    return program;
  } catch (const FormatError& e) { // made for another machine, or damage that the checksum missed
    log::debug(1, std::string("a cached kernel is compiled again: ") + e.what());
    return {};
  }
}

void cache_program(Device& on, const UOp& program, uint64_t codegen_digest) {
  if (!enabled()) return;
  const ProgramEntry& entry = program_entry(program);
  PackWriter facts;
  write_info(facts, entry.info);
  write_code(facts, entry);
  keep(request_text(on, entry.sink, entry.may_alias, codegen_digest), facts.bytes());
}

} // namespace tolk::engine

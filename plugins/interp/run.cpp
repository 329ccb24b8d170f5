// Runs a decoded kernel and checks every access.
#include <algorithm>
#include <cstring>

#include "facts.h"
#include "program.h"
#include "races.h"

namespace tolk_interp {
namespace {

constexpr uint64_t kMaxGroupBytes = uint64_t{1} << 30; // all frames and the storage of one work-group
constexpr std::byte kPoison{0xff}; // fresh storage: NaN, -1 or true, so that a kernel that relies on it shows

struct Region {
  std::byte* data = nullptr;
  uint64_t count = 0; // elements
  Accesses* watch = nullptr;
};

[[noreturn]] void invalid(const Program& p, const std::string& what) {
  throw Error{TOLK_E_INVALID, "kernel " + p.kernel.name + ": " + what};
}

// A launch. One object per call of run, so that a program may run on several threads.
class Runner {
public:
  Runner(const Program& program, const LaunchArgs& args) : p(program), args_(args) {
    check_args();
    bind_buffers();
    uint64_t items = item_count();
    uint64_t frames = p.has_barrier ? items : 1;
    frame_words_ = (p.frame.size() + 7) / 8;
    uint64_t local_bytes = 0;
    for (const LocalStorage& s : p.locals) local_bytes += (s.count * s.cell + 7) / 8 * 8;
    if (frame_words_ * 8 * frames + local_bytes > kMaxGroupBytes)
      throw Error{TOLK_E_LIMIT, "kernel " + p.kernel.name + ": a work-group takes more than 1 GiB"};
    frames_.resize(frame_words_ * frames);
    for (uint64_t i = 0; i < frames; i++) prepare_frame(frame(i));
    local_words_.resize(local_bytes / 8);
    auto* at = reinterpret_cast<std::byte*>(local_words_.data());
    for (const LocalStorage& s : p.locals) {
      locals_.push_back({at, s.count});
      at += (s.count * s.cell + 7) / 8 * 8;
    }
    watch(items * args.grid[0] * args.grid[1] * args.grid[2], items);
    if (p.has_barrier) resume_.resize(items);
  }

  void run() {
    for (group_[2] = 0; group_[2] < args_.grid[2]; group_[2]++)
      for (group_[1] = 0; group_[1] < args_.grid[1]; group_[1]++)
        for (group_[0] = 0; group_[0] < args_.grid[0]; group_[0]++) run_group();
  }

private:
  static constexpr uint32_t kFinished = UINT32_MAX;

  std::byte* frame(uint64_t item) {
    return reinterpret_cast<std::byte*>(frames_.data() + item * frame_words_);
  }
  uint64_t item_count() const { return uint64_t{args_.local[0]} * args_.local[1] * args_.local[2]; }

  // Storage that several work-items may access and at least one may write.
  void watch(uint64_t all_items, uint64_t items) {
    if (all_items < 2 || all_items >= Accesses::kSeveral) return;
    watches_.reserve(buffers_.size() + locals_.size()); // the regions point at them
    for (size_t i = 0; i < buffers_.size(); i++)
      if (p.kernel.params[i].access & TOLK_ACCESS_WRITE)
        buffers_[i].watch = &watches_.emplace_back(buffers_[i].count);
    first_local_ = watches_.size();
    if (items > 1)
      for (Region& r : locals_) r.watch = &watches_.emplace_back(r.count);
  }

  // Barriers order accesses of work-group storage only.
  void local_barrier() {
    for (size_t i = first_local_; i < watches_.size(); i++) watches_[i].barrier();
  }

  void check_args() const {
    const std::vector<tolk_param>& params = p.kernel.params;
    if (args_.buffers.size() != p.buffer_count || args_.values.size() != params.size() - p.buffer_count)
      invalid(p, "expected " + std::to_string(p.buffer_count) + " buffers and " +
                     std::to_string(params.size() - p.buffer_count) + " values, found " +
                     std::to_string(args_.buffers.size()) + " and " + std::to_string(args_.values.size()));
    for (size_t i = 0; i < args_.buffers.size(); i++)
      if ((params[i].access & TOLK_ACCESS_WRITE) && !args_.buffers[i].writable)
        invalid(p, "buffer parameter " + std::to_string(i) + " is written, but its memory is read-only");
    uint64_t items = 1;
    for (int axis = 0; axis < 3; axis++) {
      if (args_.grid[axis] == 0 || args_.local[axis] == 0) invalid(p, "a launch size is 0");
      if (args_.grid[axis] > INT32_MAX || args_.local[axis] > 4096)
        invalid(p, "a launch size is out of range");
      items *= args_.local[axis];
    }
    if (items > 1 << 16) invalid(p, "more than 65536 work-items in a group");
    for (const SpecialSlot& s : p.specials) {
      uint64_t size = s.item ? args_.local[s.axis] : args_.grid[s.axis];
      if (s.bound != 0 && size > s.bound)
        invalid(p, std::string("the kernel was made for at most ") + std::to_string(s.bound) +
                       (s.item ? " work-items" : " work-groups") + " on axis " + std::to_string(s.axis) +
                       ", the launch has " + std::to_string(size));
    }
    for (size_t i = 0; i < args_.values.size(); i++) check_value(p.buffer_count + i, args_.values[i]);
  }

  void check_value(size_t param, uint64_t raw) const {
    const tolk_param& info = p.kernel.params[param];
    unsigned unused = 64 - type_facts(info.dtype).bits;
    bool is_signed = type_facts(info.dtype).kind == 'i';
    auto value = is_signed ? static_cast<int64_t>(raw << unused) >> unused
                           : static_cast<int64_t>(raw << unused >> unused);
    bool huge = !is_signed && value < 0; // u64 above the range that min and max can state
    if (huge || value < info.min || value > info.max)
      invalid(p, "value parameter " + std::to_string(param) + " is " +
                     (huge ? std::to_string(raw) : std::to_string(value)) + ", compiled for " +
                     std::to_string(info.min) + " to " + std::to_string(info.max));
  }

  void bind_buffers() {
    for (size_t i = 0; i < args_.buffers.size(); i++) {
      uint32_t bits = type_facts(p.kernel.params[i].dtype).bits;
      uint64_t size = args_.buffers[i].size;
      uint64_t count = bits >= 8 ? size / (bits / 8) : std::min(size, UINT64_MAX / 8) * 8 / bits;
      if (p.kernel.params[i].count != 0) count = std::min(count, p.kernel.params[i].count);
      buffers_.push_back({args_.buffers[i].data, count});
    }
  }

  void prepare_frame(std::byte* f) const {
    if (!p.frame.empty()) std::memcpy(f, p.frame.data(), p.frame.size());
    for (const ValueSlot& slot : p.values) {
      uint64_t raw = args_.values[slot.param - p.buffer_count];
      std::memcpy(f + slot.offset, &raw, cell_bytes(p.kernel.params[slot.param].dtype));
    }
  }

  void set_specials(std::byte* f, const uint32_t (&item)[3]) const {
    for (const SpecialSlot& s : p.specials) {
      int64_t index = s.item ? item[s.axis] : group_[s.axis];
      std::memcpy(f + s.offset, &index, s.wide ? 8 : 4);
    }
  }

  void run_group() {
    if (!local_words_.empty())
      std::memset(local_words_.data(), static_cast<int>(kPoison), local_words_.size() * 8);
    local_barrier();
    uint64_t number = 0;
    uint32_t item[3];
    for (item[2] = 0; item[2] < args_.local[2]; item[2]++)
      for (item[1] = 0; item[1] < args_.local[1]; item[1]++)
        for (item[0] = 0; item[0] < args_.local[0]; item[0]++, number++) {
          if (p.has_barrier) {
            set_specials(frame(number), item);
            resume_[number] = 0;
          } else {
            set_specials(frame(0), item);
            item_ = number;
            run_item(frame(0), 0);
          }
        }
    if (p.has_barrier) run_in_lock_step();
  }

  // All work-items run to the same barrier before any goes on.
  void run_in_lock_step() {
    for (bool finished = false; !finished;) {
      for (item_ = 0; item_ < resume_.size(); item_++) {
        resume_[item_] = run_item(frame(item_), resume_[item_]);
        if (resume_[item_] != resume_[0])
          throw Error{TOLK_E_KERNEL_FAULT, "kernel " + p.kernel.name + ": work-items 0 and " +
                                               std::to_string(item_) + where() +
                                               " do not reach the same barrier: " + stop_text(resume_[0]) +
                                               " and " + stop_text(resume_[item_])};
      }
      finished = resume_[0] == kFinished;
      local_barrier();
    }
  }
  std::string stop_text(uint32_t resume) const {
    return resume == kFinished ? "the end" : op_label(TOLK_IR_BARRIER, p.code[resume - 1].op);
  }

  // Runs from instruction `pc` to a barrier or the end; gives where to go on.
  uint32_t run_item(std::byte* f, uint32_t pc) {
    const Instruction* code = p.code.data();
    const auto end = static_cast<uint32_t>(p.code.size());
    while (pc < end) {
      const Instruction& in = code[pc];
      switch (in.action) {
      case Action::Alu:
        in.alu(f, in);
        pc++;
        break;
      case Action::Load:
        load(f, in);
        pc++;
        break;
      case Action::Store:
        store(f, in);
        pc++;
        break;
      case Action::Loop:
        set_counter(f, in, 0);
        pc = read_index(f, in.a, in.wide_index) > 0 ? pc + 1 : in.jump;
        break;
      case Action::EndLoop: {
        int64_t next = read_index(f, in.dst, in.wide_index) + 1;
        if (next < read_index(f, in.a, in.wide_index)) {
          set_counter(f, in, next);
          pc = in.jump;
        } else {
          pc++;
        }
        break;
      }
      case Action::If:
        pc = f[in.a] != std::byte{0} ? pc + 1 : in.jump;
        break;
      case Action::Barrier:
        return pc + 1;
      case Action::Poison:
        std::memset(f + in.dst, static_cast<int>(kPoison), in.count);
        pc++;
        break;
      }
    }
    return kFinished;
  }

  static int64_t read_index(const std::byte* f, uint32_t at, bool wide) {
    if (wide) {
      int64_t value;
      std::memcpy(&value, f + at, 8);
      return value;
    }
    int32_t value;
    std::memcpy(&value, f + at, 4);
    return value;
  }
  static void set_counter(std::byte* f, const Instruction& in, int64_t value) {
    std::memcpy(f + in.dst, &value, in.wide_index ? 8 : 4);
  }

  Region region(std::byte* f, const Instruction& in) const {
    switch (in.space) {
    case Space::Buffer:
      return buffers_[in.storage];
    case Space::Local:
      return locals_[in.storage];
    default:
      return {f + in.storage, in.count * in.vector_stride};
    }
  }

  // The first element that an access touches. A scalar index counts vectors in storage of vectors.
  uint64_t first_element(std::byte* f, const Instruction& in, const Region& r, uint32_t lane) const {
    int64_t index =
        read_index(f, in.a + (in.index_per_lane ? lane * (in.wide_index ? 8 : 4) : 0), in.wide_index);
    if (in.vector_stride > 1) {
      if (index < 0 || static_cast<uint64_t>(index) >= in.count) out_of_range(in, index, in.count);
      return static_cast<uint64_t>(index) * in.vector_stride;
    }
    // Wraps at the end of i64, where no storage reaches. The first lanes may lie before the storage when
    // their gate is false.
    uint64_t at = static_cast<uint64_t>(index) + (in.index_per_lane ? 0 : lane);
    if (at >= r.count) out_of_range(in, static_cast<int64_t>(at), r.count);
    return at;
  }

  void load(std::byte* f, const Instruction& in) const {
    Region r = region(f, in);
    if (r.watch && r.watch->watched()) watch_load(f, in, r);
    std::byte* d = f + in.dst;
    if (!in.has_gate && !in.index_per_lane && in.packed_bits == 0) {
      uint64_t at = consecutive(f, in, r);
      copy_in(d, r.data + at * in.cell, in.lanes, in);
      return;
    }
    for (uint32_t lane = 0; lane < in.lanes; lane++, d += in.cell) {
      if (!gate_open(f, in, lane)) {
        std::memcpy(d, f + in.c + uint64_t{lane} * in.cell, in.cell);
        continue;
      }
      uint64_t at = first_element(f, in, r, lane) + (in.vector_stride > 1 ? lane : 0);
      if (in.packed_bits != 0)
        *d = unpack_element(r.data, at, in);
      else
        copy_in(d, r.data + at * in.cell, 1, in);
    }
  }

  void store(std::byte* f, const Instruction& in) const {
    Region r = region(f, in);
    if (r.watch && r.watch->watched()) watch_store(f, in, r);
    const std::byte* s = f + in.c;
    if (!in.has_gate && !in.index_per_lane && in.packed_bits == 0) {
      uint64_t at = consecutive(f, in, r);
      copy_cells(r.data + at * in.cell, s, in.lanes, in.cell);
      return;
    }
    for (uint32_t lane = 0; lane < in.lanes; lane++, s += in.cell) {
      if (!gate_open(f, in, lane)) continue;
      uint64_t at = first_element(f, in, r, lane) + (in.vector_stride > 1 ? lane : 0);
      if (in.packed_bits != 0)
        pack_element(r.data, at, *s, in);
      else
        copy_cells(r.data + at * in.cell, s, 1, in.cell);
    }
  }

  // Calls visit(lane, element) for what the access touches.
  template <typename F>
  void each_element(std::byte* f, const Instruction& in, const Region& r, F visit) const {
    for (uint32_t lane = 0; lane < in.lanes; lane++)
      if (gate_open(f, in, lane))
        visit(lane, first_element(f, in, r, lane) + (in.vector_stride > 1 ? lane : 0));
  }
  void watch_load(std::byte* f, const Instruction& in, const Region& r) const {
    each_element(f, in, r, [&](uint32_t, uint64_t at) {
      if (uint32_t other = r.watch->read(at, this_item())) race(in, at, other);
    });
  }
  void watch_store(std::byte* f, const Instruction& in, const Region& r) const {
    each_element(f, in, r, [&](uint32_t lane, uint64_t at) {
      const std::byte* value = f + in.c + uint64_t{lane} * in.cell;
      bool same = in.packed_bits != 0 ? unpack_element(r.data, at, in) == *value
                                      : std::memcmp(r.data + at * in.cell, value, in.cell) == 0;
      if (same) return;
      if (uint32_t other = r.watch->write(at, this_item())) race(in, at, other);
    });
  }
  // Counts from 1 in the whole launch.
  uint32_t this_item() const {
    uint64_t group = (uint64_t{group_[2]} * args_.grid[1] + group_[1]) * args_.grid[0] + group_[0];
    return static_cast<uint32_t>(group * item_count() + item_ + 1);
  }

  // First of in.lanes consecutive elements, all inside.
  uint64_t consecutive(std::byte* f, const Instruction& in, const Region& r) const {
    uint64_t at = first_element(f, in, r, 0);
    if (in.vector_stride == 1 && at + in.lanes > r.count)
      first_element(f, in, r, static_cast<uint32_t>(r.count - at));
    return at;
  }

  static bool gate_open(const std::byte* f, const Instruction& in, uint32_t lane) {
    return !in.has_gate || f[in.b + (in.gate_per_lane ? lane : 0)] != std::byte{0};
  }

  // A single element is by far the most frequent, and a copy of constant size is one move.
  static void copy_cells(std::byte* to, const std::byte* from, uint32_t lanes, uint32_t cell) {
    if (lanes == 1 && cell == 4)
      std::memcpy(to, from, 4);
    else if (lanes == 1 && cell == 8)
      std::memcpy(to, from, 8);
    else
      std::memcpy(to, from, uint64_t{lanes} * cell);
  }
  static void copy_in(std::byte* to, const std::byte* from, uint32_t lanes, const Instruction& in) {
    copy_cells(to, from, lanes, in.cell);
    if (in.is_bool)
      for (uint32_t i = 0; i < lanes; i++) to[i] = std::byte{to[i] != std::byte{0}};
  }

  static std::byte unpack_element(const std::byte* data, uint64_t at, const Instruction& in) {
    uint64_t bit = at * in.packed_bits;
    auto raw = static_cast<uint8_t>(static_cast<uint8_t>(data[bit / 8]) >> (bit % 8));
    auto unused = static_cast<uint8_t>(8 - in.packed_bits);
    auto high = static_cast<uint8_t>(raw << unused);
    return static_cast<std::byte>(in.sign_bits ? static_cast<uint8_t>(static_cast<int8_t>(high) >> unused)
                                               : static_cast<uint8_t>(high >> unused));
  }
  static void pack_element(std::byte* data, uint64_t at, std::byte value, const Instruction& in) {
    uint64_t bit = at * in.packed_bits;
    auto mask = static_cast<uint8_t>(((1u << in.packed_bits) - 1) << (bit % 8));
    auto old = static_cast<uint8_t>(data[bit / 8]);
    auto fresh = static_cast<uint8_t>(static_cast<uint8_t>(value) << (bit % 8));
    data[bit / 8] = static_cast<std::byte>((old & ~mask) | (fresh & mask));
  }

  [[noreturn]] void out_of_range(const Instruction& in, int64_t index, uint64_t bound) const {
    std::string text = "index " + std::to_string(index) + " is outside of " + storage_text(in) +
                       ", which has " + std::to_string(bound);
    text += in.vector_stride > 1 ? " vectors"
                                 : std::string(" elements of ") + type_facts(p.kernel.ops[in.op].dtype).name;
    fault(in, text);
  }
  [[noreturn]] void race(const Instruction& in, uint64_t element, uint32_t other) const {
    std::string who = other == Accesses::kSeveral
                          ? "several work-items"
                          : "work-item " + std::to_string((other - 1) % item_count()) +
                                " of work-group number " + std::to_string((other - 1) / item_count());
    fault(in, "a race with " + who + " for element " + std::to_string(element) + " of " + storage_text(in));
  }
  std::string storage_text(const Instruction& in) const {
    uint32_t storage = p.kernel.sources[p.kernel.ops[in.op].first_source];
    return in.space == Space::Buffer ? "buffer parameter " + std::to_string(in.storage)
                                     : op_label(p.kernel.ops[storage].opcode, storage);
  }
  [[noreturn]] void fault(const Instruction& in, const std::string& text) const {
    throw Error{TOLK_E_KERNEL_FAULT, "kernel " + p.kernel.name + ", " +
                                         op_label(p.kernel.ops[in.op].opcode, in.op) + ": " + text +
                                         " (work-item " + std::to_string(item_) + where() + ")"};
  }
  std::string where() const {
    return " of work-group " + std::to_string(group_[0]) + ", " + std::to_string(group_[1]) + ", " +
           std::to_string(group_[2]);
  }

  const Program& p;
  const LaunchArgs& args_;
  std::vector<Region> buffers_, locals_;
  std::vector<Accesses> watches_; // of written buffers, then of work-group storage
  size_t first_local_ = 0;
  std::vector<uint64_t> frames_, local_words_; // words, for alignment
  uint64_t frame_words_ = 0;
  std::vector<uint32_t> resume_; // per work-item: the instruction after the barrier it waits at
  uint32_t group_[3] = {0, 0, 0};
  uint64_t item_ = 0; // running work-item of the group, for messages
};

} // namespace

void run(const Program& program, const LaunchArgs& args) { Runner(program, args).run(); }

uint64_t private_bytes(const Program& program) { return program.frame.size(); }

uint64_t shared_bytes(const Program& program) {
  uint64_t sum = 0;
  for (const LocalStorage& s : program.locals) sum += s.count * s.cell;
  return sum;
}

const std::string& name(const Program& program) { return program.kernel.name; }

size_t buffer_param_count(const Program& program) { return program.buffer_count; }

} // namespace tolk_interp

#include "host_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "float_functions.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace host {
namespace {

using namespace tolk;
using Sizes = std::vector<int64_t>;

// Where the elements of storage on one device begin: its BUFFER, the position in the BUFFER's device tuple,
// and the byte offset there.
struct Place {
  UOp buffer;
  int64_t position = 0, offset = 0;
};
Place place_of(const UOp& storage) {
  Place place{storage, 0, 0};
  for (; !place.buffer.is(Op::BUFFER); place.buffer = UOp(place.buffer.src(0))) {
    if (place.buffer.is(Op::SLICE))
      place.offset += place.buffer.arg().i(0);
    else if (place.buffer.is(Op::MSELECT))
      place.position = position_of(place.buffer);
    else
      throw std::runtime_error("not storage on one device: " + print_line(storage));
  }
  return place;
}

size_t positions_of(const UOp& argument) {
  if (argument.is(Op::SLICE)) return positions_of(argument.src(0));
  if (argument.is(Op::MSTACK)) return argument.nsrc();
  return argument.is(Op::BUFFER) ? split_devices(device_text(argument)).size() : 1;
}

// The storage of one position of an argument; what is on one device has one position.
UOp at_position(const UOp& argument, size_t position) {
  switch (argument.op()) {
  case Op::BUFFER:
    return is_multi(device_text(argument)) ? mselect(argument, int64_t(position)) : argument;
  case Op::SLICE:
    return slice_node(at_position(argument.src(0), position), argument.dtype(), argument.arg().i(0),
                      elements_of(argument));
  case Op::MSELECT:
    return at_position(argument.src(0), size_t(position_of(argument)));
  case Op::MSTACK:
    return at_position(argument.src(position), 0);
  default:
    throw std::runtime_error("not an argument: " + print_line(argument));
  }
}

// One operation, also those whose last bit devices choose.
Scalar operation(Op op, DType dtype, DType src_dtype, std::span<const Scalar> src) {
  if (auto exact = evaluate_op(op, dtype, src_dtype, src)) return *exact;
  double x = src[0].f;
  Scalar out;
  if (auto function = test::float_function(tolk::name(op), x)) {
    out.f = round_to(dtype, *function);
    return out;
  }
  switch (op) {
  case Op::MAX:
    out.f = std::max(x, src[1].f);
    break; // of zeros
  case Op::ADD:
    out.f = x + src[1].f;
    break; // NaN
  case Op::SUB:
    out.f = x - src[1].f;
    break;
  case Op::MUL:
    out.f = x * src[1].f;
    break;
  case Op::FDIV:
    out.f = x / src[1].f;
    break;
  default:
    throw std::runtime_error(std::string("no host arithmetic for ") + name(op));
  }
  out.f = round_to(dtype, out.f);
  return out;
}

int64_t number(const UOp& e, const Variables& variables) {
  if (e.is_const()) return e.const_int();
  std::vector<Binding> bindings;
  for (const UOp& u : toposort(e)) {
    if (u.is(Op::VAR)) bindings.push_back({u, {variables.at(var_name(u)), 0}});
    if (u.is(Op::BIND)) bindings.push_back({u, {u.src(1).const_int(), 0}});
  }
  if (e.is(Op::BIND)) return e.src(1).const_int();
  if (e.is(Op::VAR)) return variables.at(var_name(e));
  return int64_t(evaluate(e, bindings).i);
}

Sizes sizes_of(const Shape& shape, const Variables& variables) {
  Sizes out;
  for (const SInt& d : shape) out.push_back(d.is_const() ? d.value() : number(d.uop(), variables));
  return out;
}
int64_t count_of(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}
template <typename F> void for_each(const Sizes& sizes, F f) {
  Sizes at(sizes.size(), 0);
  for (int64_t n = count_of(sizes); n > 0; --n) {
    f(at);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}
int64_t flat(const Sizes& at, const Sizes& sizes) {
  int64_t n = 0;
  for (size_t i = 0; i < at.size(); ++i) n = n * sizes[i] + at[i];
  return n;
}

Scalar zero_for(const UOp&) { return {}; }

// Tensor graph, one node at a time.
class Reference {
public:
  Reference(Memory& memory, const Variables& variables) : memory_(memory), variables_(variables) {}

  Values run(const UOp& root) {
    for (const UOp& u : toposort(root))
      if (u.dtype() != DType::Index) done_[u] = node(u);
    return done_.at(root);
  }

private:
  Sizes sizes(const UOp& u) const { return sizes_of(shape_of(u), variables_); }
  int64_t num(const UOp& e) const { return number(e, variables_); }

  template <typename Map> Values moved(const UOp& u, Map map) {
    Sizes to = sizes(u), from = sizes(u.src(0)), at(from.size());
    const Values& src = done_.at(u.src(0));
    Values out;
    for_each(to,
             [&](const Sizes& i) { out.push_back(map(i, at) ? src[size_t(flat(at, from))] : zero_for(u)); });
    return out;
  }

  Values node(const UOp& u) {
    Sizes to = sizes(u);
    size_t rank = to.size();
    switch (u.op()) {
    case Op::CONST:
      return {scalar_of(u)};
    case Op::BUFFER:
    case Op::MSELECT:
    case Op::SLICE: {
      Values out;
      for (int64_t i = 0; i < elements_of(u); ++i) out.push_back(memory_.get(u, i));
      return out;
    }
    case Op::IOTA: {
      Values out;
      for (int64_t i = 0; i < to[0]; ++i) {
        Scalar s{i, 0};
        out.push_back(operation(Op::CAST, u.dtype(), DType::Index, std::span(&s, 1)));
      }
      return out;
    }
    case Op::RESHAPE: {
      Values out = done_.at(u.src(0));
      out.resize(size_t(count_of(to)));
      return out;
    }
    case Op::CONTIGUOUS:
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::FUNCTION:
    case Op::COPY:
      return done_.at(u.src(0));
    case Op::PERMUTE:
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[size_t(u.arg().i(d))] = i[d];
        return true;
      });
    case Op::EXPAND: {
      Sizes from = sizes(u.src(0));
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[d] = from[d] == 1 ? 0 : i[d];
        return true;
      });
    }
    case Op::SHRINK:
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[d] = i[d] + num(u.src(1 + d));
        return true;
      });
    case Op::PAD: {
      Sizes from = sizes(u.src(0));
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) {
          at[d] = i[d] - num(u.src(1 + d));
          if (at[d] < 0 || at[d] >= from[d]) return false;
        }
        return true;
      });
    }
    case Op::FLIP:
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[d] = u.arg().word >> d & 1 ? to[d] - 1 - i[d] : i[d];
        return true;
      });
    case Op::WINDOW: {
      auto axis = size_t(u.arg().i(0));
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d + 1 < rank; ++d) at[d] = d <= axis ? i[d] : i[d + 1];
        at[axis] = i[axis] * u.arg().i(1) + i[axis + 1] * u.arg().i(2);
        return true;
      });
    }
    case Op::GATHER: {
      size_t axis = u.arg().word, picks = shape_of(u.src(1)).size();
      Sizes pick_sizes = sizes(u.src(1)), from = sizes(u.src(0)), pick(picks);
      const Values& indices = done_.at(u.src(1));
      return moved(u, [&](const Sizes& i, Sizes& at) {
        for (size_t d = 0; d < picks; ++d) pick[d] = i[axis + d];
        __int128 k = indices[size_t(flat(pick, pick_sizes))].i;
        if (k < 0) k += from[axis];
        if (k < 0 || k >= from[axis]) return false;
        for (size_t d = 0; d < axis; ++d) at[d] = i[d];
        at[axis] = int64_t(k);
        for (size_t d = axis + 1; d < from.size(); ++d) at[d] = i[d - 1 + picks];
        return true;
      });
    }
    case Op::REDUCE_AXIS: {
      Sizes from = sizes(u.src(0));
      const Values& src = done_.at(u.src(0));
      Values out(size_t(count_of(to)), scalar_of(reduce_identity(reduce_op(u), u.dtype())));
      for_each(from, [&](const Sizes& i) {
        Sizes at = i;
        for (size_t d = 0; d < at.size(); ++d)
          if (reduce_axes(u) >> d & 1) at[d] = 0;
        Scalar& sum = out[size_t(flat(at, to))];
        Scalar both[] = {sum, src[size_t(flat(i, from))]};
        sum = operation(reduce_op(u), u.dtype(), u.dtype(), both);
      });
      return out;
    }
    default:
      break;
    }
    if (!u.is(ops::Elementwise)) throw std::runtime_error("the reference does not know " + print_line(u));
    Values out(size_t(count_of(to)));
    std::vector<Scalar> src(u.nsrc());
    for (size_t i = 0; i < out.size(); ++i) {
      for (size_t s = 0; s < src.size(); ++s) {
        const UOp& source = u.src(s);
        if (source.dtype() == DType::Index) {
          src[s] = {num(source), 0};
          continue;
        }
        const Values& values = done_.at(source);
        src[s] = values[shape_of(source).empty() ? 0 : i];
      }
      out[i] = operation(u.op(), u.dtype(), u.src(u.nsrc() - 1).dtype(), src);
    }
    return out;
  }

  Memory& memory_;
  const Variables& variables_;
  std::unordered_map<UOp, Values, UOpHash> done_;
};

// One kernel, by nested loops.
class Kernel {
public:
  Kernel(std::span<const UOp> arguments, Memory& memory, const Variables& variables)
      : arguments_(arguments), memory_(memory), variables_(variables) {}

  int64_t run(const UOp& sink) {
    for (const UOp& effect : sink.src()) {
      UOp inner = effect;
      std::vector<UOp> loops;
      if (inner.is(Op::END)) {
        loops.assign(inner.src().begin() + 1, inner.src().end());
        inner = inner.src(0);
      }
      if (!inner.is(Op::STORE)) throw std::runtime_error("not a store: " + print_line(inner));
      // Stores take effect after all reads only when the kernel is right: run them at once.
      each(loops, 0, [&] {
        if (inner.nsrc() > 3 && eval(inner.src(3)).i == 0) return;
        Scalar value = eval(inner.src(2));
        UOp target = argument(inner.src(0));
        memory_.set(target, checked(target, eval(inner.src(1)).i, inner.src(0)), value);
      });
    }
    return iterations_;
  }

private:
  UOp argument(const UOp& param) const {
    UOp a = arguments_[size_t(slot_of(param))];
    if (a.dtype() != param.dtype() || elements_of(a) != elements_of(param))
      throw std::runtime_error("argument " + print_line(a) + " does not fit " + print_line(param));
    return a;
  }
  static int64_t checked(const UOp& storage, __int128 index, const UOp& param) {
    if (index < 0 || index >= elements_of(storage))
      throw std::runtime_error("index " + std::to_string(int64_t(index)) + " is outside " +
                               print_line(param));
    return int64_t(index);
  }

  template <typename F> void each(std::span<const UOp> loops, size_t depth, F f) {
    if (depth == loops.size()) {
      ++iterations_;
      f();
      return;
    }
    int64_t extent = int64_t(eval(loops[depth].src(0)).i);
    for (int64_t i = 0; i < extent; ++i) {
      loops_[loops[depth].node()] = i;
      ++stamp_;
      each(loops, depth + 1, f);
    }
    loops_.erase(loops[depth].node());
    ++stamp_;
  }

  Scalar eval(const UOp& u) {
    if (u.is_const()) return scalar_of(u);
    if (u.is(Op::VAR)) return {variables_.at(var_name(u)), 0};
    if (u.is(Op::RANGE)) {
      auto it = loops_.find(u.node());
      if (it == loops_.end()) throw std::runtime_error("a loop is used outside itself: " + print_line(u));
      return {it->second, 0};
    }
    auto& known = memo_[u.node()];
    if (known.first == stamp_) return known.second;
    Scalar result;
    if (u.is(Op::LOAD)) {
      bool on = u.nsrc() < 3 || eval(u.src(2)).i != 0;
      if (on) {
        UOp storage = argument(u.src(0));
        result = memory_.get(storage, checked(storage, eval(u.src(1)).i, u.src(0)));
      } else if (u.nsrc() > 3) {
        result = eval(u.src(3));
      }
    } else if (u.is(Op::REDUCE)) {
      Scalar sum = scalar_of(reduce_identity(reduce_op(u), u.dtype()));
      each(u.src().subspan(1), 0, [&] {
        Scalar both[] = {sum, eval(u.src(0))};
        sum = operation(reduce_op(u), u.dtype(), u.dtype(), both);
      });
      result = sum;
    } else if (u.is(Op::WHERE)) {
      result = eval(eval(u.src(0)).i ? u.src(1) : u.src(2));
    } else if (u.is(ops::Elementwise)) {
      std::vector<Scalar> src;
      for (const UOp& s : u.src()) src.push_back(eval(s));
      result = operation(u.op(), u.dtype(), u.src(u.nsrc() - 1).dtype(), src);
    } else {
      throw std::runtime_error("not allowed in a kernel: " + print_line(u));
    }
    memo_[u.node()] = {stamp_, result};
    return result;
  }

  std::span<const UOp> arguments_;
  Memory& memory_;
  const Variables& variables_;
  std::unordered_map<const UOpNode*, int64_t> loops_;
  std::unordered_map<const UOpNode*, std::pair<uint64_t, Scalar>> memo_;
  uint64_t stamp_ = 1;
  int64_t iterations_ = 0;
};

} // namespace

std::vector<uint8_t>& Memory::bytes(const UOp& buffer, int64_t position) {
  auto [it, fresh] = by_slot_.emplace(std::pair(slot_of(buffer), position), std::vector<uint8_t>());
  if (fresh) it->second.assign(storage_bytes(buffer.dtype(), uint64_t(elements_of(buffer))), 0xA5);
  return it->second;
}

Scalar Memory::get(const UOp& storage, int64_t index) {
  size_t width = size_t(bits(storage.dtype())) / 8;
  Place place = place_of(storage);
  size_t at = size_t(place.offset) + size_t(index) * width;
  std::vector<uint8_t>& all = bytes(place.buffer, place.position);
  if (at + width > all.size()) throw std::runtime_error("a read outside " + print_line(storage));
  uint64_t word = 0;
  std::memcpy(&word, all.data() + at, width);
  Scalar s;
  DType d = storage.dtype();
  if (is_float(d))
    s.f = float_from_bits(d, word);
  else if (is_bool(d))
    s.i = word != 0;
  else if (is_signed(d))
    s.i = int64_t(word << (64 - 8 * width)) >> (64 - 8 * width);
  else
    s.i = word;
  return s;
}

void Memory::set(const UOp& storage, int64_t index, const Scalar& value) {
  size_t width = size_t(bits(storage.dtype())) / 8;
  Place place = place_of(storage);
  size_t at = size_t(place.offset) + size_t(index) * width;
  std::vector<uint8_t>& all = bytes(place.buffer, place.position);
  if (at + width > all.size()) throw std::runtime_error("a write outside " + print_line(storage));
  uint64_t word = is_float(storage.dtype()) ? float_to_bits(storage.dtype(), value.f) : uint64_t(value.i);
  std::memcpy(all.data() + at, &word, width);
}

void Memory::fill(const UOp& storage, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Scalar s;
    if (is_float(storage.dtype()))
      s.f = values[i];
    else
      s.i = int64_t(values[i]);
    set(storage, int64_t(i), s);
  }
}

Values value_of(const UOp& u, Memory& memory, const Variables& variables) {
  return Reference(memory, variables).run(u);
}

namespace {

Variables at_device(Variables variables, size_t positions, size_t position) {
  if (positions > 1) variables[kDevicePosition] = int64_t(position);
  return variables;
}

// Of arguments on one device each.
int64_t run_call(const UOp& body, std::span<const UOp> arguments, Memory& memory,
                 const Variables& variables) {
  if (!body.is(Op::COPY)) {
    for (const UOp& a : arguments)
      if (device_of(a) != device_of(arguments[0]))
        throw std::runtime_error("a kernel with arguments on " + device_of(arguments[0]) + " and " +
                                 device_of(a));
    return Kernel(arguments, memory, variables).run(body);
  }
  if (elements_of(arguments[0]) != elements_of(arguments[1]) || arguments[0].dtype() != arguments[1].dtype())
    throw std::runtime_error("a copy between storage of different sizes");
  for (int64_t i = 0; i < elements_of(arguments[0]); ++i)
    memory.set(arguments[0], i, memory.get(arguments[1], i));
  return 0;
}

} // namespace

int64_t run_linear(const UOp& linear, Memory& memory, const Variables& variables) {
  int64_t iterations = 0;
  for (const UOp& item : linear.src()) {
    size_t positions = 1;
    for (const UOp& a : item.src().subspan(1)) positions = std::max(positions, positions_of(a));
    for (size_t p = 0; p < positions; ++p) {
      std::vector<UOp> arguments;
      for (const UOp& a : item.src().subspan(1)) {
        if (positions_of(a) != positions && !item.src(0).is(Op::COPY))
          throw std::runtime_error("a call with arguments on different numbers of devices: " +
                                   print_line(item));
        arguments.push_back(at_position(a, positions_of(a) == 1 ? 0 : p));
      }
      iterations += run_call(item.src(0), arguments, memory, at_device(variables, positions, p));
    }
  }
  return iterations;
}

std::vector<double> as_doubles(const Values& values, DType dtype) {
  std::vector<double> out;
  for (const Scalar& s : values) out.push_back(is_float(dtype) ? s.f : double(s.i));
  return out;
}

} // namespace host

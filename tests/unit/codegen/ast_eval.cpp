#include "ast_eval.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "float_functions.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk_test {
namespace {

using namespace tolk;

struct Value {
  double f = 0;
  int64_t i = 0;
};

int64_t wrapped(DType t, __int128 v) { return t == DType::Index ? int64_t(v) : int64_t(wrap_to(t, v)); }

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  __int128 q = __int128(a) / b;
  return int64_t(q - (__int128(a) % b != 0 && (a < 0) != (b < 0)));
}

class Evaluator {
public:
  Evaluator(const UOp& ast, std::vector<Data>& buffers, const std::vector<int64_t>& variables)
      : buffers_(buffers) {
    std::set<std::string> names;
    for (const UOp& u : toposort(ast))
      if (u.is(Op::VAR)) names.insert(var_name(u));
    size_t at = 0;
    for (const std::string& n : names) variables_[n] = variables.at(at++);
  }

  void effect(const UOp& u) {
    if (u.is(Op::SINK)) {
      for (const UOp& s : u.src()) effect(s);
    } else if (u.is(Op::END)) {
      loop(u.src().subspan(1), [&] { effect(u.src(0)); });
    } else {
      int64_t index = eval(u.src(1)).i;
      if (u.nsrc() > 3 && !eval(u.src(3)).i) return;
      Value v = eval(u.src(2));
      Data& d = buffers_.at(size_t(slot_of(u.src(0))));
      if (is_float(d.dtype))
        d.floats.at(size_t(index)) = round_to(d.dtype, v.f);
      else
        d.integers.at(size_t(index)) = v.i;
    }
  }

private:
  template <typename F> void loop(std::span<const UOp> ranges, F body) {
    if (ranges.empty()) {
      body();
      return;
    }
    int64_t extent = eval(ranges[0].src(0)).i;
    for (int64_t i = 0; i < extent; ++i) {
      loops_[ranges[0]] = i;
      loop(ranges.subspan(1), body);
    }
  }

  Value eval(const UOp& u) {
    switch (u.op()) {
    case Op::CONST:
      return is_float(u.dtype()) ? Value{u.const_float(), 0} : Value{0, u.const_int()};
    case Op::RANGE:
      return {0, loops_.at(u)};
    case Op::VAR:
      return {0, variables_.at(var_name(u))};
    case Op::LOAD: {
      if (u.nsrc() > 2 && !eval(u.src(2)).i) return u.nsrc() > 3 ? eval(u.src(3)) : Value{};
      const Data& d = buffers_.at(size_t(slot_of(u.src(0))));
      size_t index = size_t(eval(u.src(1)).i);
      return is_float(d.dtype) ? Value{d.floats.at(index), 0} : Value{0, d.integers.at(index)};
    }
    case Op::REDUCE: {
      Op op = reduce_op(u);
      Value sum;
      UOp start = reduce_identity(op, u.dtype());
      sum = eval(start);
      loop(u.src().subspan(1), [&] {
        Value v = eval(u.src(0));
        sum = is_float(u.dtype()) ? Value{binary(op, sum.f, v.f), 0}
                                  : Value{0, integer(op, u.dtype(), sum.i, v.i)};
      });
      return sum;
    }
    case Op::WHERE:
      return eval(u.src(0)).i ? eval(u.src(1)) : eval(u.src(2));
    case Op::CAST: {
      Value v = eval(u.src(0));
      bool from = is_float(u.src(0).dtype());
      if (is_float(u.dtype())) return {round_to(u.dtype(), from ? v.f : double(v.i)), 0};
      if (is_bool(u.dtype())) return {0, from ? v.f != 0 : v.i != 0};
      return {0, from ? int64_t(float_to_int(u.dtype(), v.f)) : wrapped(u.dtype(), v.i)};
    }
    case Op::BITCAST: {
      Value v = eval(u.src(0));
      uint64_t raw = is_float(u.src(0).dtype()) ? float_to_bits(u.src(0).dtype(), v.f) : uint64_t(v.i);
      if (is_float(u.dtype())) return {float_from_bits(u.dtype(), raw), 0};
      return {0, wrapped(u.dtype(), int64_t(raw))};
    }
    default:
      break;
    }
    if (u.nsrc() == 1) {
      Value a = eval(u.src(0));
      return is_float(u.dtype()) ? Value{test::float_function(tolk::name(u.op()), a.f).value(), 0}
                                 : Value{0, wrapped(u.dtype(), -__int128(a.i))};
    }
    Value a = eval(u.src(0)), b = eval(u.src(1));
    bool floats = is_float(u.src(0).dtype());
    if (ops::Compare.has(u.op())) {
      bool r = u.is(Op::CMPLT) ? (floats ? a.f < b.f : less(u.src(0).dtype(), a.i, b.i))
                               : (floats ? a.f == b.f : a.i == b.i) == u.is(Op::CMPEQ);
      return {0, r};
    }
    if (floats) return {binary(u.op(), a.f, b.f), 0};
    return {0, integer(u.op(), u.dtype(), a.i, b.i)};
  }

  static bool less(DType t, int64_t a, int64_t b) {
    return t == DType::U64 ? uint64_t(a) < uint64_t(b) : a < b;
  }

  static double binary(Op op, double a, double b) {
    switch (op) {
    case Op::ADD:
      return a + b;
    case Op::SUB:
      return a - b;
    case Op::MUL:
      return a * b;
    case Op::FDIV:
      return a / b;
    case Op::MAX:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    default:
      throw std::runtime_error("no such operation");
    }
  }
  static int64_t integer(Op op, DType t, int64_t a, int64_t b) {
    __int128 x = a, y = b;
    if (t == DType::U64) x = uint64_t(a), y = uint64_t(b);
    int width = t == DType::Index ? 64 : bits(t);
    switch (op) {
    case Op::ADD:
      return wrapped(t, is_bool(t) ? (x | y) : x + y);
    case Op::SUB:
      return wrapped(t, x - y);
    case Op::MUL:
      return wrapped(t, x * y);
    case Op::MAX:
      return int64_t(std::max(x, y));
    case Op::FLOORDIV:
      return wrapped(t, t == DType::U64 ? (y ? x / y : 0) : floor_div(a, b));
    case Op::FLOORMOD:
      if (t == DType::U64) return y ? int64_t(x % y) : 0;
      return b == 0 ? 0 : int64_t(x - __int128(floor_div(a, b)) * y);
    case Op::CDIV:
      return wrapped(t, y == 0 ? 0 : x / y);
    case Op::CMOD:
      return wrapped(t, y == 0 ? 0 : x % y);
    case Op::SHL:
      return y < 0 || y >= width ? 0 : wrapped(t, x << int(y));
    case Op::SHR:
      return int64_t(y < 0 || y >= width ? (x < 0 ? -1 : 0) : x >> int(y));
    case Op::AND:
      return a & b;
    case Op::OR:
      return a | b;
    case Op::XOR:
      return a ^ b;
    default:
      throw std::runtime_error("no such operation");
    }
  }

  std::vector<Data>& buffers_;
  std::map<std::string, int64_t> variables_;
  std::unordered_map<UOp, int64_t, UOpHash> loops_;
};

} // namespace

void evaluate(const UOp& ast, std::vector<Data>& buffers, const std::vector<int64_t>& variables) {
  Evaluator(ast, buffers, variables).effect(ast);
}

} // namespace tolk_test

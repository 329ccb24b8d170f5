#include "samples.h"

#include "tolk/uop/build.h"

namespace tolk_test {

using namespace tolk;

namespace {

// A loop, or index 0 for a single iteration.
struct Loops {
  std::vector<UOp> open;
  int64_t next = 0;
  UOp loop(const UOp& extent, AxisType type = AxisType::Loop) {
    if (extent.is_const_int(1)) return index_const(0);
    open.push_back(range_node(extent, next++, type));
    return open.back();
  }
  UOp loop(int64_t extent) { return loop(index_const(extent)); }
};

UOp reduce_loop(Loops& l, int64_t extent, std::vector<UOp>& list) {
  if (extent == 1) return index_const(0);
  list.push_back(range_node(extent, l.next++, AxisType::Reduce));
  return list.back();
}
UOp reduced(Op op, const UOp& value, const std::vector<UOp>& list) {
  return list.empty() ? value : reduce(op, value, list);
}

UOp kernel(const Loops& l, const UOp& store) {
  UOp effect = end(store, l.open);
  return kernel_sink(std::span<const UOp>(&effect, 1));
}

UOp in_range(const UOp& i, int64_t n) {
  return logical_and(less(index_const(-1), i), less(i, index_const(n)));
}

} // namespace

UOp matmul(int64_t m, int64_t n, int64_t k, bool transposed, DType dtype) {
  Loops l;
  UOp i = l.loop(m), j = l.loop(n);
  std::vector<UOp> list;
  UOp r = reduce_loop(l, k, list);
  UOp a = load(param_node(1, dtype, m * k), i * k + r);
  UOp b = load(param_node(2, dtype, n * k), transposed ? j * k + r : r * n + j);
  return kernel(l, store(param_node(0, dtype, m * n), i * n + j, reduced(Op::ADD, a * b, list)));
}

UOp convolution(int64_t batch, int64_t in, int64_t out, int64_t size, int64_t k, int64_t stride,
                int64_t pad) {
  int64_t o = (size + 2 * pad - k) / stride + 1;
  Loops l;
  UOp b = l.loop(batch), oc = l.loop(out), oh = l.loop(o), ow = l.loop(o);
  std::vector<UOp> list;
  UOp ic = reduce_loop(l, in, list), kh = reduce_loop(l, k, list), kw = reduce_loop(l, k, list);
  UOp ih = oh * stride + kh - pad, iw = ow * stride + kw - pad;
  UOp gate = pad ? logical_and(in_range(ih, size), in_range(iw, size)) : UOp();
  UOp x = load(param_node(1, DType::F32, batch * in * size * size), ((b * in + ic) * size + ih) * size + iw,
               gate);
  UOp w = load(param_node(2, DType::F32, out * in * k * k), ((oc * in + ic) * k + kh) * k + kw);
  UOp value = reduced(Op::ADD, x * w, list) + load(param_node(3, DType::F32, out), oc);
  value = where(less(zero_of(DType::F32), value), value, zero_of(DType::F32));
  return kernel(
      l, store(param_node(0, DType::F32, batch * out * o * o), ((b * out + oc) * o + oh) * o + ow, value));
}

UOp add(int64_t n, DType dtype) {
  Loops l;
  UOp i = l.loop(n);
  return kernel(l, store(param_node(0, dtype, n), i,
                         load(param_node(1, dtype, n), i) + load(param_node(2, dtype, n), i)));
}

UOp row_reduce(Op op, int64_t rows, int64_t columns, DType dtype) {
  Loops l;
  UOp i = l.loop(rows);
  std::vector<UOp> list;
  UOp r = reduce_loop(l, columns, list);
  return kernel(l, store(param_node(0, dtype, rows), i,
                         reduced(op, load(param_node(1, dtype, rows * columns), i * columns + r), list)));
}

UOp column_reduce(Op op, int64_t rows, int64_t columns, DType dtype) {
  Loops l;
  UOp i = l.loop(columns);
  std::vector<UOp> list;
  UOp r = reduce_loop(l, rows, list);
  return kernel(l, store(param_node(0, dtype, columns), i,
                         reduced(op, load(param_node(1, dtype, rows * columns), r * columns + i), list)));
}

UOp unary(Op op, int64_t n, DType dtype) {
  Loops l;
  UOp i = l.loop(n);
  return kernel(l, store(param_node(0, dtype, n), i, alu(op, load(param_node(1, dtype, n), i))));
}

namespace {

// p0[i] = p1[p2[i]], reading 0 outside.
UOp gather_rows(int64_t rows, int64_t width, int64_t count, DType index_type) {
  Loops l;
  UOp i = l.loop(count), j = l.loop(width);
  UOp at = cast(load(param_node(2, index_type, count), i), DType::Index);
  at = where(less(at, index_const(0)), at + rows, at);
  UOp v = load(param_node(1, DType::F32, rows * width), at * width + j, in_range(at, rows));
  return kernel(l, store(param_node(0, DType::F32, count * width), i * width + j, v));
}

// p0[i] = position of the largest of row i, the first of several.
UOp argmax(int64_t rows, int64_t columns) {
  Loops l;
  UOp i = l.loop(rows);
  std::vector<UOp> first, second;
  UOp r = reduce_loop(l, columns, first), s = reduce_loop(l, columns, second);
  UOp p = param_node(1, DType::F32, rows * columns);
  UOp largest = reduced(Op::MAX, load(p, i * columns + r), first);
  UOp position = cast(s, DType::I32);
  UOp hit = alu(Op::CMPEQ, load(p, i * columns + s), largest);
  UOp best =
      reduced(Op::MAX, where(hit, constant(DType::I32, columns) - position, zero_of(DType::I32)), second);
  return kernel(
      l, store(param_node(0, DType::I64, rows), i, cast(constant(DType::I32, columns) - best, DType::I64)));
}

UOp softmax(int64_t rows, int64_t columns) {
  Loops l;
  UOp i = l.loop(rows), j = l.loop(columns);
  std::vector<UOp> first, second;
  UOp r = reduce_loop(l, columns, first), s = reduce_loop(l, columns, second);
  UOp p = param_node(1, DType::F32, rows * columns);
  UOp top = reduced(Op::MAX, load(p, i * columns + r), first);
  UOp sum = reduced(Op::ADD, alu(Op::EXP, load(p, i * columns + s) - top), second);
  UOp value = alu(Op::FDIV, alu(Op::EXP, load(p, i * columns + j) - top), sum);
  return kernel(l, store(param_node(0, DType::F32, rows * columns), i * columns + j, value));
}

// A reduction of reductions: p0[i] = max over j of sum over k of p1[i,j,k] * p2[k].
UOp nested(int64_t a, int64_t b, int64_t c) {
  Loops l;
  UOp i = l.loop(a);
  std::vector<UOp> outer, inner;
  UOp j = reduce_loop(l, b, outer), k = reduce_loop(l, c, inner);
  UOp sum = reduced(Op::ADD,
                    load(param_node(1, DType::F32, a * b * c), (i * b + j) * c + k) *
                        load(param_node(2, DType::F32, c), k),
                    inner);
  return kernel(l, store(param_node(0, DType::F32, a), i, reduced(Op::MAX, sum, outer)));
}

// Two reductions over one loop, joined.
UOp two_sums(int64_t rows, int64_t columns) {
  Loops l;
  UOp i = l.loop(rows);
  std::vector<UOp> list;
  UOp r = reduce_loop(l, columns, list);
  UOp x = load(param_node(1, DType::F32, rows * columns), i * columns + r);
  return kernel(l, store(param_node(0, DType::F32, rows), i,
                         reduced(Op::ADD, x, list) + reduced(Op::MAX, x * x, list)));
}

// A transposed copy of a window with zeros around it, and a conversion.
UOp padded_transpose(int64_t rows, int64_t columns) {
  Loops l;
  UOp i = l.loop(columns + 3), j = l.loop(rows + 2);
  UOp r = j - 1, c = i - 2;
  UOp v = load(param_node(1, DType::I32, rows * columns), r * columns + c,
               logical_and(in_range(r, rows), in_range(c, columns)));
  return kernel(l, store(param_node(0, DType::F32, (rows + 2) * (columns + 3)), i * (rows + 2) + j,
                         cast(v, DType::F32)));
}

// Row sums plus a bias by row and a scale by column, with broadcast scalars.
UOp broadcasts(int64_t rows, int64_t columns) {
  Loops l;
  UOp i = l.loop(rows), j = l.loop(columns);
  UOp v = load(param_node(1, DType::F32, rows), i) * load(param_node(2, DType::F32, columns), j) +
          load(param_node(3, DType::F32, 1), index_const(0));
  return kernel(l, store(param_node(0, DType::F32, rows * columns), i * columns + j, v));
}

// Reversed and strided reads, and a flat index taken apart.
UOp strided(int64_t n) {
  Loops l;
  UOp i = l.loop(n);
  UOp v = load(param_node(1, DType::F32, 3 * n), i * 3 + 1) +
          load(param_node(2, DType::F32, n), index_const(n - 1) - i) +
          load(param_node(3, DType::F32, 8), tolk::floormod(i, index_const(5))) +
          load(param_node(4, DType::F32, n), tolk::floordiv(i, index_const(3)));
  return kernel(l, store(param_node(0, DType::F32, n), i, v));
}

// In place: p0 = p0 + 1.
UOp in_place(int64_t n) {
  Loops l;
  UOp i = l.loop(n), p = param_node(0, DType::F32, n);
  return kernel(l, store(p, i, load(p, i) + one_of(DType::F32)));
}

// Loop positions as data, and integer functions with floor semantics.
UOp integers(int64_t n, DType dtype) {
  Loops l;
  UOp i = l.loop(n);
  UOp a = load(param_node(1, dtype, n), i), b = load(param_node(2, dtype, n), i);
  UOp v = alu(Op::FLOORDIV, a, b) + alu(Op::FLOORMOD, a, b) * constant(dtype, 3) + alu(Op::CDIV, a, b) +
          alu(Op::CMOD, a, b) + cast(i, dtype) + alu(Op::FLOORDIV, a, constant(dtype, 4)) +
          alu(Op::FLOORMOD, a, constant(dtype, 4)) + alu(Op::SHL, a, constant(dtype, 2)) + alu(Op::MAX, a, b);
  return kernel(l, store(param_node(0, dtype, n), i, where(less(a, b), v, alu(Op::XOR, a, b))));
}

UOp truths(int64_t rows, int64_t columns) {
  Loops l;
  UOp i = l.loop(rows);
  std::vector<UOp> list;
  UOp r = reduce_loop(l, columns, list);
  UOp x = load(param_node(1, DType::BOOL, rows * columns), i * columns + r);
  UOp any = reduced(Op::MAX, x, list), all = reduced(Op::MUL, x, list);
  return kernel(l, store(param_node(0, DType::BOOL, rows), i, alu(Op::XOR, any, all)));
}

// A symbolic number of rows of a symbolic number of columns, summed.
UOp symbolic(int64_t most) {
  UOp n = variable("n", 1, most), m = variable("m", 1, most);
  Loops l;
  UOp i = l.loop(n);
  std::vector<UOp> list{range_node(m, l.next++, AxisType::Reduce)};
  UOp x = load(param_node(1, DType::F32, most * most), i * m + list[0]);
  return kernel(l, store(param_node(0, DType::F32, most), i, reduced(Op::ADD, x, list)));
}
UOp symbolic_add(int64_t most) {
  UOp n = variable("n", 1, most);
  Loops l;
  UOp i = l.loop(n);
  UOp x = load(param_node(1, DType::F32, most), i);
  return kernel(l, store(param_node(0, DType::F32, most), i, x + x));
}

UOp max_pool(int64_t channels, int64_t size) {
  int64_t o = size / 2;
  Loops l;
  UOp c = l.loop(channels), oh = l.loop(o), ow = l.loop(o);
  std::vector<UOp> list;
  UOp kh = reduce_loop(l, 3, list), kw = reduce_loop(l, 3, list);
  UOp ih = oh * 2 + kh - 1, iw = ow * 2 + kw - 1, gate = logical_and(in_range(ih, size), in_range(iw, size));
  UOp x = load(param_node(1, DType::F32, channels * size * size), (c * size + ih) * size + iw, gate);
  x = where(gate, x, reduce_identity(Op::MAX, DType::F32));
  return kernel(l, store(param_node(0, DType::F32, channels * o * o), (c * o + oh) * o + ow,
                         reduced(Op::MAX, x, list)));
}

UOp two_outputs(int64_t n, int64_t m) {
  Loops l, k;
  UOp i = l.loop(n);
  k.next = l.next;
  UOp j = k.loop(m);
  UOp first = end(
      store(param_node(0, DType::F32, n), i, load(param_node(2, DType::F32, n), i) * constant(DType::F32, 2)),
      l.open);
  UOp second = end(store(param_node(1, DType::F32, m), j, load(param_node(3, DType::F32, m), j)), k.open);
  UOp effects[] = {first, second};
  return kernel_sink(effects);
}

UOp scalar_sum() {
  Loops l;
  UOp p = param_node(1, DType::F32, 3);
  UOp v = load(p, index_const(0)) + load(p, index_const(2));
  return kernel(l, store(param_node(0, DType::F32, 1), index_const(0), v));
}

} // namespace

std::vector<Sample> all_samples() {
  std::vector<Sample> s;
  auto put = [&](std::string name, UOp ast, double tolerance = 0, std::vector<int64_t> variables = {}) {
    s.push_back({std::move(name), std::move(ast), tolerance, std::move(variables)});
  };
  put("scalar", scalar_sum());
  for (int64_t n : {1, 2, 3, 7, 8, 13, 16, 17, 31, 64, 97}) put("add_" + std::to_string(n), add(n));
  for (DType t : {DType::U8, DType::I16, DType::I64, DType::F16, DType::BF16, DType::F64, DType::F8E4M3})
    put(std::string("add_") + name(t), add(19, t));
  put("matmul_5_7_9", matmul(5, 7, 9));
  put("matmul_16_24_12", matmul(16, 24, 12));
  put("matmul_1_33_17", matmul(1, 33, 17));
  put("matmul_t_6_10_32", matmul(6, 10, 32, true));
  put("matmul_f16", matmul(4, 8, 6, false, DType::F16));
  put("matmul_i32", matmul(6, 9, 11, false, DType::I32));
  put("convolution_3x3", convolution(1, 3, 4, 9, 3, 1, 1));
  put("convolution_3x3_s2", convolution(2, 2, 5, 11, 3, 2, 1));
  put("convolution_1x1", convolution(1, 8, 6, 7, 1, 1, 0));
  put("convolution_7x7_s2", convolution(1, 1, 3, 14, 7, 2, 3));
  for (int64_t n : {1, 5, 8, 17, 40}) {
    put("row_sum_" + std::to_string(n), row_reduce(Op::ADD, 6, n));
    put("column_max_" + std::to_string(n), column_reduce(Op::MAX, 7, n));
  }
  put("product", row_reduce(Op::MUL, 3, 4, DType::I64));
  put("max_u8", row_reduce(Op::MAX, 5, 13, DType::U8));
  put("sum_f64", column_reduce(Op::ADD, 9, 5, DType::F64));
  put("gather_i32", gather_rows(10, 12, 9, DType::I32));
  put("gather_i64", gather_rows(3, 8, 5, DType::I64));
  put("argmax", argmax(5, 21));
  put("softmax", softmax(4, 19), 1e-6);
  put("nested", nested(4, 6, 10));
  put("two_sums", two_sums(5, 16));
  put("padded_transpose", padded_transpose(6, 9));
  put("broadcasts", broadcasts(7, 16));
  put("strided", strided(24));
  put("in_place", in_place(21));
  for (DType t : {DType::I8, DType::I32, DType::U32, DType::I64, DType::U16})
    put(std::string("integers_") + name(t), integers(23, t));
  put("truths", truths(6, 9));
  put("symbolic", symbolic(24), 0, {7, 19});
  put("symbolic_add", symbolic_add(50), 0, {37});
  put("max_pool", max_pool(3, 10));
  put("two_outputs", two_outputs(12, 20));
  return s;
}

} // namespace tolk_test

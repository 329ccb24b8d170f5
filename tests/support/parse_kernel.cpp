// A kernel is a list of lines, a line a list of tokens; nothing nests.
#include "parse_kernel.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "tolk/base/error.h"
#include "tolk/kernel/ir_info.h"

namespace tolk::test {
namespace {

std::optional<uint16_t> parse_opcode(std::string_view name) {
  for (uint16_t code = 0; code < TOLK_IR_OPCODE_LIMIT; code++)
    if (const char* known = ir::op_info(code).name; known && name == known) return code;
  return std::nullopt;
}

std::optional<uint8_t> parse_type(std::string_view name) {
  for (uint8_t code = 0; code < TOLK_DTYPE_COUNT; code++)
    if (name == ir::type_info(code).name) return code;
  return std::nullopt;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// One line, read from left to right. Columns count bytes from 1.
class LineReader {
public:
  LineReader(std::string_view line, int number) : line_(line.substr(0, line.find('#'))), number_(number) {
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
  }

  [[noreturn]] void fail(std::string_view expected) const {
    std::string_view rest = line_.substr(at_, 24);
    throw FormatError(fmt::format("kernel text, line {}, column {}: expected {}, found {}", number_, at_ + 1,
                                  expected,
                                  rest.empty() ? "the end of the line" : fmt::format("'{}'", rest)));
  }

  bool at_end() {
    skip_blanks();
    return at_ == line_.size();
  }
  void expect_end() {
    if (!at_end()) fail("the end of the line");
  }

  bool take(char c) {
    skip_blanks();
    if (at_ >= line_.size() || line_[at_] != c) return false;
    at_++;
    return true;
  }
  void expect(char c, std::string_view what) {
    if (!take(c)) fail(what);
  }
  // The character right here, without skipping blanks.
  bool next_is(char c) const { return at_ < line_.size() && line_[at_] == c; }

  std::string_view word(std::string_view what) {
    skip_blanks();
    size_t end = at_;
    while (end < line_.size() && is_name_char(line_[end])) end++;
    if (end == at_) fail(what);
    std::string_view result = line_.substr(at_, end - at_);
    at_ = end;
    return result;
  }

  // Puts the error column back on the word just read.
  [[noreturn]] void fail_at(std::string_view token, std::string_view expected) {
    at_ = static_cast<size_t>(token.data() - line_.data());
    fail(expected);
  }

  uint64_t unsigned_number(uint64_t limit, std::string_view what) {
    skip_blanks();
    bool hex = line_.substr(at_, 2) == "0x";
    size_t digits = at_ + (hex ? 2 : 0);
    uint64_t value = 0;
    auto [end, error] =
        std::from_chars(line_.data() + digits, line_.data() + line_.size(), value, hex ? 16 : 10);
    if (error != std::errc{} || value > limit) fail(fmt::format("{} (0 to {})", what, limit));
    at_ = static_cast<size_t>(end - line_.data());
    return value;
  }

  int64_t signed_number(int64_t low, int64_t high, std::string_view what) {
    skip_blanks();
    int64_t value = 0;
    auto [end, error] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
    if (error != std::errc{} || value < low || value > high)
      fail(fmt::format("{} ({} to {})", what, low, high));
    at_ = static_cast<size_t>(end - line_.data());
    return value;
  }

private:
  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) at_++;
  }

  std::string_view line_;
  int number_;
  size_t at_ = 0;
};

uint8_t read_type(LineReader& in) {
  std::string_view word = in.word("a dtype");
  std::optional<uint8_t> type = parse_type(word);
  if (!type) in.fail_at(word, "a dtype such as f32");
  return *type;
}

// `f32` or `f32x8`; no dtype name has an x in it.
void read_vector_type(LineReader& in, uint8_t& dtype, uint16_t& lanes) {
  std::string_view word = in.word("a dtype");
  size_t x = word.find('x');
  std::optional<uint8_t> type = parse_type(word.substr(0, x));
  if (!type) in.fail_at(word, "a dtype such as f32 or f32x8");
  dtype = *type;
  lanes = 1;
  if (x == std::string_view::npos) return;
  std::string_view digits = word.substr(x + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), lanes);
  if (error != std::errc{} || end != digits.data() + digits.size())
    in.fail_at(word, "a dtype such as f32x8 with 0 to 65535 lanes");
}

uint64_t read_constant(LineReader& in, uint8_t dtype) {
  const ir::TypeInfo& type = ir::type_info(dtype);
  uint64_t mask = type.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
  if (type.kind != 'i') return in.unsigned_number(type.kind == 'b' ? 255 : mask, "the constant");
  auto high = static_cast<int64_t>(mask >> 1);
  return static_cast<uint64_t>(in.signed_number(-high - 1, high, "the constant")) & mask;
}

tolk_param read_param(LineReader& in) {
  tolk_param param{};
  std::string_view kind = in.word("'buffer' or 'value'");
  if (kind == "buffer") {
    param.kind = TOLK_PARAM_BUFFER;
    param.dtype = read_type(in);
    std::string_view access = in.word("r, w or rw");
    if (access == "r")
      param.access = TOLK_ACCESS_READ;
    else if (access == "w")
      param.access = TOLK_ACCESS_WRITE;
    else if (access == "rw")
      param.access = TOLK_ACCESS_READ | TOLK_ACCESS_WRITE;
    else
      in.fail_at(access, "r, w or rw");
    param.count = in.unsigned_number(UINT64_MAX, "an element count");
  } else if (kind == "value") {
    param.kind = TOLK_PARAM_VALUE;
    param.dtype = read_type(in);
    param.min = in.signed_number(INT64_MIN, INT64_MAX, "a smallest value");
    param.max = in.signed_number(INT64_MIN, INT64_MAX, "a largest value");
  } else {
    in.fail_at(kind, "'buffer' or 'value'");
  }
  return param;
}

void read_op(LineReader& in, KernelIR& kernel) {
  uint64_t number = kernel.ops.size();
  in.expect('%', "an operation");
  if (in.unsigned_number(UINT32_MAX, "an operation number") != number)
    in.fail(fmt::format("operation %{} before here: they are numbered in order", number));
  in.expect('=', "'='");

  std::string_view word = in.word("an opcode");
  std::optional<uint16_t> opcode = parse_opcode(word);
  if (!opcode) in.fail_at(word, "an opcode such as MULACC");
  tolk_ir_op op{};
  op.opcode = *opcode;
  if (in.next_is('.')) {
    in.take('.');
    std::string_view flag = in.word("the flag nw");
    if (flag != "nw") in.fail_at(flag, "the flag nw");
    op.flags = TOLK_IR_NO_WRAP;
  }
  op.dtype = TOLK_DTYPE_NONE;
  op.lanes = 1;
  if (!ir::has_no_dtype(op.opcode)) read_vector_type(in, op.dtype, op.lanes);

  op.first_source = static_cast<uint32_t>(kernel.sources.size());
  op.first_attr = static_cast<uint32_t>(kernel.attrs.size());
  while (in.take('%')) {
    if (op.source_count == UINT16_MAX) in.fail("at most 65535 sources");
    if (number == 0) in.fail("no source: nothing comes before operation %0");
    kernel.sources.push_back(
        static_cast<uint32_t>(in.unsigned_number(number - 1, "the number of an earlier operation")));
    op.source_count++;
  }
  if (op.opcode == TOLK_IR_CONST) {
    kernel.attrs.push_back(read_constant(in, op.dtype));
  } else if (int count = ir::op_info(op.opcode).attrs; count > 0) {
    in.expect('[', "'[' and the attributes");
    for (int i = 0; i < count; i++) {
      if (i > 0) in.expect(',', "','");
      kernel.attrs.push_back(in.unsigned_number(UINT64_MAX, "an attribute"));
    }
    in.expect(']', "']'");
  }
  kernel.ops.push_back(op);
}

} // namespace

KernelIR parse_kernel_ir(std::string_view text) {
  KernelIR kernel;
  bool named = false;
  int number = 0;
  if (text.size() > UINT32_MAX)
    throw FormatError("kernel text: expected less than 4 GiB, which no kernel needs; is this another file?");
  while (!text.empty()) {
    size_t newline = text.find('\n');
    LineReader in(text.substr(0, newline), ++number);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    if (in.at_end()) continue;
    if (in.next_is('%')) {
      if (!named) in.fail("'kernel' and a name on the first line");
      read_op(in, kernel);
    } else {
      std::string_view keyword = in.word("'kernel', 'param' or an operation");
      if (keyword == "kernel" && !named) {
        kernel.name = in.word("a function name of [A-Za-z0-9_]");
        named = true;
      } else if (keyword == "param" && named && kernel.ops.empty()) {
        kernel.params.push_back(read_param(in));
      } else {
        in.fail_at(keyword, !named               ? "'kernel' and a name on the first line"
                            : kernel.ops.empty() ? "'param' or an operation"
                                                 : "an operation");
      }
    }
    in.expect_end();
  }
  if (!named) throw FormatError("kernel text, line 1, column 1: expected 'kernel' and a name, found no line");
  return kernel;
}

} // namespace tolk::test

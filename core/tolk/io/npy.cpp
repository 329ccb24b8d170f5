#include "tolk/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"

namespace tolk::io {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
struct Header {
  std::string_view descr;
  bool fortran = false;
  Shape shape;
};

class HeaderParser {
public:
  HeaderParser(std::string_view text, const Place& place) : text_(text), place_(place) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    need('{');
    while (!take('}')) {
      std::string_view key = quoted();
      need(':');
      if (key == "descr") {
        header.descr = description();
        descr = true;
      } else if (key == "fortran_order") {
        header.fortran = boolean();
        order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        shape = true;
      } else {
        fail(fmt::format("unknown key '{}'", key));
      }
      if (!take(',')) {
        need('}');
        break;
      }
    }
    blanks();
    if (at_ != text_.size()) fail("text after the closing brace");
    if (!descr || !order || !shape) fail("descr, fortran_order and shape must all be there");
    return header;
  }

private:
  [[noreturn]] void fail(std::string_view what) const {
    fail_at(place_, fmt::format("the .npy header is damaged at byte {}: {}", at_, what));
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(fmt::format("'{}' expected", c));
  }
  bool word(std::string_view w) {
    blanks();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::string_view quoted() {
    blanks();
    char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("a quoted string expected");
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string has no end");
    std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return result;
  }
  std::string_view description() {
    blanks();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '('))
      fail_at(place_,
              "arrays of records (structured dtypes) are not supported; save each field as its own array");
    return quoted();
  }
  bool boolean() {
    if (word("True")) return true;
    if (word("False")) return false;
    fail("True or False expected");
  }
  Shape tuple() {
    Shape shape;
    need('(');
    while (!take(')')) {
      blanks();
      int64_t dim = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc{} || dim < 0) fail("a dimension is not a number of elements");
      at_ = static_cast<size_t>(end - text_.data());
      word("L"); // Python 2 wrote long integers so
      shape.push_back(dim);
      if (shape.size() > kMaxRank) fail(fmt::format("more than {} dimensions", kMaxRank));
      if (!take(',')) {
        need(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const Place& place_;
  size_t at_ = 0;
};

struct NumpyType {
  const char* code; // kind and bytes, as after the byte order
  DType dtype;
};

constexpr NumpyType kNumpyTypes[] = {
    {"b1", DType::BOOL}, {"i1", DType::I8},  {"u1", DType::U8},  {"i2", DType::I16},
    {"u2", DType::U16},  {"i4", DType::I32}, {"u4", DType::U32}, {"i8", DType::I64},
    {"u8", DType::U64},  {"f2", DType::F16}, {"f4", DType::F32}, {"f8", DType::F64},
};

const char* numpy_code(DType dtype) {
  for (const NumpyType& t : kNumpyTypes)
    if (t.dtype == dtype) return t.code;
  return nullptr;
}

std::string refusal(std::string_view descr) {
  switch (descr.size() > 1 ? descr[1] : '\0') {
  case 'V':
    return fmt::format(
        "the element type '{}' is raw bytes, as numpy writes bfloat16 and float8 arrays; the type is not "
        "in the file: save the array as float32, or as a .pb tensor",
        descr);
  case 'O':
    return "arrays of Python objects are not supported; save an array of numbers";
  case 'c':
    return fmt::format("complex elements ('{}') are not supported; save real and imaginary parts", descr);
  case 'U':
  case 'S':
    return fmt::format("text ('{}') is not read from .npy files; use a .pb tensor of strings", descr);
  case 'M':
  case 'm':
    return fmt::format("dates and times ('{}') are not supported; save integers", descr);
  default:
    return fmt::format(
        "unknown element type '{}'; bool, int8 to int64, uint8 to uint64, float16, float32 and float64 "
        "are read",
        descr);
  }
}

DType element_type(std::string_view descr, const Place& place, const NpyOptions& options) {
  std::string_view code = descr.empty() ? descr : descr.substr(1);
  bool order = !descr.empty() && (descr[0] == '<' || descr[0] == '>' || descr[0] == '|' || descr[0] == '=');
  if (order) {
    for (const NumpyType& t : kNumpyTypes)
      if (code == t.code) return t.dtype;
    if (options.raw_as && code == fmt::format("V{}", bits(*options.raw_as) / 8) && bits(*options.raw_as) >= 8)
      return *options.raw_as;
  }
  fail_at(place, refusal(descr));
}

void swap_bytes(std::byte* data, uint64_t count, size_t width) {
  for (uint64_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

// Copies elements in Fortran order to C order.
void transpose(std::byte* to, const std::byte* from, const Shape& shape, uint64_t count, size_t width) {
  std::vector<uint64_t> stride(shape.size());
  uint64_t step = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    stride[i] = step;
    step *= static_cast<uint64_t>(shape[i]);
  }
  std::vector<int64_t> index(shape.size());
  uint64_t source = 0;
  for (uint64_t flat = 0; flat < count; ++flat) {
    std::memcpy(to + flat * width, from + source * width, width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * static_cast<uint64_t>(shape[axis]);
      index[axis] = 0;
    }
  }
}

uint32_t little(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

} // namespace

HostTensor parse_npy(std::span<const std::byte> file, const Place& place, std::shared_ptr<const void> owner,
                     const NpyOptions& options) {
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic) || file.size() < 10) fail_at(place, "this is not a .npy file");
  int major = std::to_integer<int>(file[6]);
  if (major < 1 || major > 3)
    fail_at(place, fmt::format(".npy version {} is not known, versions 1 to 3 are", major));
  size_t length_bytes = major == 1 ? 2 : 4;
  if (file.size() < 8 + length_bytes) fail_at(place, "the file ends inside its header");
  size_t start = 8 + length_bytes;
  size_t length = little(file.subspan(8, length_bytes));
  if (length > file.size() - start)
    fail_at(place, fmt::format("the file ends inside its header, which should have {} bytes", length));

  Header header = HeaderParser(text.substr(start, length), place).parse();
  DType dtype = element_type(header.descr, place, options);
  std::optional<uint64_t> count = element_count(header.shape);
  if (!count) fail_at(place, fmt::format("no array can have the shape {}", shape_text(header.shape)));
  auto width = static_cast<size_t>(bits(dtype) / 8);
  std::span<const std::byte> data = file.subspan(start + length);
  if (data.size() < *count * width)
    fail_at(place, fmt::format("{}{} needs {} bytes of elements, the file has {}", name(dtype),
                               shape_text(header.shape), *count * width, data.size()));
  if (data.size() > *count * width)
    fail_at(place, fmt::format("{} bytes follow the elements of {}{}: the file is damaged, or holds several "
                               "arrays; store each in a file of its own",
                               data.size() - *count * width, name(dtype), shape_text(header.shape)));

  bool swap = header.descr[0] == '>' && width > 1;
  bool fortran = header.fortran && header.shape.size() > 1;
  bool repair =
      dtype == DType::BOOL && std::ranges::any_of(data, [](std::byte b) { return b > std::byte{1}; });
  if (owner && !swap && !fortran && !repair && reinterpret_cast<uintptr_t>(data.data()) % width == 0) {
    HostTensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(header.shape);
    tensor.bytes = data;
    tensor.owner = std::move(owner);
    return tensor;
  }
  std::byte* to = nullptr;
  HostTensor tensor = allocate_tensor(dtype, std::move(header.shape), &to);
  if (fortran)
    transpose(to, data.data(), tensor.shape, *count, width);
  else if (!data.empty())
    std::memcpy(to, data.data(), data.size());
  if (swap) swap_bytes(to, *count, width);
  if (repair)
    for (uint64_t i = 0; i < *count; ++i) to[i] = std::byte{to[i] != std::byte{0}};
  return tensor;
}

HostTensor read_npy(const std::string& path, const NpyOptions& options) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return parse_npy(file->bytes(), Place{nullptr, path}, file, options);
}

std::string encode_npy(const HostTensor& original) {
  if (original.is_string()) throw InvalidArgument("a tensor of strings cannot be written as .npy; use .pb");
  HostTensor tensor = original;
  if (!numpy_code(tensor.dtype)) {
    DType plain = is_float(tensor.dtype) ? DType::F32 : is_signed(tensor.dtype) ? DType::I8 : DType::U8;
    std::optional<HostTensor> converted = convert_exact(tensor, plain);
    if (!converted)
      throw InternalError(fmt::format("{} has a value that {} has not", type_text(tensor), name(plain)));
    tensor = std::move(*converted);
  }
  std::string dims;
  for (int64_t dim : tensor.shape) dims += fmt::format("{}, ", dim);
  if (tensor.shape.size() > 1) dims.resize(dims.size() - 2);
  if (tensor.shape.size() == 1) dims.resize(dims.size() - 1);
  std::string dict = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 bits(tensor.dtype) > 8 ? '<' : '|', numpy_code(tensor.dtype), dims);
  size_t prefix = 10;
  bool wide = dict.size() + 1 + prefix + 63 > 0xffff;
  if (wide) prefix = 12;
  size_t padded = (prefix + dict.size() + 1 + 63) / 64 * 64 - prefix;
  dict.append(padded - dict.size() - 1, ' ');
  dict += '\n';

  std::string file(kMagic);
  file += wide ? '\x02' : '\x01';
  file += '\0';
  auto length = static_cast<uint32_t>(dict.size());
  file.append(reinterpret_cast<const char*>(&length), wide ? 4 : 2);
  file += dict;
  file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return file;
}

void write_npy(const std::string& path, const HostTensor& tensor) {
  write_file(path, std::as_bytes(std::span<const char>(encode_npy(tensor))));
}

} // namespace tolk::io

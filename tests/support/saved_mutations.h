// Saved captures with one thing changed behind right checksums: a number, a word of the graph, an operation
// of a kernel, a piece left out or doubled. What a faulty writer could make, rather than what a disk does.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tolk/base/packed.h"
#include "tolk/engine/capture/saved_capture.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

class SavedMutations {
public:
  SavedMutations(const std::string& file, uint32_t seed)
      : sections_(unpack(engine::kCaptureMagic, engine::kCaptureVersion, file, "saved capture")),
        random_(seed) {}

  struct Mutation {
    std::string file, what; // what: for messages, it starts with the section's name
    bool of_code = false;   // kernels or their launches may run very long now
  };
  Mutation next() {
    std::vector<Section> sections = sections_;
    Section& s = sections[below(sections.size())];
    Mutation out;
    out.what = s.name;
    if (s.name == "graph")
      out.what += change_text(s.bytes);
    else if (s.name == "programs" && below(3) == 0)
      out.what += change_kernel(s.bytes);
    else
      out.what += change_numbers(s.bytes);
    out.of_code = s.name == "programs";
    out.file = pack(engine::kCaptureMagic, engine::kCaptureVersion, sections);
    return out;
  }

private:
  uint64_t below(uint64_t n) { return n == 0 ? 0 : random_() % n; }

  int64_t number() {
    static const int64_t telling[] = {0,
                                      1,
                                      2,
                                      3,
                                      7,
                                      64,
                                      -1,
                                      -2,
                                      255,
                                      256,
                                      65535,
                                      1 << 20,
                                      INT32_MAX,
                                      INT32_MIN,
                                      UINT32_MAX,
                                      INT64_MAX,
                                      INT64_MIN,
                                      int64_t(1) << 40,
                                      (int64_t(1) << 62) + 1,
                                      int64_t(1) << 61};
    return telling[below(std::size(telling))];
  }

  // Where a number may stand: eight bytes whose upper half is one sign.
  std::string change_numbers(std::string& bytes) {
    std::vector<size_t> places;
    for (size_t i = 0; i + 8 <= bytes.size(); ++i)
      if (bytes[i + 7] == bytes[i + 4] && bytes[i + 5] == bytes[i + 4] && bytes[i + 6] == bytes[i + 4] &&
          (bytes[i + 4] == 0 || bytes[i + 4] == -1) &&
          (i == 0 || bytes[i - 1] == 0 || std::isalnum(bytes[i - 1])))
        places.push_back(i);
    if (places.empty() || below(8) == 0) { // a piece goes, or comes twice
      size_t at = below(bytes.size() + 1), length = below(24);
      std::string piece = bytes.substr(at, length);
      if (below(2))
        bytes.erase(at, length);
      else
        bytes.insert(at, piece);
      return ": piece at " + std::to_string(at);
    }
    size_t at = places[below(places.size())];
    int64_t old = 0, now = number();
    std::memcpy(&old, bytes.data() + at, 8);
    if (below(2)) now = old + (below(2) ? 1 : -1);
    std::memcpy(bytes.data() + at, &now, 8);
    return ": " + std::to_string(old) + " at " + std::to_string(at) + " becomes " + std::to_string(now);
  }

  std::string change_text(std::string& text) {
    struct Word {
      size_t at, size;
    };
    std::vector<Word> words;
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && (std::isalnum(uint8_t(text[end])) || text[end] == '_' || text[end] == '-'))
        ++end;
      if (end > i) words.push_back({i, end - i});
      i = end + (end == i);
    }
    if (below(8) == 0) { // a line goes, or comes twice
      size_t at = text.rfind('\n', below(text.size()));
      at = at == text.npos ? 0 : at + 1;
      std::string line = text.substr(at, text.find('\n', at) - at + 1);
      if (below(2))
        text.erase(at, line.size());
      else
        text.insert(at, line);
      return ": line " + line;
    }
    Word word = words[below(words.size())];
    std::string old = text.substr(word.at, word.size), now;
    bool is_number = std::isdigit(uint8_t(old.back())) && (std::isdigit(uint8_t(old[0])) || old[0] == '-');
    if (is_number && below(2)) {
      now = std::to_string(number());
    } else { // another word of the graph in its place
      Word other = words[below(words.size())];
      now = text.substr(other.at, other.size);
    }
    text.replace(word.at, word.size, now);
    return ": " + old + " at " + std::to_string(word.at) + " becomes " + now;
  }

  // A field of the flat form of one of the kernels.
  std::string change_kernel(std::string& bytes) {
    std::vector<std::pair<size_t, KernelIR>> kernels;
    for (size_t i = 0; i + 8 < bytes.size(); ++i) {
      uint64_t size = 0;
      std::memcpy(&size, bytes.data() + i, 8);
      if (size < 32 || size > bytes.size() - i - 8) continue;
      try {
        kernels.emplace_back(i + 8, deserialize_kernel_ir(std::string_view(bytes).substr(i + 8, size)));
      } catch (const std::exception&) {
      }
    }
    if (kernels.empty()) return change_numbers(bytes);
    auto& [at, ir] = kernels[below(kernels.size())];
    size_t length = serialize(ir).size();
    switch (below(4)) {
    case 0:
      if (!ir.attrs.empty()) ir.attrs[below(ir.attrs.size())] = uint64_t(number());
      break;
    case 1:
      if (!ir.sources.empty()) ir.sources[below(ir.sources.size())] = uint32_t(number());
      break;
    case 2: {
      tolk_ir_op& op = ir.ops[below(ir.ops.size())];
      (below(2) ? op.lanes : op.opcode) = uint16_t(number());
      break;
    }
    default:
      if (ir.params.empty()) break;
      tolk_param& p = ir.params[below(ir.params.size())];
      (below(2) ? p.access : p.dtype) = uint32_t(number());
      if (below(2)) p.count = uint64_t(number());
    }
    try {
      std::string now = serialize(ir);
      if (now.size() == length) bytes.replace(at, length, now);
    } catch (const std::exception&) {
    }
    return ": kernel " + ir.name;
  }

  std::vector<Section> sections_;
  std::mt19937 random_;
};

} // namespace tolk::test

#include "tolk/base/hash.h"

#include <bit>

#define XXH_STATIC_LINKING_ONLY // for the size of the state
#include <xxhash.h>

namespace tolk {

struct Hasher::State {
  XXH3_state_t xxh;
};

std::string ContentKey::hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (size_t i = 0; i < 16; ++i) {
    out[15 - i] = digits[high >> (4 * i) & 15];
    out[31 - i] = digits[low >> (4 * i) & 15];
  }
  return out;
}

ContentKey content_key(std::string_view bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

uint64_t hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::bytes(const void* data, size_t size) {
  if (size != 0) XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}

Hasher& Hasher::word(uint64_t value) {
  unsigned char little_endian[8];
  for (int i = 0; i < 8; ++i) little_endian[i] = static_cast<unsigned char>(value >> (8 * i));
  return bytes(little_endian, sizeof little_endian);
}

Hasher& Hasher::text(std::string_view text) { return word(text.size()).bytes(text.data(), text.size()); }
Hasher& Hasher::real(double value) { return word(std::bit_cast<uint64_t>(value)); }
Hasher& Hasher::key(const ContentKey& key) { return word(key.high).word(key.low); }

ContentKey Hasher::finish() const {
  XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

} // namespace tolk

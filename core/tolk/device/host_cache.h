// The small disk cache behind tolk_host.cache_get: one file per entry, owner-only, with a checksum; a damaged
// entry is a miss. Nothing here throws for trouble with files.
#pragma once

#include <string>
#include <string_view>

namespace tolk {

// Makes the folder of a plugin and its compiler below the cache folder. Empty when caching is off (CCACHE=0),
// or the folder cannot be made, belongs to someone else or is open to others.
std::string open_cache_folder(std::string_view plugin, std::string_view compiler_id);
bool read_cache_entry(const std::string& folder, std::string_view key, std::string& value);
// Written beside and renamed, so that a reader in another process sees the old entry or the new one.
bool write_cache_entry(const std::string& folder, std::string_view key, std::string_view value);

} // namespace tolk

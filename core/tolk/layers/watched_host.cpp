#include "tolk/layers/watched_host.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tolk/loader/plugin_host.h"

namespace tolk {
namespace {

struct Watched {
  tolk_host original{};
  std::set<const tolk_blob*> live;
};
std::mutex mutex;
// By context, which a plugin may use for as long as the process lives.
std::map<const void*, Watched>& all() {
  static auto* map = new std::map<const void*, Watched>;
  return *map;
}

tolk_host original(void* ctx) {
  std::lock_guard lock(mutex);
  return all()[ctx].original;
}

void add(void* ctx, const tolk_blob* blob) {
  std::lock_guard lock(mutex);
  if (blob) all()[ctx].live.insert(blob);
}

tolk_blob* blob_create(void* ctx, uint64_t size, void** data) {
  tolk_blob* blob = original(ctx).blob_create(ctx, size, data);
  add(ctx, blob);
  return blob;
}

tolk_status cache_get(void* ctx, tolk_bytes key, tolk_blob** value) {
  tolk_status status = original(ctx).cache_get(ctx, key, value);
  if (status == TOLK_OK) add(ctx, *value);
  return status;
}

tolk_bytes blob_bytes(void* ctx, const tolk_blob* blob) {
  {
    std::lock_guard lock(mutex);
    if (!all()[ctx].live.contains(blob)) return {};
  }
  return original(ctx).blob_bytes(ctx, blob);
}

void blob_destroy(void* ctx, tolk_blob* blob) {
  {
    std::lock_guard lock(mutex);
    if (all()[ctx].live.erase(blob) == 0) return; // not a blob: freeing it would be the crash
  }
  original(ctx).blob_destroy(ctx, blob);
}

} // namespace

void watch_blobs(HostContext& host) {
  std::lock_guard lock(mutex);
  all()[&host] = {host.table, {}};
  host.table.blob_create = blob_create;
  host.table.cache_get = cache_get;
  host.table.blob_bytes = blob_bytes;
  host.table.blob_destroy = blob_destroy;
}

bool claim_blob(HostContext& host, tolk_blob* blob) {
  std::lock_guard lock(mutex);
  return all()[&host].live.erase(blob) != 0;
}

} // namespace tolk

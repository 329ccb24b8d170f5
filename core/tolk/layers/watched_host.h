// The host's functions as the layer `validate` watches them: which blobs a plugin has.
#pragma once

#include <tolk/plugin/host.h>

namespace tolk {

struct HostContext;

// Replaces the blob functions of the table. To be called before the plugin's entry runs.
void watch_blobs(HostContext& host);
// Whether `blob` came from this plugin's blob_create or cache_get and was neither destroyed nor claimed; from
// now on it is the host's.
bool claim_blob(HostContext& host, tolk_blob* blob);

} // namespace tolk

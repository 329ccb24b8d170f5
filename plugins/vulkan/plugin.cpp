// The entry point, the instance, and which of its devices can be used.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "state.h"

TOLK_PLUGIN_STAMP("VULKAN", TOLK_ABI_MAJOR, TOLK_ABI_MINOR);

namespace tolk_vulkan {

const tolk_host* host = nullptr;

namespace {

struct Library {
  std::mutex mutex;
  VkInstance instance = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  bool looked = false;
  tolk_status status = TOLK_OK; // of the search for devices
  std::string reason;
  std::vector<Adapter> adapters;
};
Library library;

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL show_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                            VkDebugUtilsMessageTypeFlagsEXT,
                                            const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  const bool error = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  if (host->log_message)
    host->log_message(host->ctx, error ? TOLK_LOG_ERROR : TOLK_LOG_WARNING, data->pMessage);
  return VK_FALSE;
}

bool has_layer(const char* name) {
  uint32_t count = 0;
  vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vkEnumerateInstanceLayerProperties(&count, layers.data());
  return std::any_of(layers.begin(), layers.end(),
                     [&](const VkLayerProperties& l) { return std::strcmp(l.layerName, name) == 0; });
}

void make_instance() {
  if (volkInitialize() != VK_SUCCESS)
    throw Failure{TOLK_E_SYSTEM,
                  "the Vulkan loader, libvulkan.so.1, was not found; install libvulkan1 and a driver"};
  if (volkGetInstanceVersion() < VK_API_VERSION_1_2)
    throw Failure{TOLK_E_SYSTEM, "the Vulkan loader is older than Vulkan 1.2"};
  bool validate = option("validate");
  if (validate && !has_layer(kValidationLayer)) {
    if (host->log_message)
      host->log_message(
          host->ctx, TOLK_LOG_WARNING,
          "the option validate is set, but the layer VK_LAYER_KHRONOS_validation is not installed");
    validate = false;
  }
  const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                         .pNext = nullptr,
                                         .pApplicationName = "tolk",
                                         .applicationVersion = 1,
                                         .pEngineName = "tolk",
                                         .engineVersion = 1,
                                         .apiVersion = VK_API_VERSION_1_2};
  VkDebugUtilsMessengerCreateInfoEXT messages{};
  messages.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messages.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = show_message;
  const VkValidationFeatureEnableEXT synchronization =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT more{};
  more.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  more.pNext = &messages;
  more.enabledValidationFeatureCount = 1;
  more.pEnabledValidationFeatures = &synchronization;
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkInstanceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  create.pApplicationInfo = &application;
  if (validate) {
    create.pNext = &more;
    create.enabledLayerCount = create.enabledExtensionCount = 1;
    create.ppEnabledLayerNames = &kValidationLayer;
    create.ppEnabledExtensionNames = &extension;
  }
  VkResult result = vkCreateInstance(&create, nullptr, &library.instance);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
    throw Failure{TOLK_E_SYSTEM, "the Vulkan loader found no driver (no usable file in vulkan/icd.d)"};
  if (result != VK_SUCCESS)
    throw Failure{TOLK_E_SYSTEM, "vkCreateInstance failed with code " + std::to_string(result)};
  volkLoadInstanceOnly(library.instance);
  if (validate && vkCreateDebugUtilsMessengerEXT)
    vkCreateDebugUtilsMessengerEXT(library.instance, &messages, nullptr, &library.messenger);
}

std::string version_text(uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) +
         "." + std::to_string(VK_API_VERSION_PATCH(version));
}

// The features that every kernel may use; a device without one of them is not offered.
std::string missing_features(VkPhysicalDevice device, bool& has_f64) {
  VkPhysicalDeviceVulkan12Features f12{};
  f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  VkPhysicalDeviceVulkan11Features f11{};
  f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  f11.pNext = &f12;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &f11;
  vkGetPhysicalDeviceFeatures2(device, &features);
  has_f64 = features.features.shaderFloat64;
  const std::pair<VkBool32, const char*> needed[] = {
      {f12.bufferDeviceAddress, "bufferDeviceAddress"},
      {f12.timelineSemaphore, "timelineSemaphore"},
      {f12.shaderInt8, "shaderInt8"},
      {f12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
      {f11.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
      {features.features.shaderInt16, "shaderInt16"},
      {features.features.shaderInt64, "shaderInt64"},
  };
  std::string lacks;
  for (auto [has, name] : needed)
    if (!has) lacks += std::string(lacks.empty() ? "" : ", ") + name;
  return lacks;
}

bool find_queue(Adapter& adapter) {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(adapter.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(adapter.handle, &count, families.data());
  // A family without graphics computes beside the display.
  for (VkQueueFlags unwanted : {VkQueueFlags(VK_QUEUE_GRAPHICS_BIT), VkQueueFlags(0)})
    for (uint32_t i = 0; i < count; ++i)
      if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && !(families[i].queueFlags & unwanted)) {
        adapter.queue_family = i;
        adapter.timestamp_bits = families[i].timestampValidBits;
        return true;
      }
  return false;
}

// What the driver lets a shader ask for, and what it bounds; docs/vulkan.md has the names.
std::string shader_features(const Adapter& adapter) {
  const VkPhysicalDeviceVulkan12Properties& p = adapter.properties12;
  const std::pair<VkBool32, const char*> known[] = {
      {p.shaderDenormPreserveFloat32, "+denorm32"},
      {p.shaderDenormPreserveFloat64, "+denorm64"},
      {p.shaderSignedZeroInfNanPreserveFloat32, "+preserve32"},
      {p.shaderSignedZeroInfNanPreserveFloat64, "+preserve64"},
      {p.shaderRoundingModeRTEFloat32, "+rte32"},
      {p.shaderRoundingModeRTEFloat64, "+rte64"},
  };
  std::string text = adapter.has_f64 ? "+f64" : "";
  // Where both widths must be treated alike the modes of f64 would bind those of f32.
  for (auto [has, name] : known)
    if (has && (adapter.has_f64 || !std::strstr(name, "64")))
      text += (text.empty() ? "" : ",") + std::string(name);
  // Mesa, src/gallium/auxiliary/gallivm/lp_bld_limits.h: LP_MAX_TGSI_LOOP_ITERATIONS, of all loops of a shader
  // together.
  if (p.driverID == VK_DRIVER_ID_MESA_LLVMPIPE)
    text += (text.empty() ? "" : ",") + std::string("+loops=65000");
  return text;
}

uint32_t kind_of(VkPhysicalDeviceType type) {
  switch (type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return TOLK_KIND_DISCRETE_GPU;
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return TOLK_KIND_INTEGRATED_GPU;
  case VK_PHYSICAL_DEVICE_TYPE_CPU:
    return TOLK_KIND_CPU;
  default:
    return TOLK_KIND_OTHER;
  }
}

Adapter describe(VkPhysicalDevice handle) {
  Adapter a;
  a.handle = handle;
  vkGetPhysicalDeviceProperties(handle, &a.properties);
  a.name = a.properties.deviceName;
  if (a.properties.apiVersion < VK_API_VERSION_1_2) {
    a.lacks = "Vulkan 1.2 (it has " + version_text(a.properties.apiVersion) + ")";
    return a;
  }
  a.properties12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  a.properties11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  a.properties11.pNext = &a.properties12;
  VkPhysicalDeviceProperties2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  all.pNext = &a.properties11;
  vkGetPhysicalDeviceProperties2(handle, &all);
  a.properties11.pNext = nullptr;
  vkGetPhysicalDeviceMemoryProperties(handle, &a.memory);
  a.lacks = missing_features(handle, a.has_f64);
  if (!find_queue(a)) a.lacks += std::string(a.lacks.empty() ? "" : ", ") + "a queue that computes";
  a.features = shader_features(a);
  a.driver = std::string(a.properties12.driverName) + " " + a.properties12.driverInfo;
  return a;
}

// After the adapter has its final address.
void fill_info(Adapter& a) {
  a.info.struct_size = sizeof a.info;
  a.info.kind = kind_of(a.properties.deviceType);
  a.info.flags = TOLK_DEVICE_REOPENABLE;
  if (a.info.kind == TOLK_KIND_CPU || a.info.kind == TOLK_KIND_INTEGRATED_GPU)
    a.info.flags |= TOLK_DEVICE_UNIFIED_MEMORY;
  a.info.numa_node = -1;
  for (uint32_t i = 0; i < a.memory.memoryHeapCount; ++i)
    if (a.memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      a.info.memory_bytes += a.memory.memoryHeaps[i].size;
  std::memcpy(a.info.uuid, a.properties11.deviceUUID, sizeof a.info.uuid);
  a.info.name = a.name.c_str();
  a.info.description = "Vulkan device";
  a.info.arch = "";
  a.info.driver_version = a.driver.c_str();
}

void find_adapters() {
  make_instance();
  uint32_t count = 0;
  vkEnumeratePhysicalDevices(library.instance, &count, nullptr);
  std::vector<VkPhysicalDevice> handles(count);
  vkEnumeratePhysicalDevices(library.instance, &count, handles.data());
  handles.resize(count);
  std::string unusable;
  for (VkPhysicalDevice handle : handles) {
    Adapter adapter = describe(handle);
    if (adapter.lacks.empty())
      library.adapters.push_back(std::move(adapter));
    else
      unusable += (unusable.empty() ? "" : "; ") + adapter.name + " lacks " + adapter.lacks;
  }
  constexpr VkPhysicalDeviceType kOrder[] = {
      // software last
      VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
      VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU, VK_PHYSICAL_DEVICE_TYPE_OTHER, VK_PHYSICAL_DEVICE_TYPE_CPU};
  std::vector<Adapter> found = std::exchange(library.adapters, {});
  for (VkPhysicalDeviceType type : kOrder)
    for (Adapter& adapter : found)
      if (adapter.properties.deviceType == type) library.adapters.push_back(std::move(adapter));
  for (Adapter& adapter : library.adapters) fill_info(adapter);
  if (!library.adapters.empty()) return;
  throw Failure{TOLK_E_SYSTEM, unusable.empty() ? "the Vulkan drivers found no device" : unusable};
}

// Opens the loader when devices are first asked for.
void look() {
  std::lock_guard lock(library.mutex);
  if (library.looked) return;
  library.looked = true;
  try {
    find_adapters();
  } catch (const Failure& failure) {
    library.status = failure.status;
    library.reason = failure.text;
  }
}

tolk_status device_count(void*, uint32_t* out) {
  return guarded([&]() -> tolk_status {
    look();
    *out = static_cast<uint32_t>(library.adapters.size());
    return library.status ? fail(library.status, library.reason) : TOLK_OK;
  });
}

tolk_status device_info(void*, uint32_t index, const tolk_device_info** out) {
  return guarded([&]() -> tolk_status {
    if (index >= library.adapters.size())
      return fail(TOLK_E_NOT_FOUND, "there is no Vulkan device " + std::to_string(index));
    *out = &library.adapters[index].info;
    return TOLK_OK;
  });
}

void shutdown(void*) {
  std::lock_guard lock(library.mutex);
  if (library.messenger) vkDestroyDebugUtilsMessengerEXT(library.instance, library.messenger, nullptr);
  if (library.instance) vkDestroyInstance(library.instance, nullptr);
  library.instance = VK_NULL_HANDLE;
  library.messenger = VK_NULL_HANDLE;
  library.adapters.clear();
}

} // namespace

const std::vector<Adapter>& adapters() {
  look();
  if (library.status) throw Failure{library.status, library.reason};
  return library.adapters;
}

tolk_status fail(tolk_status code, const std::string& text) {
  return host->set_error(host->ctx, code, text.c_str());
}

bool option(const char* name) {
  const char* text = host->config_get ? host->config_get(host->ctx, name) : nullptr;
  return text && *text && std::strcmp(text, "0") != 0;
}

} // namespace tolk_vulkan

tolk_status tolk_plugin_entry_v1(const tolk_host* table, const tolk_plugin** out) {
  using namespace tolk_vulkan;
  host = table;
  static tolk_plugin plugin;
  plugin.struct_size = sizeof plugin;
  plugin.abi_major = TOLK_ABI_MAJOR;
  plugin.abi_minor = TOLK_ABI_MINOR;
  plugin.name = "VULKAN";
  plugin.display_name = "Vulkan";
  plugin.vendor = "tolk";
  plugin.version = "0.1";
  plugin.compiler_id = "spirv";
  plugin.device = &device_table;
  plugin.buffer = &buffer_table;
  plugin.stream = &stream_table;
  plugin.program = &program_table;
  plugin.graph = &graph_table;
  plugin.device_count = device_count;
  plugin.device_info = device_info;
  plugin.device_open = open_device;
  plugin.shutdown = shutdown;
  *out = &plugin;
  return TOLK_OK;
}

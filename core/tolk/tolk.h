// Everything a program needs to use Tolk. Link tolk::tolk (see docs/install.md).
//
//   using namespace tolk;
//   Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
//   Tensor y = (x * 2.0 + 1.0).relu().sum({1});    // lazy: nothing has run yet
//   std::vector<float> values = y.values<float>(); // runs one kernel: 15, 33
//
// The headers below are the public interface. They and the headers they include are installed; every other
// header of core is internal. `cmake/InstallHeaders.cmake` and the test lint.public read this list.
#pragma once

#include "tolk/base/config.h"            // settings, overridden for a scope
#include "tolk/base/error.h"             // exceptions
#include "tolk/base/version.h"           // TOLK_VERSION_STRING
#include "tolk/device/buffer.h"          // storage
#include "tolk/device/context.h"         // contexts of device code
#include "tolk/device/device.h"          // a device: memory, streams, limits
#include "tolk/device/pools.h"           // memory pools
#include "tolk/device/registry.h"        // devices and plugins
#include "tolk/device/stream.h"          // streams and events
#include "tolk/engine/capture/capture.h" // what a captured function consists of
#include "tolk/engine/run/profile.h"     // when each kernel ran
#include "tolk/io/compare.h"             // tolerance checks
#include "tolk/io/npy.h"                 // .npy files
#include "tolk/io/npz.h"                 // .npz files
#include "tolk/io/summary.h"             // statistics of results
#include "tolk/io/value.h"               // inputs and outputs of models
#include "tolk/onnx/model.h"             // ONNX models
#include "tolk/onnx/model_saved.h"       // compiled models in files
#include "tolk/tensor/gradient.h"        // automatic differentiation
#include "tolk/tensor/jit.h"             // captured functions
#include "tolk/tensor/random.h"          // random numbers
#include "tolk/tensor/saved_jit.h"       // captured functions in files
#include "tolk/tensor/tensor.h"          // lazy tensors

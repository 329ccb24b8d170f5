#pragma once
// Marks what libtolk exports; everything else is hidden.
#define TOLK_API __attribute__((visibility("default")))

/* The implementation of volk, which finds the functions of libvulkan.so.1 at run time. */
#define VOLK_IMPLEMENTATION
#include <volk.h>

#version 460
// Partial sums: each work-group of 256 adds COUNT neighbouring elements.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments { Floats y, x; };
layout(push_constant) uniform Push { Arguments args; };

shared float part[256];

void main() {
  uint item = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * COUNT;
  float sum = 0;
  for (uint i = item; i < COUNT; i += 256) sum += args.x.at[first + i];
  part[item] = sum;
  barrier();
  for (uint n = 128; n > 0; n /= 2) {
    if (item < n) part[item] += part[item + n];
    barrier();
  }
  if (item == 0) args.y.at[gl_WorkGroupID.x] = part[0];
}
